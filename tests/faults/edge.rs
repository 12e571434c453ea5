//! Section A: the edge towards clients, HTTP and TLS; and what else of it is at the front.

mod busy;
mod ends;
mod floods;
mod framing;
mod limits;
mod slow;
mod tls;

use std::time::Duration;

use crate::support::{Client, Fake, Script, World, entries, file};

/// A world with one server, `up`, and these limits.
async fn world(limits: &str, script: Script) -> (World, Fake) {
    let up = Fake::http(script);
    let world = World::start(&file(limits, &entries(&[("up", up.entry())]))).await.ready().await;
    (world, up)
}

/// Whoever has nothing to do with a fault is served, and soon.
async fn others_are_well(world: &World) {
    let started = tokio::time::Instant::now();
    let client = Client::open(world, "/mcp").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

/// How often clients' connections were closed for this reason.
async fn closed(world: &World, reason: &str) -> f64 {
    world.metric(&format!("trunkline_connections_closed_total{{reason=\"{reason}\"}}")).await
}

/// How often requests were refused for this reason.
async fn rejected(world: &World, reason: &str) -> f64 {
    world.metric(&format!("trunkline_rejected_total{{reason=\"{reason}\"}}")).await
}
