//! Links of single callers: by whose they are, and by what of a server's settings was filled in for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::keys_auth::{ALICE, BOB, guarded, open};
use crate::support::{
    Client, Fake, Modern, Reply, Script, Seen, World, entries, error, file, join, process, text, tool, until,
};

/// What a stub says.
fn stub(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// A server that answers with the header `x-user` of the request, and has a tool of that name.
fn mirror() -> Script {
    Script {
        listing: Some(Arc::new(|seen: &Seen| {
            let tools = [tool("who"), tool(&format!("of-{}", seen.header("x-user")))];
            Reply::Result(format!(r#"{{"tools":[{}]}}"#, tools.join(",")))
        })),
        ..Script::answering(|seen| Reply::Result(text(seen.header("x-user"))))
    }
}

/// The values of the header `x-user` that came with messages of this method, and how often each did.
fn users(up: &Fake, method: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for seen in up.seen_of(method) {
        *all.entry(seen.header("x-user").to_owned()).or_default() += 1;
    }
    all
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

const BY_NAME: &str = r#", "headers": {"x-user": "{{principal.sub}}"}"#;
const BY_HEADER: &str = r#", "headers": {"x-user": "{{header.x-tenant}}"}"#;

#[tokio::test]
async fn each_user_has_one_connection_and_sees_what_is_his() {
    let up = Fake::http(mirror());
    let plain = Fake::http(Script::default());
    let servers = [("up", up.entry_with(BY_NAME)), ("plain", plain.entry())];
    let world = World::start(&guarded("", &servers)).await.ready().await;
    assert!(up.seen().is_empty(), "nothing is sent before somebody calls");
    assert_eq!(world.server("up").await["state"], "perCaller");
    let (alice, bob) = (open(&world, "/mcp", ALICE).await, open(&world, "/mcp", BOB).await);
    let again = open(&world, "/mcp/up", ALICE).await;
    let modern = Modern::new(&world, "/mcp").with("x-api-key", BOB);
    assert!(up.seen().is_empty(), "a session costs nothing yet");
    join((0..10).map(|_| alice.tools())).await;
    assert_eq!(alice.tools().await, ["who_mcp_up", "of-alice_mcp_up", "who_mcp_plain"]);
    assert_eq!(again.tools().await, ["who", "of-alice"]);
    assert_eq!(bob.tools().await, ["who_mcp_up", "of-bob_mcp_up", "who_mcp_plain"]);
    let listed = modern.json("tools/list", "{}").await;
    assert_eq!(listed["result"]["tools"][1]["name"], "of-bob_mcp_up");
    assert_eq!(listed["result"]["cacheScope"], "private");
    for (client, name) in [(&alice, "alice"), (&bob, "bob")] {
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), name);
        assert_eq!(said(&client.call(&format!("of-{name}_mcp_up"), "{}").await), name);
    }
    assert_eq!(said(&again.call("of-alice", "{}").await), "alice");
    assert_eq!(said(&modern.call("of-bob_mcp_up", "{}").await), "bob");
    // What is another's is unknown.
    let request = bob.request("of-alice_mcp_up", "{}");
    assert_eq!(error(&bob.ask(&request).await), Some(-32602));
    assert_eq!(users(&up, "initialize"), counts(&[("alice", 1), ("bob", 1)]), "one connection each");
    assert_eq!(users(&up, "tools/list"), counts(&[("alice", 1), ("bob", 1)]));
    assert_eq!(world.server("plain").await["state"], "ready");
}

#[tokio::test]
async fn a_tool_is_found_though_its_caller_never_listed() {
    let up = Fake::http(mirror());
    let world = World::start(&guarded("", &[("up", up.entry_with(BY_NAME))])).await.ready().await;
    let alice = open(&world, "/mcp", ALICE).await;
    assert_eq!(said(&alice.call("of-alice_mcp_up", "{}").await), "alice");
    let request = alice.request("nothing_mcp_up", "{}");
    assert_eq!(error(&alice.ask(&request).await), Some(-32602));
}

#[tokio::test]
async fn what_a_request_lacks_is_told_and_nothing_is_sent() {
    let up = Fake::http(mirror());
    let world = World::start(&file("", &entries(&[("up", up.entry_with(BY_HEADER))]))).await.ready().await;
    let client = Client::open(&world, "/mcp/up").await;
    assert!(client.tools().await.is_empty());
    let answer = client.call("who", "{}").await;
    assert!(stub(&answer).contains("`x-tenant`"), "{answer}");
    assert!(up.seen().is_empty());
    // Another value is another connection; the same one is not.
    for tenant in ["one", "two", "one", "{{principal.sub}} ${HOME} {{header.host}}"] {
        let client = client.with("x-tenant", tenant);
        assert_eq!(said(&client.call("who", "{}").await), tenant, "as it is");
    }
    assert_eq!(users(&up, "initialize").len(), 3);
    assert!(users(&up, "initialize").values().all(|count| *count == 1));
    let asked = format!(r#", "headers": {{"x-user": "{}"}}"#, "{{principal.email}}");
    let world = World::start(&guarded("", &[("up", up.entry_with(&asked))])).await.ready().await;
    let alice = open(&world, "/mcp/up", ALICE).await;
    let before = up.seen().len();
    let answer = alice.call("who", "{}").await;
    assert!(stub(&answer).contains("{{principal.email}}"), "{answer}");
    assert_eq!(up.seen().len(), before);
}

/// What joined lists lack has its reason, as it has in the server's own view.
#[tokio::test]
async fn why_a_caller_has_nothing_of_a_server_is_told_where_all_are_joined() {
    let up = Fake::http(Script {
        prompts: vec![r#"{"name":"p"}"#.into()],
        capabilities: Some(r#"{"tools":{},"prompts":{}}"#.into()),
        ..Script::default()
    });
    let world = World::start(&file("", &entries(&[("up", up.entry_with(BY_HEADER))]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let own = Client::open(&world, "/mcp/up").await;
    let prompt = r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p_mcp_up"}}"#;
    for answer in [own.call("who", "{}").await, client.call("who_mcp_up", "{}").await] {
        let told = stub(&answer);
        assert!(told.contains("the header `x-tenant`") && told.contains("does not help"), "{answer}");
        assert!(!told.contains("Try again"), "{answer}");
        assert!(answer["result"]["_meta"]["trunkline/retryAfterMs"].is_null(), "{answer}");
    }
    let answer = client.ask(prompt).await;
    assert!(answer.contains("the header `x-tenant`") && !answer.contains("retryAfterMs"), "{answer}");
    // The server wants something else of this caller.
    up.change(|script| script.refusal = Some(Reply::Status(401, vec![])));
    let bad = client.with("x-tenant", "bad");
    let answer = bad.call("who_mcp_up", "{}").await;
    let told = stub(&answer);
    assert!(told.contains("authorization") && told.contains("what this request brings"), "{answer}");
    assert!(!told.contains("configuration"), "{answer}");
    // It fails.
    up.change(|script| script.refusal = Some(Reply::Status(500, vec![])));
    let answer = client.with("x-tenant", "other").call("who_mcp_up", "{}").await;
    assert!(stub(&answer).contains("HTTP 500") && stub(&answer).contains("Try again in"), "{answer}");
    assert!(answer["result"]["_meta"]["trunkline/retryAfterMs"].as_u64().unwrap() > 0, "{answer}");
    // Whoever has what it takes is told of names as before.
    up.change(|script| script.refusal = None);
    let good = client.with("x-tenant", "good");
    assert_eq!(said(&good.call("who_mcp_up", "{}").await), "here");
    for client in [&good, &bad] {
        let nowhere = client.request("who_mcp_nowhere", "{}");
        assert_eq!(error(&client.ask(&nowhere).await), Some(-32602));
    }
    assert_eq!(error(&good.ask(&good.request("nothing_mcp_up", "{}")).await), Some(-32602));
}

#[tokio::test]
async fn a_value_in_a_url_stays_where_it_belongs() {
    let up = Fake::http(Script::answering(|seen| Reply::Result(text(&seen.path))));
    let url = up.entry().replace("/mcp", "/t/{{header.x-tenant}}/mcp?of={{header.x-tenant}}");
    let world = World::start(&file("", &entries(&[("up", url)]))).await.ready().await;
    let client = Client::open(&world, "/mcp/up").await;
    for (tenant, path) in [
        ("one", "/t/one/mcp?of=one"),
        ("a/..b?c#d&e", "/t/a%2F..b%3Fc%23d%26e/mcp?of=a%2F..b%3Fc%23d%26e"),
        ("%2e%2ex", "/t/%252e%252ex/mcp?of=%252e%252ex"),
    ] {
        assert_eq!(said(&client.with("x-tenant", tenant).call("who", "{}").await), path);
    }
    let before = up.seen().len();
    // Some servers decode a path before they look where it leads.
    for tenant in
        [".", "..", "../x", "a/../../b", "x/..", "a/./b", r"a\..\b", "/..", "%2e%2e", "a%2F..%2fb", "..%5cx"]
    {
        let answer = client.with("x-tenant", tenant).call("who", "{}").await;
        let told = stub(&answer);
        assert!(told.contains("`{{header.x-tenant}}`") && told.contains("another path"), "{answer}");
        assert!(!told.contains(&format!(" {tenant}")) && !told.contains("a/"), "{answer}");
    }
    assert_eq!(up.seen().len(), before);
}

#[tokio::test]
async fn a_server_with_sessions_has_one_for_each_of_ours() {
    let up = Fake::http(Script { sessions: true, ..mirror() });
    let world = World::start(&guarded("", &[("up", up.entry_with(BY_NAME))])).await.ready().await;
    let (one, two) = (open(&world, "/mcp", ALICE).await, open(&world, "/mcp", ALICE).await);
    let bob = open(&world, "/mcp", BOB).await;
    for (client, name) in [(&one, "alice"), (&two, "alice"), (&bob, "bob"), (&one, "alice")] {
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), name);
    }
    let of = |name: &str| -> std::collections::HashSet<String> {
        let calls = up.seen_of("tools/call").into_iter().filter(|seen| seen.header("x-user") == name);
        calls.map(|seen| seen.header("mcp-session-id").to_owned()).collect()
    };
    assert_eq!((of("alice").len(), of("bob").len()), (2, 1));
    assert!(of("alice").is_disjoint(&of("bob")));
    until("what showed that is given back", async || (up.sessions() == 3).then_some(())).await;
}

#[tokio::test]
async fn a_child_is_one_principals_where_callers_are_known() {
    let up = Fake::stdio(Script::default());
    let world = World::start(&guarded("", &[("up", up.entry())])).await.ready().await;
    let clients = [
        open(&world, "/mcp", ALICE).await,
        open(&world, "/mcp", ALICE).await,
        open(&world, "/mcp", BOB).await,
    ];
    for client in &clients {
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
    }
    assert_eq!(process::children(world.pid()).len(), 3, "alice's, bob's, and one that lists");
    let shared = Fake::stdio(Script::default());
    let entry = shared.entry_with(r#", "scope": "shared""#);
    let world = World::start(&guarded("", &[("up", entry)])).await.ready().await;
    for key in [ALICE, BOB] {
        let client = open(&world, "/mcp", key).await;
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
    }
    assert_eq!(process::children(world.pid()).len(), 1);
}

#[tokio::test]
async fn the_scope_principal_gives_each_of_them_a_session_of_the_server() {
    let up = Fake::http(Script { sessions: true, ..Script::default() });
    let entry = up.entry_with(r#", "scope": "principal""#);
    let world = World::start(&guarded("", &[("up", entry)])).await.ready().await;
    for key in [ALICE, ALICE, BOB] {
        let client = open(&world, "/mcp", key).await;
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
        let modern = Modern::new(&world, "/mcp").with("x-api-key", key);
        assert_eq!(said(&modern.call("who_mcp_up", "{}").await), "here");
    }
    assert_eq!(up.sessions(), 3, "alice's, bob's and the keeper's");
}

#[tokio::test]
async fn a_connection_of_one_request_is_closed_after_it() {
    for sessions in [true, false] {
        let up = Fake::http(Script { sessions, ..mirror() });
        let entry = up.entry_with(&format!(r#"{BY_NAME}, "scope": "request""#));
        let world = World::start(&guarded("", &[("up", entry)])).await.ready().await;
        let alice = open(&world, "/mcp", ALICE).await;
        alice.tools().await;
        for number in 2..=4 {
            assert_eq!(said(&alice.call("who_mcp_up", "{}").await), "alice", "at no pace");
            assert_eq!(up.seen_of("initialize").len(), number);
        }
        until("all are closed", async || {
            let links = world.metric(r#"trunkline_upstream_links{server="up"}"#).await;
            (links < 0.1 && up.sessions() == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn one_callers_bad_credentials_are_his_own_affair() {
    let up = Fake::http(Script { refusal: None, ..Script::answering(|_| Reply::Result(text("here"))) });
    let url = up.entry_with(BY_HEADER);
    let world = World::start(&file("", &entries(&[("up", url)]))).await.ready().await;
    let client = Client::open(&world, "/mcp/up").await;
    up.change(|script| script.refusal = Some(Reply::Status(401, vec![])));
    let answer = client.with("x-tenant", "bad").call("who", "{}").await;
    assert!(stub(&answer).contains("authorization"), "{answer}");
    up.change(|script| script.refusal = None);
    assert_eq!(said(&client.with("x-tenant", "good").call("who", "{}").await), "here", "at once");
    let again = client.with("x-tenant", "bad").call("who", "{}").await;
    assert!(again["result"]["_meta"]["trunkline/retryAfterMs"].as_u64().unwrap() > 0, "{again}");
}
