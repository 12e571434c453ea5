//! Issue 2: `kill -9` of a stdio server in a call.

use std::time::Duration;

use crate::support::{
    Client, Fake, Reply, Script, Step, World, closest, entries, file, join, process, text, until,
};

#[tokio::test]
async fn fault_089_a_killed_child_costs_its_own_call_only_and_comes_back() {
    let (other, up) = (Fake::http(Script::default()), Fake::stdio(Script::answering(|_| Reply::Stall)));
    let servers = entries(&[("other", other.entry()), ("up", up.entry())]);
    let world = World::start(&file("reconnectInterval: 1s", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let list = client.tools().await;
    let pid = up.pid().await;
    let kill = async {
        up.saw(|seen| seen.method == "tools/call").await;
        process::kill(pid);
    };
    let (answer, ()) = tokio::join!(client.call("who_mcp_up", "{}"), kill);
    let result = &answer["result"];
    assert_eq!(
        (&result["isError"], &result["_meta"]["trunkline/server"]),
        (&true.into(), &"up".into()),
        "{answer}"
    );
    assert!(result["_meta"]["trunkline/retryAfterMs"].is_u64(), "{answer}");
    let told = result["content"][0]["text"].as_str().unwrap();
    assert!(
        told.contains("server up") && told.contains("signal 9") && told.contains("may or may not"),
        "{told}"
    );
    up.change(|script| *script = Script::default());
    let mut calls = 0;
    until("it is back by itself", async || {
        assert_eq!(client.call("who_mcp_other", "{}").await["result"]["content"][0]["text"], "here");
        assert_eq!(client.tools().await, list, "the list stays as it was");
        calls += 1;
        (up.seen().iter().filter(|seen| seen.kind == "START").count() == 2
            && world.server("up").await["state"] == "ready")
            .then_some(())
    })
    .await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    let starts: Vec<_> =
        up.seen().iter().filter(|seen| seen.kind == "START").filter_map(|seen| seen.at).collect();
    assert!(closest(&starts) >= NEARLY, "{:?}", closest(&starts));
    eprintln!(
        "told {told:?}; {calls} calls on another server meanwhile; back after {:?}",
        starts[1] - starts[0]
    );
}

/// One second, but for how much later than it was tried an attempt may be seen on a busy machine.
const NEARLY: Duration = Duration::from_millis(750);

#[tokio::test]
async fn fault_089_a_child_that_always_dies_is_started_once_per_interval_whoever_calls() {
    const STARTS: usize = 5;
    let up = Fake::stdio(Script::default());
    let world =
        World::start(&file("reconnectInterval: 1s", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    up.change(|script| script.refusal = Some(Reply::Steps(vec![Step::Cut])));
    process::kill(up.pid().await);
    let starts = || {
        up.seen().iter().filter(|seen| seen.kind == "START").filter_map(|seen| seen.at).collect::<Vec<_>>()
    };
    let mut stubs = 0;
    let storm = async {
        while starts().len() < STARTS {
            let answers = (0..8).map(|n| client.call(if n < 4 { "who_mcp_up" } else { "new_mcp_up" }, "{}"));
            for answer in join(answers).await {
                assert_eq!(answer["result"]["isError"], true, "{answer}");
                assert!(
                    answer["result"]["_meta"]["trunkline/retryAfterMs"].as_u64().unwrap() <= 1000,
                    "{answer}"
                );
                stubs += 1;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), storm).await.unwrap();
    let starts = starts();
    assert!(closest(&starts) >= NEARLY, "{:?}", closest(&starts));
    // A call that was on its way when the child died failed; all others got a stub without being tried.
    let failed =
        world.metric(r#"trunkline_requests_total{method="tools/call",outcome="failed",server="up"}"#).await;
    let counted = failed + world.metric(r#"trunkline_stub_calls_total{server="up"}"#).await;
    assert!(counted >= f64::from(stubs), "{counted} of {stubs}");
    eprintln!(
        "{STARTS} starts under {stubs} calls, the closest two {:?} apart; the interval is 1 s",
        closest(&starts)
    );
    up.change(|script| *script = Script::answering(|_| Reply::Result(text("again"))));
    world.is("up", "ready").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "again");
}
