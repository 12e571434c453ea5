//! ARCHITECTURE.md §2 and PROTOCOL.md §2.7: what servers say outside of any call.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Events, Fake, Reply, Script, Step, World, answer, entries, file, until};

const ALL: &str = r#"{"roots":{},"sampling":{},"elicitation":{}}"#;
const LOG: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}"#;

fn sampling(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"sampling/createMessage","params":{{"messages":[],"maxTokens":1}}}}"#
    )
}

fn asks_roots(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"roots/list"}}"#)
}

async fn next(events: &mut Events) -> Value {
    serde_json::from_str(&events.next().await.expect("another message")).unwrap()
}

/// Waits until the server got an answer to its request `id`, and gives it.
async fn answered(up: &Fake, id: &str, what: &str) -> Value {
    let quoted = format!("\"{id}\"");
    let is_it = |seen: &crate::support::Seen| {
        seen.method.is_empty() && seen.id.as_deref() == Some(&*quoted) && seen.text.contains(what)
    };
    serde_json::from_str(&up.saw(is_it).await.text).unwrap()
}

/// Waits in every call until the gate opens, then answers.
fn gated(gate: &CancellationToken) -> Script {
    let gate = gate.clone();
    let call = Script::answering(move |_| Reply::Steps(vec![Step::Wait(gate.clone()), answer("done")]));
    Script { tells: true, ..call }
}

#[tokio::test]
async fn a_leg_outside_of_calls_goes_to_the_only_client_of_its_link() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(Script { tells: true, ..Script::default() });
        let servers = entries(&[("up", up.entry_with(r#", "interactive": true"#))]);
        let world = World::start(&file("", &servers)).await.ready().await;
        let client = Client::able(&world, "/mcp", ALL).await;
        let mut own = client.listen().await;
        let listening = || up.seen().iter().filter(|seen| seen.kind == "GET" || seen.kind == "START").count();
        client.call("who_mcp_up", "{}").await;
        until("both links are listened to", async || (listening() >= 2).then_some(())).await;
        up.say(&sampling("s1"));
        let asked = next(&mut own).await;
        assert_eq!(asked["method"], "sampling/createMessage");
        // The keeper's link has no client.
        answered(&up, "s1", "-32603").await;
        let id = &asked["id"];
        assert_ne!(*id, "s1");
        let said = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":1.50}}}}"#);
        assert_eq!(client.post(&said).await.status, 202);
        answered(&up, "s1", "1.50").await;
        // One that the server no longer wants.
        up.say(&sampling("s2"));
        let asked = next(&mut own).await;
        up.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s2"}}"#);
        let told = next(&mut own).await;
        assert_eq!(
            (&told["method"], &told["params"]["requestId"]),
            (&"notifications/cancelled".into(), &asked["id"])
        );
        // A log message that is loud enough.
        up.say(&LOG.replace("info", "debug"));
        up.say(LOG);
        let told = next(&mut own).await;
        assert_eq!(told["params"]["level"], "info", "{told}");
        // The end of the link takes its legs along.
        up.say(&sampling("s3"));
        let own_ask = loop {
            let asked = next(&mut own).await;
            if asked["method"] == "sampling/createMessage" {
                break asked;
            }
        };
        up.leave().await;
        loop {
            let told = next(&mut own).await;
            if told["method"] == "notifications/cancelled" {
                assert_eq!(told["params"]["requestId"], own_ask["id"]);
                break;
            }
        }
    }
}

#[tokio::test]
async fn fault_082_a_client_that_cannot_be_asked_outside_of_calls_makes_the_leg_fail() {
    let up = Fake::stdio(Script::default());
    let servers = entries(&[("up", up.entry_with(r#", "interactive": true"#))]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::able(&world, "/mcp", r#"{"elicitation":{"url":{}}}"#).await;
    client.call("who_mcp_up", "{}").await;
    let form = r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"m"}}"#;
    for (ask, id, code) in [(sampling("s"), "s", "-32601"), (form.to_owned(), "e", "-32602")] {
        up.say(&ask);
        answered(&up, id, code).await;
    }
    // It could, but has no stream open.
    let able = Client::able(&world, "/mcp", ALL).await;
    able.call("who_mcp_up", "{}").await;
    up.say(&sampling("t"));
    answered(&up, "t", "no stream").await;
}

#[tokio::test]
async fn fault_082_on_a_shared_link_a_leg_goes_to_the_only_session_with_calls_or_fails() {
    let gate = CancellationToken::new();
    let up = Fake::stdio(gated(&gate));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let (one, two) = (Client::able(&world, "/mcp", ALL).await, Client::able(&world, "/mcp", ALL).await);
    up.say(&sampling("nobody"));
    answered(&up, "nobody", "-32603").await;
    let mut older = one.stream(&one.request("who_mcp_up", "{}")).await;
    let mut newer = one.stream(&one.request("who_mcp_up", "{}")).await;
    until("both are called", async || (up.seen_of("tools/call").len() == 2).then_some(())).await;
    up.say(&sampling("one"));
    let asked = next(&mut newer).await;
    let said = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"by":"one"}}}}"#, asked["id"]);
    assert_eq!(one.post(&said).await.status, 202);
    answered(&up, "one", "\"by\":\"one\"").await;
    let mut other = two.stream(&two.request("who_mcp_up", "{}")).await;
    until("all are called", async || (up.seen_of("tools/call").len() == 3).then_some(())).await;
    up.say(&sampling("whose"));
    answered(&up, "whose", "-32603").await;
    gate.cancel();
    for stream in [&mut older, &mut newer, &mut other] {
        assert!(next(stream).await["result"].is_object(), "and nothing else came");
    }
}

