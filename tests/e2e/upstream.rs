//! BEHAVIOUR.md §4 to §6, from a server's side.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use nix::sys::signal::Signal;
use tokio::time::sleep_until;

use crate::support::{
    Client, Fake, Reply, SOON, Script, Step, World, answer, entries, file, join, progress, text, tool, until,
};

#[tokio::test]
async fn fault_075_a_lost_session_is_opened_again_once_and_the_calls_sent_again() {
    // One link for all; or the keeper's, which does not notice, and the client's own.
    for (scope, links) in [("shared", 1), ("auto", 2)] {
        a_lost_session_is_opened_again_once(scope, links).await;
    }
}

async fn a_lost_session_is_opened_again_once(scope: &str, links: usize) {
    let interval = Duration::from_millis(200);
    let up = Fake::http(Script { sessions: true, ..Script::default() });
    let servers = entries(&[("up", up.entry_with(&format!(r#", "scope": "{scope}""#)))]);
    let world = World::start(&file("reconnectInterval: 200ms", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    let first = up.seen_of("initialize").last().unwrap().at.unwrap();
    sleep_until(first + interval * 2).await; // so that the pace allows another attempt at once
    up.forget();
    for answer in join((0..10).map(|_| client.call("who_mcp_up", "{}"))).await {
        assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    }
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    assert_eq!(up.seen_of("initialize").len(), links + 1);
    let sessions: std::collections::HashSet<_> =
        up.seen_of("tools/call").iter().map(|seen| seen.header("mcp-session-id").to_owned()).collect();
    assert_eq!(sessions.len(), 2);
    eprintln!("10 calls on a lost session: all answered after one `initialize`");
}

#[tokio::test]
async fn a_server_that_wants_credentials_says_so_everywhere() {
    for code in [401, 403] {
        let refusing = Some(Reply::Status(code, vec![("www-authenticate", "Bearer".into())]));
        let up = Fake::http(Script::default());
        let world = World::start(&file("reconnectInterval: 100ms", &entries(&[("up", up.entry())])))
            .await
            .ready()
            .await;
        let client = Client::open(&world, "/mcp").await;
        up.change(|script| script.refusal.clone_from(&refusing));
        for _ in 0..2 {
            let answer = client.call("who_mcp_up", "{}").await;
            let told = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            assert!(told.contains(&code.to_string()) && told.contains("credentials"), "{told}");
            world.is("up", "needsAuthorization").await;
        }
        // Between two attempts; during one it is being connected.
        let status = until("the status tells", async || {
            let status = world.server("up").await;
            (status["state"] == "needsAuthorization").then_some(status)
        })
        .await;
        assert!(status["reason"].as_str().is_some_and(|text| text.contains(&code.to_string())), "{status}");
        assert!(status["whatToDo"].as_str().is_some_and(|text| text.contains("credentials")), "{status}");
        let series = r#"trunkline_upstream_state{server="up",state="needs_authorization"}"#;
        until("it is counted so", async || (world.metric(series).await > 0.5).then_some(())).await;
        up.change(|script| script.refusal = None);
        world.is("up", "ready").await;
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    }
}

#[tokio::test]
async fn fault_073_a_busy_server_is_not_down_and_gets_the_pause_it_asks_for() {
    // On the connection that all share, and on a session's own.
    for (code, sessions) in [(429, false), (503, true)] {
        let busy = Script::answering(move |_| Reply::Status(code, vec![("retry-after", "2".into())]));
        let up = Fake::http(Script { sessions, ..busy });
        let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        let client = Client::open(&world, "/mcp").await;
        let answer = client.call("who_mcp_up", "{}").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["_meta"]["trunkline/retryAfterMs"], 2000, "{answer}");
        let asked = up.seen_of("tools/call")[0].at.unwrap();
        let status = world.server("up").await;
        assert_eq!(status["state"], "ready");
        let left = status["nextTryInSeconds"].as_f64();
        assert!(left.is_some_and(|left| 0.0 < left && left <= 2.0), "{status}");
        assert!(
            status["reason"].as_str().is_some_and(|why| why.contains("asked to be left alone")),
            "{status}"
        );
        up.change(|script| *script = Script { sessions, ..Script::default() });
        until("it is asked again", async || {
            let answer = client.call("who_mcp_up", "{}").await;
            (answer["result"]["content"][0]["text"] == "here").then_some(())
        })
        .await;
        let asked_again = up.seen_of("tools/call").last().unwrap().at.unwrap();
        assert!(asked_again - asked >= Duration::from_secs(2), "{:?}", asked_again - asked);
        assert_eq!(up.seen_of("tools/call").len(), 2);
        assert_eq!(up.seen_of("initialize").len(), 1 + usize::from(sessions));
        let status = world.server("up").await;
        assert!(status["nextTryInSeconds"].is_null() && status["reason"].is_null(), "{status}");
        let turned = r#"trunkline_upstream_calls_turned_away_total{reason="retry_after",server="up"}"#;
        assert!(world.metric(turned).await >= 1.0);
    }
}

#[tokio::test]
async fn fault_083_all_pages_are_followed_and_a_circle_ends_and_is_seen() {
    let page = |name: &str, next: &str| format!(r#"{{"tools":[{}]{next}}}"#, tool(name));
    let paged = Fake::http(Script {
        list: Some(Arc::new(move |cursor| match cursor.as_deref() {
            None => page("a", r#","nextCursor":"2""#),
            Some("2") => page("b", r#","nextCursor":"3""#),
            Some(_) => page("c", ""),
        })),
        ..Script::default()
    });
    let circle = Fake::stdio(Script {
        list: Some(Arc::new(move |_| page("d", r#","nextCursor":"again""#))),
        ..Script::default()
    });
    let servers = entries(&[("paged", paged.entry()), ("circle", circle.entry())]);
    let mut world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.tools().await, ["a_mcp_paged", "b_mcp_paged", "c_mcp_paged", "d_mcp_circle"]);
    assert_eq!((paged.seen_of("tools/list").len(), circle.seen_of("tools/list").len()), (3, 2));
    assert!(world.server("circle").await["toolsCut"].as_str().unwrap().contains("cursor"));
    assert_eq!(world.server("paged").await["toolsCut"], serde_json::Value::Null);
    let cut = world.metric(r#"trunkline_upstream_listings_truncated_total{server="circle"}"#).await;
    assert!((cut - 1.0).abs() < 0.1, "{cut}");
    world.logged("only a part of what it has").await;
}

#[tokio::test]
async fn a_changed_list_is_told_and_its_new_tools_can_be_called() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(Script { tells: true, ..Script::default() });
        let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        let (all, own) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp/up").await);
        let mut streams = [all.listen().await, own.listen().await];
        // The stream over HTTP has to stand before anything can be told on it.
        up.saw(|seen| seen.kind == "GET" || seen.kind == "START").await;
        up.change(|script| script.tools.push(tool("new")));
        up.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        for stream in &mut streams {
            assert!(stream.next().await.unwrap().contains("notifications/tools/list_changed"));
        }
        assert_eq!(all.tools().await, ["who_mcp_up", "new_mcp_up"]);
        assert_eq!(own.tools().await, ["who", "new"]);
        assert_eq!(own.call("new", "{}").await["result"]["content"][0]["text"], "here");
        // One told in the middle of a call counts as well.
        up.change(|script| {
            script.tools.remove(0);
            script.call = Arc::new(|_| {
                let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                Reply::Steps(vec![Step::Send(changed.into()), answer("changed")])
            });
        });
        assert_eq!(all.call("new_mcp_up", "{}").await["result"]["content"][0]["text"], "changed");
        assert!(streams[0].next().await.unwrap().contains("notifications/tools/list_changed"));
        assert_eq!(all.tools().await, ["new_mcp_up"]);
    }
}

#[tokio::test]
async fn a_tool_that_is_not_listed_yet_is_looked_for_once() {
    let up = Fake::http(Script::default());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    up.change(|script| script.tools.push(tool("new")));
    assert_eq!(client.call("new_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    let lists = up.seen_of("tools/list").len();
    for _ in 0..20 {
        assert_eq!(client.call("nothing_mcp_up", "{}").await["error"]["code"], -32602);
    }
    assert_eq!(up.seen_of("tools/list").len(), lists + 1, "a miss is remembered");
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_costs_its_own_call_only() {
    let up = Fake::http(Script::answering(|seen| {
        if seen.text.contains("cut") {
            Reply::Steps(vec![progress(), Step::Cut])
        } else {
            Reply::Result(text("here"))
        }
    }));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let answer = client.call("who_mcp_up", r#"{"cut":true}"#).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    assert_eq!(
        (up.seen_of("initialize").len(), up.seen_of("tools/call").len()),
        (1, 2),
        "it is never sent twice"
    );
}

#[tokio::test]
async fn fault_082_a_servers_own_requests_are_answered() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(Script { tells: true, ..Script::default() });
        let _world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        up.saw(|seen| seen.kind == "GET" || seen.kind == "START").await;
        up.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
        up.saw(|seen| seen.text == r#"{"jsonrpc":"2.0","id":"p","result":{}}"#).await;
        up.say(r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#);
        up.saw(|seen| seen.id.as_deref() == Some("7") && seen.text.contains("-32603")).await; // no client
        up.say(r#"{"jsonrpc":"2.0","id":8,"method":"no/such"}"#);
        up.saw(|seen| seen.id.as_deref() == Some("8") && seen.text.contains("-32601")).await;
    }
}

#[tokio::test]
async fn a_session_is_given_back_at_the_end() {
    let up = Fake::http(Script { sessions: true, ..Script::default() });
    let mut world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let session = up.saw(|seen| seen.method == "tools/list").await.header("mcp-session-id").to_owned();
    world.signal(Signal::SIGTERM);
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    let gone = up.saw(|seen| seen.kind == Method::DELETE.as_str()).await;
    assert_eq!((gone.header("mcp-session-id"), session.is_empty()), (&*session, false));
    until("it is forgotten", async || up.sessions().eq(&0).then_some(())).await;
}
