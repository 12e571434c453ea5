//! Row 98: the operator's stamps.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{REFUSED, save};
use crate::support::{Client, Fake, Reply, Script, Step, World, answer, entries, file, until};

fn config(up: &Fake, stamp: &str, title: &str) -> String {
    let stamp = if stamp.is_empty() { String::new() } else { format!(r#", "updatedAt": {stamp}"#) };
    file("", &entries(&[("up", up.entry_with(&format!(r#"{stamp}, "title": "{title}""#)))]))
}

#[tokio::test]
async fn fault_098_only_a_newer_stamp_replaces_a_connection() {
    let up = Fake::http(Script::default());
    let world = World::start(&config(&up, "1000", "a")).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for (stamp, title, links) in [
        ("1000", "equal", 1),
        ("999", "older", 1),
        ("1000", "no newer than the connection", 1),
        ("\"1970-01-01T00:00:02Z\"", "newer", 2),
        ("2000", "the same time", 2),
        ("", "absent", 2),
        ("2000", "the same again", 2),
        ("2001", "newer again", 3),
        ("99999999999999", "from the future", 4),
        ("99999999999999", "still from the future", 4),
    ] {
        save(&world, &config(&up, stamp, title)).await;
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
        let status = world.server("up").await;
        assert_eq!(status["title"], title);
        assert!(status["updatedAt"].as_u64().unwrap() > 0, "{status}");
        assert_eq!(up.seen_of("initialize").len(), links, "{title}");
    }
}

#[tokio::test]
async fn fault_098_without_a_stamp_the_last_change_is_told() {
    let (up, beside) = (Fake::http(Script::default()), Fake::http(Script::default()));
    let text = |title: &str| {
        let up = up.entry_with(&format!(r#", "title": "{title}""#));
        file("", &entries(&[("up", up), ("beside", beside.entry())]))
    };
    let world = World::start(&text("a")).await.ready().await;
    let stamps = async || {
        let stamp = async |name| world.server(name).await["updatedAt"].as_u64().unwrap();
        (stamp("up").await, stamp("beside").await)
    };
    let first = stamps().await;
    save(&world, &text("b")).await;
    let second = stamps().await;
    assert!(second.0 > first.0 && second.1 == first.1, "{first:?} {second:?}");
    assert_eq!(up.seen_of("initialize").len(), 1);
}

#[tokio::test]
async fn fault_098_a_stamp_that_is_none_is_refused() {
    let up = Fake::http(Script::default());
    let world = World::start(&config(&up, "1000", "a")).await.ready().await;
    for stamp in ["yesterday", "-1", "[1]", "1e400", "\"2026-13-45T00:00:00Z\""] {
        let refused = world.metric(REFUSED).await;
        world.mount.save(&config(&up, stamp, "b"));
        until(stamp, async || (world.metric(REFUSED).await > refused).then_some(())).await;
        let status = world.status().await;
        assert!(status["configProblems"].to_string().contains("updatedAt"), "{stamp}: {status}");
        assert_eq!(world.server("up").await["title"], "a");
    }
    assert_eq!(up.seen_of("initialize").len(), 1);
}

#[tokio::test]
async fn fault_098_calls_in_flight_end_on_the_connection_they_began_on() {
    let gate = CancellationToken::new();
    let waiting = gate.clone();
    let call = move |_: &_| Reply::Steps(vec![Step::Wait(waiting.clone()), answer("at last")]);
    let up = Fake::http(Script { sessions: true, call: Arc::new(call), ..Script::default() });
    let world = World::start(&config(&up, "1", "a")).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let replace = async {
        let session = up.saw(|seen| seen.method == "tools/call").await.header("mcp-session-id").to_owned();
        save(&world, &config(&up, "2", "b")).await;
        up.change(|script| script.call = Arc::new(|_| Reply::Result(crate::support::text("anew"))));
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "anew");
        let newest = up.seen_of("tools/call").pop().unwrap();
        assert_ne!(newest.header("mcp-session-id"), session, "another connection");
        gate.cancel();
    };
    let (answer, ()) = tokio::join!(client.call("who_mcp_up", "{}"), replace);
    assert_eq!(answer["result"]["content"][0]["text"], "at last", "{answer}");
}