#[tokio::test]
async fn configured_roots_are_told_whoever_is_there() {
    let gate = CancellationToken::new();
    for more in ["", r#", "interactive": true"#] {
        let up = Fake::stdio(gated(&gate));
        let roots =
            format!(r#"{more}, "roots": [{{"uri": "file:///srv/a%20b", "name": "A"}}, "file:///tmp"]"#);
        let world = World::start(&file("", &entries(&[("up", up.entry_with(&roots))]))).await.ready().await;
        let told = r#"{"jsonrpc":"2.0","id":"$","result":{"roots":[{"uri":"file:///srv/a%20b","name":"A"},{"uri":"file:///tmp"}]}}"#;
        up.say(&asks_roots("r1"));
        up.saw(|seen| seen.text == told.replace('$', "r1")).await;
        let client = Client::able(&world, "/mcp", "{}").await;
        let call = client.call("who_mcp_up", "{}");
        let asking = async {
            up.saw(|seen| seen.method == "tools/call").await;
            up.say(&asks_roots("r2"));
            up.saw(|seen| seen.text == told.replace('$', "r2")).await;
            gate.cancel();
        };
        let (answer, ()) = tokio::join!(call, asking);
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
        assert!(
            up.seen_of("initialize").iter().all(|seen| seen.params()["capabilities"]["roots"].is_object())
        );
    }
}

#[tokio::test]
async fn log_messages_of_a_child_come_with_their_call_and_before_its_answer() {
    let up = Fake::stdio(Script::answering(|_| {
        let log = |n: usize| Step::Send(LOG.replace("\"d\"", &n.to_string()));
        Reply::Steps((0..5).map(log).chain([answer("done")]).collect())
    }));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let other = Client::open(&world, "/mcp").await;
    let mut open = other.listen().await;
    for _ in 0..100 {
        let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
        for n in 0..5 {
            assert_eq!(next(&mut events).await["params"]["data"], n);
        }
        assert!(next(&mut events).await["result"].is_object());
    }
    // A child that says a lot at once is faster than the way to the client, and nothing of it is lost.
    up.change(|script| {
        script.call = Arc::new(|_| {
            let log = |n: usize| Step::Send(LOG.replace("\"d\"", &n.to_string()));
            Reply::Steps((0..2000).map(log).chain([answer("done")]).collect())
        });
    });
    let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
    for n in 0..2000 {
        assert_eq!(next(&mut events).await["params"]["data"], n);
    }
    assert!(next(&mut events).await["result"].is_object());
    // Nobody's: everybody's. So it is the first that the other client hears.
    up.say(&LOG.replace("\"d\"", "\"for all\""));
    assert_eq!(next(&mut open).await["params"]["data"], "for all");
}

#[tokio::test]
async fn fault_081_a_flood_of_one_server_does_not_drown_what_others_tell() {
    let (flood, up) =
        (Fake::stdio(Script::default()), Fake::stdio(Script { tells: true, ..Script::default() }));
    let servers = entries(&[("flood", flood.entry()), ("up", up.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp/up").await;
    let mut open = client.listen().await;
    for _ in 0..50 {
        (0..40).for_each(|_| flood.say(LOG));
        tokio::task::yield_now().await;
    }
    let series = r#"trunkline_upstream_notices_dropped_total{server="flood"}"#;
    until("most are dropped", async || (world.metric(series).await > 100.0).then_some(())).await;
    up.change(|script| script.tools.push(crate::support::tool("new")));
    up.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert_eq!(next(&mut open).await["method"], "notifications/tools/list_changed", "once, and nothing else");
    up.say(LOG);
    assert_eq!(next(&mut open).await["method"], "notifications/message");
}

/// A server with resources that takes every subscription, and a log.
fn subscribable() -> Script {
    Script {
        resources: vec![r#"{"uri":"x://a","name":"a"}"#.into(), r#"{"uri":"x://b","name":"b"}"#.into()],
        capabilities: Some(r#"{"tools":{},"resources":{"subscribe":true},"logging":{}}"#.into()),
        other: Arc::new(|_| Reply::Result("{}".into())),
        tells: true,
        ..Script::default()
    }
}

#[tokio::test]
async fn subscriptions_and_the_level_survive_the_servers_restart_and_a_reload() {
    for up in [Fake::http(Script { sessions: true, ..subscribable() }), Fake::stdio(subscribable())] {
        let configured = |n: u64| {
            file(
                "reconnectInterval: 100ms",
                &entries(&[("up", up.entry_with(&format!(r#", "updatedAt": {n}"#)))]),
            )
        };
        let world = World::start(&configured(1)).await.ready().await;
        let clients = [Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await];
        let mut streams = Vec::new();
        for client in &clients {
            streams.push(client.listen().await);
            assert_eq!(
                client.json("resources/subscribe", r#"{"uri":"x://a"}"#).await["result"].to_string(),
                "{}"
            );
        }
        clients[0].json("logging/setLevel", r#"{"level":"warning"}"#).await;
        clients[1].json("logging/setLevel", r#"{"level":"debug"}"#).await;
        let count = |method: &str| up.seen_of(method).len();
        let levels = || -> Vec<_> {
            up.seen_of("logging/setLevel")
                .iter()
                .map(|seen| seen.params()["level"].as_str().unwrap().to_owned())
                .collect()
        };
        until("the loudest wish counts", async || levels().ends_with(&["debug".into()]).then_some(())).await;
        assert_eq!(count("resources/subscribe"), 1);
        // A restart: asked again, and what may have been missed is told.
        let updated = |told: &Value| {
            told["method"] == "notifications/resources/updated" && told["params"]["uri"] == "x://a"
        };
        let before = levels().len();
        up.leave().await;
        up.forget();
        up.back();
        for stream in &mut streams {
            while !updated(&next(stream).await) {}
        }
        assert_eq!(count("resources/subscribe"), 2);
        until("the level is told again", async || (levels().len() > before).then_some(())).await;
        assert_eq!(levels().last().unwrap(), "debug");
        // Its successor goes on with both.
        let before = levels().len();
        world.mount.save(&configured(2));
        until("they are made anew", async || (count("resources/subscribe") == 3).then_some(())).await;
        until("the level is told again", async || (levels().len() > before).then_some(())).await;
        assert_eq!(count("resources/unsubscribe"), 0);
        // The louder one leaves; then the last one no longer wants to hear.
        clients[1].whole(hyper::Method::DELETE, "").await;
        until("the loudest wish counts", async || levels().ends_with(&["warning".into()]).then_some(()))
            .await;
        assert_eq!(count("resources/unsubscribe"), 0);
        clients[0].json("resources/unsubscribe", r#"{"uri":"x://a"}"#).await;
        up.saw(|seen| seen.method == "resources/unsubscribe").await;
        assert_eq!(count("resources/unsubscribe"), 1);
    }
}
