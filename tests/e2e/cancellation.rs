//! BEHAVIOUR.md §5 and §8: what ends a call, and what does not.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Fake, Reply, Script, Step, World, answer, entries, file, progress, until};

fn call(tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{{"name":"{tool}","_meta":{{"progressToken":"p"}}}}}}"#
    )
}

const CANCEL: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine","reason":"no"}}"#;

/// Tells progress and answers when the gate opens.
fn gated(gate: &CancellationToken) -> Script {
    let gate = gate.clone();
    Script::answering(move |_| Reply::Steps(vec![progress(), Step::Wait(gate.clone()), answer("done")]))
}

#[tokio::test]
async fn fault_038_a_cancellation_reaches_the_right_server_only() {
    let gate = CancellationToken::new();
    let (http, stdio) = (Fake::http(gated(&gate)), Fake::stdio(gated(&gate)));
    let servers = entries(&[("http", http.entry()), ("stdio", stdio.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let (one, two) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let mut cancelled = one.stream(&call("who_mcp_http")).await;
    let id = http.seen_of("tools/call")[0].id.clone().unwrap();
    let mut kept = two.stream(&call("who_mcp_http")).await;
    let mut on_stdio = two.stream(&call("who_mcp_stdio").replace("mine", "other")).await;
    for stream in [&mut cancelled, &mut kept, &mut on_stdio] {
        assert!(stream.next().await.unwrap().contains("progress"));
    }
    assert_eq!(one.post(CANCEL).await.status, 202);
    assert_eq!(cancelled.next().await, None, "no answer, just the end");
    let told = http.saw(|seen| seen.method == "notifications/cancelled").await;
    assert_eq!(told.params()["requestId"].to_string(), id);
    assert_eq!(two.post(&CANCEL.replace("mine", "other")).await.status, 202);
    assert_eq!(on_stdio.next().await, None);
    let told = stdio.saw(|seen| seen.method == "notifications/cancelled").await;
    assert_eq!(Some(told.params()["requestId"].to_string()), stdio.seen_of("tools/call")[0].id);
    for nothing in ["mine", "never", "other"] {
        assert_eq!(
            one.post(&CANCEL.replace("mine", nothing)).await.status,
            202,
            "not in flight, or another's"
        );
    }
    gate.cancel();
    assert!(kept.next().await.unwrap().contains(r#""id":"mine","result""#), "the other client's call ran on");
    assert_eq!(
        (http.seen_of("notifications/cancelled").len(), stdio.seen_of("notifications/cancelled").len()),
        (1, 1)
    );
    for server in ["http", "stdio"] {
        let series = format!(
            "trunkline_requests_total{{method=\"tools/call\",outcome=\"cancelled\",server=\"{server}\"}}"
        );
        assert!((world.metric(&series).await - 1.0).abs() < 0.1, "{series}");
    }
}

#[tokio::test]
async fn a_silent_server_is_cancelled_after_the_timeout_and_progress_gives_time_anew() {
    let busy = || {
        Script::answering(|_| {
            let quarter = [progress(), Step::Rest(Duration::from_millis(250))];
            Reply::Steps(quarter.iter().cycle().take(10).cloned().chain([answer("done")]).collect())
        })
    };
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let (silent, busy, endless) = (make(Script::answering(|_| Reply::Stall)), make(busy()), make(busy()));
        let servers = entries(&[
            ("silent", silent.entry_with(r#", "timeout": "300ms""#)),
            ("busy", busy.entry_with(r#", "timeout": "600ms""#)),
            ("endless", endless.entry_with(r#", "timeout": "600ms", "maxTotal": "700ms""#)),
        ]);
        let world = World::start(&file("", &servers)).await.ready().await;
        let client = Client::open(&world, "/mcp").await;
        let started = Instant::now();
        let answer = client.call("who_mcp_silent", "{}").await;
        let took = started.elapsed();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("300ms"), "{answer}");
        assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(900), "{took:?}");
        let told = silent.saw(|seen| seen.method == "notifications/cancelled").await;
        assert_eq!(Some(told.params()["requestId"].to_string()), silent.seen_of("tools/call")[0].id);
        assert_eq!(world.server("silent").await["state"], "ready", "slow is not down");
        let started = Instant::now();
        let (answer, cut) =
            tokio::join!(client.call("who_mcp_busy", "{}"), client.call("who_mcp_endless", "{}"));
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        assert_eq!(cut["result"]["isError"], true, "`maxTotal` holds whatever the progress: {cut}");
        endless.saw(|seen| seen.method == "notifications/cancelled").await;
        eprintln!(
            "silent for 300 ms: told after {took:?}; with progress each 250 ms a call of {:?} passed",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_has_not_cancelled() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let gate = CancellationToken::new();
        let up = make(gated(&gate));
        let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        let client = Client::open(&world, "/mcp").await;
        let mut stream = client.stream(&call("who_mcp_up")).await;
        stream.next().await.unwrap();
        drop(stream);
        let in_flight = r#"trunkline_requests_in_flight{server="up"}"#;
        until("the stream is closed", async || (world.metric("trunkline_streams").await < 0.5).then_some(()))
            .await;
        assert!(world.metric(in_flight).await > 0.5, "the call runs on");
        gate.cancel();
        let done = r#"trunkline_requests_total{method="tools/call",outcome="ok",server="up"}"#;
        until("the call ends well", async || (world.metric(done).await > 0.5).then_some(())).await;
        assert!(world.metric(in_flight).await < 0.5);
        assert!(up.seen_of("notifications/cancelled").is_empty());
    }
}
