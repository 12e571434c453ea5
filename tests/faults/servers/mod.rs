//! Section D: servers that misbehave.

mod answers;
mod asks;
mod away;
mod broken;
mod changed;
mod children;
mod floods;
mod lists;
mod slow;
mod tls;

use std::time::Duration;

use serde_json::Value;

use crate::support::{Client, Fake, Script, World, entries, file, join};

/// The text of a tool's result.
fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Whether it is a tool's result that tells of a failure.
fn is_stub(answer: &Value) -> bool {
    answer["result"]["isError"] == true
}

/// A server that has nothing to do with the fault of `bad`, beside it.
struct Beside {
    world: World,
    client: Client,
    _other: Fake,
}

impl Beside {
    async fn start(limits: &str, bad: &[(&str, String)]) -> Self {
        let other = Fake::http(Script::default());
        let mut servers = bad.to_vec();
        servers.push(("other", other.entry()));
        let world = World::start(&file(limits, &entries(&servers))).await.ready().await;
        let client = Client::open(&world, "/mcp").await;
        Self { world, client, _other: other }
    }

    /// Calls the other server some times while the fault is there: all is as ever.
    async fn others_are_well(&self) {
        let started = tokio::time::Instant::now();
        for answer in join((0..20).map(|_| self.client.call("who_mcp_other", "{}"))).await {
            assert_eq!(said(&answer), "here", "{answer}");
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(4), "others took {took:?}");
    }
}
