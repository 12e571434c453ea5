//! Issue 2: how it starts, and how it ends.

use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::support::{Client, Fake, SOON, Script, World, entries, file, process, until};

#[tokio::test]
async fn calls_in_flight_finish_before_the_end() {
    let servers = entries(&[("demo", r#"{"command": "self", "args": ["demo-server"]}"#.into())]);
    let mut world = World::start(&file("", &servers)).await.ready().await;
    let (client, left) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow_mcp_demo","arguments":{"seconds":1.6},"_meta":{"progressToken":1}}}"#;
    let (mut stream, mut abandoned) = tokio::join!(client.stream(call), left.stream(call));
    assert!(stream.next().await.unwrap().contains("quarter 1"));
    abandoned.next().await.unwrap();
    drop(abandoned);
    world.signal(Signal::SIGTERM);
    until("readiness fails", async || (world.admin("/readyz").await.0 == 503).then_some(())).await;
    until("nobody new is let in", async || {
        Client::new(world.url("/mcp")).try_send(hyper::Method::POST, "{}").await.err()
    })
    .await;
    let mut last = String::new();
    while let Some(event) = stream.next().await {
        last = event;
    }
    assert!(last.contains("That took 1.6 seconds."), "{last}");
    let answered = Instant::now();
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    eprintln!("a call in flight was answered; ended {:?} after that", answered.elapsed());
}

#[tokio::test]
async fn children_end_when_it_is_killed() {
    let up = Fake::stdio(Script::default());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let pid = up.pid().await;
    process::kill(world.pid());
    until("its child is gone", async || (!process::runs(pid)).then_some(())).await;
}
