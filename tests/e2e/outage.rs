//! Issue 2: a server that was away for longer than any pause.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::support::{Client, Fake, Reply, Script, World, entries, file, scaled, text, until};

const INTERVAL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_server_that_refused_connections_is_back_within_an_interval() {
    outage(false).await;
}

#[tokio::test]
async fn a_server_that_said_nothing_is_back_within_an_interval() {
    outage(true).await;
}

async fn outage(silent: bool) {
    let away = INTERVAL * u32::try_from(scaled(4, 60)).unwrap();
    let up = Fake::http(Script { tells: true, ..Script::default() });
    let entry = up.entry_with(r#", "connectTimeout": "500ms""#);
    let text_of_file = file("reconnectInterval: 1s", &entries(&[("up", entry)]));
    let world = World::start(&text_of_file).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let list = client.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    let mut stream = client.listen().await;
    up.saw(|seen| seen.kind == "GET").await;
    up.leave().await;
    let left = Instant::now();
    until("it is noticed", async || (world.server("up").await["state"] != "ready").then_some(())).await;
    if silent {
        up.fall_silent();
    }
    let (mut stubs, mut slowest) = (0, Duration::ZERO);
    while left.elapsed() < away {
        let started = Instant::now();
        let answer = client.call("who_mcp_up", "{}").await;
        slowest = slowest.max(started.elapsed());
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(client.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await, list);
        stubs += 1;
    }
    assert!(slowest < Duration::from_millis(200), "a stub took {slowest:?}");
    up.change(|script| script.call = std::sync::Arc::new(|_| Reply::Result(text("back"))));
    sleep_until(left + away + Duration::from_millis(330)).await; // in the middle of an interval
    let back = Instant::now();
    up.back();
    until("it is usable", async || {
        let answer = client.call("who_mcp_up", "{}").await;
        (answer["result"]["content"][0]["text"] == "back").then_some(())
    })
    .await;
    let usable = back.elapsed();
    let told = stream.next().await.unwrap();
    let (told_after, told) = (back.elapsed(), told.contains("notifications/tools/list_changed"));
    assert!(told && usable < INTERVAL + Duration::from_secs(1), "{usable:?}");
    eprintln!(
        "away for {away:?}, {stubs} calls got stubs, the slowest in {slowest:?}; usable {usable:?} after it came \
         back, list_changed after {told_after:?}"
    );
}
