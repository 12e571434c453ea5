//! BEHAVIOUR.md §6 and PROTOCOL.md §3.13: links of single sessions.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Fake, Reply, SOON, Script, Seen, Step, World, answer, entries, file, join, process, scaled, text,
    until,
};

/// A server that hands out sessions, and one that is a child for each.
fn kinds() -> [(Fake, &'static str); 3] {
    let sessions = Script { sessions: true, ..Script::default() };
    [
        (Fake::http(sessions.clone()), ""),
        (Fake::sse(Script::default()), ""),
        (Fake::stdio(Script::default()), r#", "scope": "session""#),
    ]
}

async fn world(limits: &str, up: &Fake, more: &str) -> World {
    World::start(&file(limits, &entries(&[("up", up.entry_with(more))]))).await.ready().await
}

async fn here(client: &Client) {
    let answer = client.call("who_mcp_up", "{}").await;
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
}

/// What a stub says.
fn stub(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

async fn bye(client: &Client) {
    assert_eq!(client.whole(Method::DELETE, "").await.status, 204);
}

async fn links(world: &World, n: f64) {
    until(&format!("there are {n} links"), async || {
        let links = world.metric(r#"trunkline_upstream_links{server="up"}"#).await;
        ((links - n).abs() < 0.1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn two_sessions_are_two_for_the_server_from_their_first_calls_to_their_ends() {
    for (up, more) in kinds() {
        let world = world("", &up, more).await;
        let (one, two) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp/up").await);
        let greeted = up.seen_of("initialize").len();
        one.tools().await;
        assert_eq!(up.seen_of("initialize").len(), greeted, "a list needs no link of one's own");
        // Many first calls at once make one link.
        join((0..10).map(|_| here(&one))).await;
        links(&world, 2.0).await;
        let answer = two.call("who", "{}").await;
        assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
        here(&one).await;
        links(&world, 3.0).await;
        let sessions = |method: &str| -> std::collections::HashSet<_> {
            up.seen_of(method).iter().map(|seen| seen.header("mcp-session-id").to_owned()).collect()
        };
        if up.sessions() > 0 {
            assert_eq!(sessions("tools/call").len(), 2, "one each");
            assert!(sessions("tools/call").is_disjoint(&sessions("tools/list")), "and not the keeper's");
            assert_eq!(up.sessions(), 3);
        }
        bye(&one).await;
        links(&world, 2.0).await;
        bye(&two).await;
        links(&world, 1.0).await;
        until("the server has seen the ends", async || (up.sessions() <= 1).then_some(())).await;
        until("children end", async || (process::children(world.pid()).len() <= 1).then_some(())).await;
    }
}

#[tokio::test]
async fn an_own_link_says_what_its_client_can_and_wants() {
    let up = Fake::stdio(Script {
        capabilities: Some(r#"{"tools":{},"logging":{}}"#.into()),
        other: Arc::new(|_| Reply::Result("{}".into())),
        ..Script::default()
    });
    let world = world("", &up, r#", "interactive": true"#).await;
    let shared = up.seen_of("initialize")[0].params()["capabilities"].clone();
    assert!(shared["sampling"]["tools"].is_object() && shared["elicitation"]["url"].is_object(), "{shared}");
    let able = r#"{"sampling":{"x":1},"elicitation":{},"extensions":{"a/b":{}}}"#;
    let client = Client::able(&world, "/mcp", able).await;
    client.json("logging/setLevel", r#"{"level":"error"}"#).await;
    up.saw(|seen| seen.method == "logging/setLevel").await; // the keeper's link
    here(&client).await;
    let own = up.seen_of("initialize")[1].params()["capabilities"].clone();
    assert_eq!(own, serde_json::from_str::<Value>(able).unwrap());
    let levels = || -> Vec<_> {
        let level = |seen: &Seen| seen.params()["level"].as_str().unwrap().to_owned();
        up.seen_of("logging/setLevel").iter().map(level).collect()
    };
    assert_eq!(levels(), ["error", "error"], "before the first call");
    client.json("logging/setLevel", r#"{"level":"debug"}"#).await;
    here(&client).await;
    until("both hear of another level", async || {
        (levels() == ["error", "error", "debug", "debug"]).then_some(())
    })
    .await;
    // Only the session's own link hears of its roots.
    let roots = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    assert_eq!(client.post(roots).await.status, 202);
    up.saw(|seen| seen.text == roots).await;
    here(&client).await;
    assert_eq!(up.seen().iter().filter(|seen| seen.text == roots).count(), 1);
}

#[tokio::test]
async fn an_unused_own_link_is_closed_and_opened_again_when_it_is_wanted() {
    for (up, more) in kinds() {
        let gate = CancellationToken::new();
        let world = world("connectionIdle: 300ms", &up, more).await;
        let client = Client::open(&world, "/mcp").await;
        for _ in 0..2 {
            here(&client).await;
            links(&world, 2.0).await;
            links(&world, 1.0).await;
        }
        // One in use stays, however long the call takes.
        let waiting = gate.clone();
        up.change(|script| {
            script.call = Arc::new(move |_| Reply::Steps(vec![Step::Wait(waiting.clone()), answer("here")]));
        });
        let until_later = Instant::now() + Duration::from_millis(1500);
        let later = async {
            sleep_until(until_later).await;
            links(&world, 2.0).await;
            gate.cancel();
        };
        tokio::join!(here(&client), later);
    }
}

#[tokio::test]
async fn over_the_cap_a_stub_says_so_and_nobody_is_disturbed() {
    let gate = CancellationToken::new();
    let waiting = gate.clone();
    let up = Fake::stdio(Script::answering(move |_| {
        Reply::Steps(vec![Step::Wait(waiting.clone()), answer("here")])
    }));
    let world = world("connections: 2", &up, r#", "scope": "session""#).await;
    let clients = join((0..3).map(|_| Client::open(&world, "/mcp"))).await;
    let beyond = async {
        until("both wait", async || (up.seen_of("tools/call").len() == 2).then_some(())).await;
        let answer = clients[2].call("who_mcp_up", "{}").await;
        assert!(stub(&answer).contains("2 connections") && stub(&answer).contains("limit"), "{answer}");
        gate.cancel();
    };
    tokio::join!(here(&clients[0]), here(&clients[1]), beyond);
    bye(&clients[1]).await;
    here(&clients[2]).await;
    until("one child each", async || (process::children(world.pid()).len() == 3).then_some(())).await;
}

/// Clients that went away without a word must not keep new ones out until their connections are old.
#[tokio::test]
async fn the_longest_idle_own_link_makes_room() {
    for (up, more) in kinds() {
        let world = world("connections: 3", &up, more).await;
        let clients = join((0..5).map(|_| Client::open(&world, "/mcp"))).await;
        let greeted = || up.seen_of("initialize").len();
        let mut listening = clients[0].listen().await;
        for client in &clients[..3] {
            here(client).await;
        }
        here(&clients[1]).await; // so the third is the longest idle of those that do not listen
        let before = greeted();
        here(&clients[3]).await;
        links(&world, 4.0).await;
        here(&clients[0]).await;
        here(&clients[1]).await;
        assert_eq!(greeted(), before + 1, "theirs are still there");
        // Whose connection was closed gets another.
        here(&clients[2]).await;
        assert_eq!(greeted(), before + 2);
        here(&clients[4]).await;
        here(&clients[0]).await;
        assert_eq!(greeted(), before + 3, "the one that listens goes last");
        links(&world, 4.0).await;
        bye(&clients[0]).await;
        while listening.next().await.is_some() {}
    }
}

#[tokio::test]
async fn while_the_server_is_down_nobody_dials_and_after_a_failure_few_do() {
    let up = Fake::http(Script { sessions: true, tells: true, ..Script::default() });
    let world = world("", &up, "").await;
    let clients = join((0..20).map(|_| Client::open(&world, "/mcp"))).await;
    here(&clients[0]).await;
    let greeted = || up.seen_of("initialize").len();
    let before = greeted();
    // Not lost, but it takes no new sessions: one attempt, and the others are told when to try again.
    up.change(|script| script.refusal = Some(Reply::Status(500, vec![])));
    for client in &clients[1..10] {
        let answer = client.call("who_mcp_up", "{}").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let retry_after = answer["result"]["_meta"]["trunkline/retryAfterMs"].as_u64().unwrap();
        assert!(greeted() == before + 1 || retry_after > 0, "{answer}");
    }
    assert_eq!(greeted(), before + 1);
    // Down: the keeper tries, nobody else.
    up.leave().await;
    world.is("up", "down").await;
    up.change(|script| script.refusal = None);
    up.back();
    for client in &clients[10..] {
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["isError"], true);
    }
    assert_eq!(greeted(), before + 1);
}

#[tokio::test]
async fn a_lost_own_link_is_dialled_again_at_the_next_call_and_is_its_sessions_alone() {
    let dying = Script::answering(|seen| match seen.params()["arguments"]["die"].as_bool() {
        Some(true) => Reply::Steps(vec![Step::Cut]),
        _ => Reply::Result(text("here")),
    });
    let up = Fake::stdio(dying);
    let world = world("reconnectInterval: 500ms", &up, r#", "scope": "session""#).await;
    let (one, two) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    here(&one).await;
    here(&two).await;
    let starts = || up.seen().iter().filter(|seen| seen.kind == "START").count();
    assert_eq!(starts(), 3);
    assert!(!stub(&one.call("who_mcp_up", r#"{"die":true}"#).await).is_empty());
    links(&world, 2.0).await;
    assert_eq!(starts(), 3, "nobody asked for another");
    // At most one attempt per interval and session.
    until("it may be dialled again", async || {
        let answer = one.call("who_mcp_up", "{}").await;
        (answer["result"]["content"][0]["text"] == "here").then_some(())
    })
    .await;
    here(&two).await;
    assert_eq!(starts(), 4);
    assert_eq!(world.server("up").await["state"], "ready");
}

#[tokio::test]
async fn a_reload_replaces_own_links_and_cuts_no_call() {
    let gate = CancellationToken::new();
    let waiting = gate.clone();
    let up = Fake::http(Script {
        sessions: true,
        ..Script::answering(move |seen| match seen.params()["arguments"]["wait"].as_bool() {
            Some(true) => Reply::Steps(vec![Step::Wait(waiting.clone()), answer("here")]),
            _ => Reply::Result(text("here")),
        })
    });
    let configured = |n: usize| {
        let more = format!(r#", "headers": {{"x-number": "{n}"}}"#);
        file("", &entries(&[("up", up.entry_with(&more))]))
    };
    let world = World::start(&configured(0)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    here(&client).await;
    let call = client.call("who_mcp_up", r#"{"wait":true}"#);
    let reload = async {
        let is_waiting = |seen: &Seen| seen.method == "tools/call" && seen.text.contains("wait");
        up.saw(is_waiting).await;
        world.mount.save(&configured(1));
        up.saw(|seen| seen.method == "initialize" && seen.header("x-number") == "1").await;
        until("calls go over the next link", async || {
            here(&client).await;
            up.seen()
                .iter()
                .any(|seen| seen.method == "tools/call" && seen.header("x-number") == "1")
                .then_some(())
        })
        .await;
        gate.cancel();
    };
    let (answer, ()) = tokio::join!(call, reload);
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    links(&world, 2.0).await;
    bye(&client).await;
    links(&world, 1.0).await;
}

#[tokio::test]
async fn own_links_leave_nothing_behind() {
    let times = scaled(100, 1_000);
    for (up, more) in kinds() {
        let mut world = world("", &up, more).await;
        let held = |world: &World| (process::fds(world.pid()), process::children(world.pid()).len());
        let round = async || {
            let client = Client::open(&world, "/mcp").await;
            here(&client).await;
            bye(&client).await;
        };
        for _ in 0..10 {
            round().await;
        }
        links(&world, 1.0).await;
        let before = crate::support::standing("what it holds", || held(&world)).await;
        for _ in 0..times / if more.is_empty() { 1 } else { 5 } {
            round().await;
        }
        links(&world, 1.0).await;
        // Connections of clients and to the server wait in pools for a while: a few more or less.
        let back = async || {
            let now = held(&world);
            (now.0 <= before.0 + 4 && now.1 == before.1).then_some(())
        };
        until("what it held is given back", back).await;
        eprintln!("{times} sessions with links of their own: {before:?} before, {:?} after", held(&world));
        world.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(world.ended(SOON).await.code(), Some(0));
        assert_eq!(up.sessions(), 0);
    }
}
