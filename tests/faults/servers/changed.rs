//! Servers that come back, again and again, or as somebody else.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Beside, is_stub, said};
use crate::support::{Fake, Relay, Script, Weather, tool, until};

#[tokio::test]
async fn fault_086_a_server_that_flaps_costs_one_attempt_per_interval_and_its_list_stands() {
    let up = Fake::stdio(Script::default());
    let web = Fake::http(Script { tells: true, ..Script::default() });
    let relay = Relay::to(&web.entry());
    let beside =
        Beside::start("reconnectInterval: 1s", &[("up", up.entry()), ("web", relay.entry(""))]).await;
    let list = beside.client.tools().await;
    let began = Instant::now();
    let (mut calls, mut stubs) = (0, 0);
    while began.elapsed() < Duration::from_secs(6) {
        // Every tenth of an interval: a child is killed, a network breaks and is away for a moment.
        let pid = up.pid().await;
        if crate::support::process::runs(pid) {
            crate::support::process::kill(pid);
        }
        relay.weather(|weather| weather.closed = true);
        relay.reset();
        sleep(Duration::from_millis(50)).await; // how long it is away
        relay.weather(|weather| *weather = Weather::default());
        for name in ["up", "web"] {
            let answer = beside.client.call(&format!("who_mcp_{name}"), "{}").await;
            assert!(is_stub(&answer) || said(&answer) == "here", "{answer}");
            (calls, stubs) = (calls + 1, stubs + usize::from(is_stub(&answer)));
        }
        assert_eq!(beside.client.tools().await, list, "the list does not flicker");
    }
    beside.others_are_well().await;
    let most = began.elapsed().as_secs_f64() + 2.0;
    // A broken network costs the server over HTTP connections, not always the link.
    for (name, least) in [("up", 1.0), ("web", 0.0)] {
        let series = format!(r#"trunkline_upstream_reconnects_total{{reason="lost",server="{name}"}}"#);
        let attempts = beside.world.metric(&series).await;
        assert!((least..=most).contains(&attempts), "{name}: {attempts} attempts, at most {most}");
    }
    eprintln!("{calls} calls, {stubs} of them stubs");
    assert!(calls > 20 && stubs > 0);
    until("both are back", async || {
        let up = beside.client.call("who_mcp_up", "{}").await;
        let web = beside.client.call("who_mcp_web", "{}").await;
        (said(&up) == "here" && said(&web) == "here").then_some(())
    })
    .await;
}

#[tokio::test]
async fn fault_087_a_server_that_comes_back_as_another_is_met_anew_and_told_once() {
    for make in [Fake::http, Fake::stdio] {
        let up = make(Script { tools: vec![tool("old"), tool("both")], tells: true, ..Script::default() });
        let beside = Beside::start("reconnectInterval: 300ms", &[("up", up.entry())]).await;
        let client = &beside.client;
        let mut stream = client.listen().await;
        assert_eq!(said(&client.call("old_mcp_up", "{}").await), "here");
        up.leave().await;
        until("it is gone", async || is_stub(&client.call("old_mcp_up", "{}").await).then_some(())).await;
        up.change(|script| {
            script.tools = vec![tool("both"), tool("new")];
            script.capabilities = Some(r#"{"tools":{}}"#.into());
            script.instructions = Some("another now".into());
        });
        up.back();
        until("it is met anew", async || {
            (said(&client.call("new_mcp_up", "{}").await) == "here").then_some(())
        })
        .await;
        assert_eq!(client.tools().await, ["both_mcp_up", "new_mcp_up", "who_mcp_other"]);
        // It is there and says that it has no such tool, which is no outage: the client is told to list again.
        let stale = client.call("old_mcp_up", "{}").await;
        assert_eq!(stale["error"]["code"], -32602, "{stale}");
        assert!(stream.next().await.unwrap().contains("notifications/tools/list_changed"));
        let more = timeout(Duration::from_secs(1), stream.next()).await;
        assert!(more.is_err(), "told twice: {more:?}");
    }
}

#[tokio::test]
async fn fault_088_a_revision_that_nobody_speaks_is_told() {
    let up = Fake::http(Script {
        overrule: Some(std::sync::Arc::new(|seen| {
            let hello = r#"{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}"#;
            (seen.method == "initialize").then(|| crate::support::Reply::Result(hello.into()))
        })),
        ..Script::default()
    });
    let beside = Beside::start("", &[("up", up.entry())]).await;
    let status = beside.world.server("up").await;
    assert!(status["reason"].as_str().unwrap().contains("1999-01-01"), "{status}");
    beside.others_are_well().await;
}
