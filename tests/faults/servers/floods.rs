//! Servers that say too much unasked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Beside;
use crate::support::{Act, Fake, Reply, Script, process, text, tool, until};

#[tokio::test]
async fn fault_081_a_storm_of_changes_is_one_list_a_second() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(Script { tells: true, ..Script::default() });
        let beside = Beside::start("", &[("up", up.entry())]).await;
        up.saw(|seen| seen.kind == "GET" || seen.kind == "START").await;
        let mut stream = beside.client.listen().await;
        let (before, began) = (up.seen_of("tools/list").len(), Instant::now());
        let mut told = 0;
        while began.elapsed() < Duration::from_secs(3) {
            up.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
            told += 1;
            sleep_until(Instant::now() + Duration::from_millis(2)).await; // the storm's own pace
        }
        beside.others_are_well().await;
        up.change(|script| script.tools.push(tool("last")));
        up.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        until("the last change is seen", async || {
            beside.client.tools().await.contains(&"last_mcp_up".into()).then_some(())
        })
        .await;
        let lists = up.seen_of("tools/list").len() - before;
        let most = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
        assert!((1..=most).contains(&lists), "{told} changes made {lists} lists, at most {most}");
        let first = stream.next().await.unwrap();
        assert!(first.contains("list_changed"), "{first}");
    }
}

#[tokio::test]
async fn fault_081_a_flood_of_notifications_is_dropped_and_counted() {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#;
    let flood = format!("data: {line}\n\n").repeat(100);
    let up = Fake::faulty(Script {
        stream: Some(Arc::new(move |_| {
            Reply::Raw(vec![Act::events(), Act::Flood(flood.clone().into(), 1000), Act::Silence])
        })),
        tools: vec![tool("who")],
        ..Script::default()
    });
    let beside = Beside::start("", &[("up", up.entry())]).await;
    let mut stream = beside.client.listen().await;
    let before = process::rss(beside.world.pid());
    let series = r#"trunkline_upstream_notices_dropped_total{server="up"}"#;
    until("the flood is counted", async || {
        beside.others_are_well().await;
        (beside.world.metric(series).await > 10_000.0).then_some(())
    })
    .await;
    let answer = beside.client.call("who_mcp_up", "{}").await;
    assert_eq!(answer["result"]["content"][0]["text"], "here");
    let grown = process::rss(beside.world.pid()).saturating_sub(before);
    assert!(grown < 40 << 10, "{grown} KiB more");
    assert!(stream.next().await.unwrap().contains("notifications/message"), "some of it is told");
}

#[tokio::test]
async fn fault_081_an_event_that_is_no_message_costs_itself_only() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let up = Fake::faulty(Script {
        capabilities: Some(r#"{"tools":{"listChanged":true}}"#.into()),
        stream: Some(Arc::new(move |_| {
            let bad = Act::bytes("data: {\"jsonrpc\": nonsense\n\ndata: 7\n\nevent: other\ndata: x\n\n");
            Reply::Raw(vec![Act::events(), bad, Act::event(changed), Act::Silence])
        })),
        call: Arc::new(|_| Reply::Result(text("here"))),
        ..Script::default()
    });
    let beside = Beside::start("", &[("up", up.entry())]).await;
    until("the change is heard", async || (up.seen_of("tools/list").len() >= 2).then_some(())).await;
    assert_eq!(up.seen().iter().filter(|seen| seen.kind == "GET").count(), 1, "the stream goes on");
    let series = r#"trunkline_upstream_messages_dropped_total{reason="unreadable",server="up"}"#;
    assert!((beside.world.metric(series).await - 2.0).abs() < 0.1);
}
