//! Servers of the older HTTP+SSE transport (PROTOCOL.md §6).

use std::sync::Arc;

use hyper::Method;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Fake, Reply, Script, Seen, Step, World, answer, entries, file, join, progress, text, until,
};

fn count(up: &Fake, what: impl Fn(&Seen) -> bool) -> usize {
    up.seen().iter().filter(|seen| what(seen)).count()
}

/// Calls until the server is connected again.
async fn here(client: &Client) {
    until("it is here", async || {
        let answer = client.call("who_mcp_up", "{}").await;
        (answer["result"]["content"][0]["text"] == "here").then_some(())
    })
    .await;
}

#[tokio::test]
async fn fault_088_an_older_server_is_found_out_or_named_and_its_stream_opened_again() {
    for (more, refused) in [("", 1), (r#", "type": "sse""#, 0), (r#", "transport": "sse""#, 0)] {
        let up = Fake::sse(Script::default());
        let servers = entries(&[("up", up.entry_with(more))]);
        let world = World::start(&file("reconnectInterval: 100ms", &servers)).await.ready().await;
        let client = Client::open(&world, "/mcp").await;
        assert_eq!(client.tools().await, ["who_mcp_up"]);
        here(&client).await;
        assert!(world.log().iter().all(|line| line["level"] == "INFO"), "{:?}", world.log());
        // One stream for us and one for the client's session. Where streamable HTTP may be spoken it is asked for that
        // first, and once only.
        let streams = || count(&up, |seen| seen.kind == "GET");
        assert_eq!((up.seen_of("initialize").len(), streams()), (2 + refused, 2));
        let list = up.saw(|seen| seen.method == "tools/list").await;
        assert_eq!(list.header("mcp-protocol-version"), "2025-11-25");
        let gate = CancellationToken::new();
        let cutting = gate.clone();
        up.change(|script| {
            script.call = Arc::new(move |seen| {
                let waiting = [progress(), Step::Wait(cutting.clone())];
                let end = if seen.text.contains("cut") { Step::Cut } else { answer("too late") };
                Reply::Steps(waiting.into_iter().chain([end]).collect())
            });
        });
        // One stream for all calls: its end is theirs.
        let calls = ["{}", r#"{"cut":true}"#, "{}"].map(|arguments| client.call("who_mcp_up", arguments));
        let cut = async {
            until("all are called", async || (up.seen_of("tools/call").len() == 4).then_some(())).await;
            up.change(|script| script.call = Arc::new(|_| Reply::Stall)); // nobody is asked twice
            gate.cancel();
        };
        let (answers, ()) = tokio::join!(join(calls.into_iter()), cut);
        let cuts = answers.iter().filter(|answer| answer["result"]["isError"] == true).count();
        assert!(cuts >= 1, "{answers:?}");
        up.change(|script| script.call = Arc::new(|_| Reply::Result(text("here"))));
        here(&client).await;
        assert_eq!((up.seen_of("initialize").len(), streams()), (3 + refused, 3));
        assert_eq!(count(&up, |seen| seen.kind == Method::DELETE.as_str()), 0);
    }
}

#[tokio::test]
async fn a_url_where_nothing_of_mcp_is_says_so_with_the_status_of_the_post() {
    let up = Fake::http(Script::default());
    up.change(|script| script.refusal = Some(Reply::Status(404, vec![])));
    let named = up.entry_with(r#", "type": "sse""#);
    let servers = entries(&[("up", up.entry()), ("named", named)]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let reason = async |name: &str| world.server(name).await["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason("up").await, "answered with HTTP 404");
    let told = reason("named").await;
    assert!(told.contains("HTTP 404") && told.contains("type: sse"), "{told}");
}
