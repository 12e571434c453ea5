//! `auth.keys`: who may call, and that nobody gets at what is another's.

use hyper::Method;
use serde_json::Value;

use crate::support::{Client, Fake, Modern, Script, World, entries, file, hello, until};

pub(super) const ALICE: &str = "alice-0123456789abcdef";
pub(super) const BOB: &str = "bob-0123456789abcdef";

/// A configuration in which `alice` and `bob` may call.
pub(super) fn guarded(limits: &str, servers: &[(&str, String)]) -> String {
    format!("auth: {{keys: {{alice: {ALICE}, bob: {BOB}}}}}\n{}", file(limits, &entries(servers)))
}

/// A client that shows `key`, in a session.
pub(super) async fn open(world: &World, path: &str, key: &str) -> Client {
    let client = Client::new(world.url(path)).with("x-api-key", key);
    let answer = client.post(&hello("2025-11-25")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let id = answer.headers["mcp-session-id"].to_str().unwrap();
    client.with("mcp-session-id", id).with("mcp-protocol-version", "2025-11-25")
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;

#[tokio::test]
async fn fault_055_a_key_lets_in_and_goes_no_further() {
    let up = Fake::http(Script::default());
    let world = World::start(&guarded("", &[("up", up.entry())])).await.ready().await;
    let nobody = Client::new(world.url("/mcp"));
    for (client, challenge) in [
        (nobody.again(), "Bearer"),
        (nobody.with("authorization", "Bearer nonsense"), r#"Bearer error="invalid_token""#),
        (nobody.with("x-api-key", "nonsense"), r#"Bearer error="invalid_token""#),
    ] {
        for (method, body) in [(Method::POST, hello("2025-11-25")), (Method::GET, String::new())] {
            let answer = client.whole(method, body).await;
            assert_eq!(answer.status, 401);
            assert_eq!(answer.headers["www-authenticate"], challenge);
        }
        let elsewhere = Client::new(world.url("/mcp/no-such-view")).whole(Method::POST, LIST).await;
        assert_eq!(elsewhere.status, 401, "who is not let in learns nothing of views");
    }
    let said = nobody.post(LIST).await.text;
    assert!(said.contains("X-Api-Key") && said.contains("Authorization: Bearer"), "{said}");
    let refused = r#"trunkline_rejected_total{reason="unauthenticated"}"#;
    assert!(world.metric(refused).await >= 10.0, "{}", world.admin("/metrics").await.1);
    // A browser asks before it sends its key.
    let leave = nobody.with("origin", "http://localhost").whole(Method::OPTIONS, "").await;
    assert_eq!(leave.status, 204);
    assert!(leave.headers["access-control-allow-headers"].to_str().unwrap().contains("x-api-key"));
    for (name, value) in [("x-api-key", ALICE.to_owned()), ("authorization", format!("bearer {BOB}"))] {
        let answer = nobody.with(name, &value).post(&hello("2025-11-25")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let modern = Modern::new(&world, "/mcp").with(name, &value);
        assert_eq!(modern.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    }
    assert_eq!(world.admin("/status").await.0, 200, "the operator's port is as it was");
    // Nothing that lets anybody in reaches the server.
    for seen in up.seen() {
        assert!(seen.header("authorization").is_empty() && seen.header("x-api-key").is_empty());
    }
}

#[tokio::test]
async fn fault_051_a_session_is_nobody_elses() {
    let up = Fake::http(Script::default());
    let world = World::start(&guarded("", &[("up", up.entry())])).await.ready().await;
    let alice = open(&world, "/mcp", ALICE).await;
    let thief = alice.with("x-api-key", BOB);
    for (method, body) in [(Method::POST, LIST), (Method::GET, ""), (Method::DELETE, "")] {
        assert_eq!(thief.whole(method, body).await.status, 404);
    }
    assert_eq!(alice.post(LIST).await.status, 200);
    assert_eq!(alice.with("x-api-key", "").post(LIST).await.status, 401);
}

const CHANGED: &str = "the keys of callers have changed";

/// Waits for a line in the log that says so of these callers.
async fn changed(world: &World, how: &str, names: &str) {
    let said = |line: &Value| line["message"] == CHANGED && line[how] == names;
    until("the change is told", async || world.log().iter().any(said).then_some(())).await;
}

#[tokio::test]
async fn keys_come_and_go_without_a_restart() {
    let up = Fake::http(Script::default());
    let servers = [("up", up.entry())];
    let world = World::start(&guarded("", &servers)).await.ready().await;
    let (alice, bob) = (open(&world, "/mcp", ALICE).await, open(&world, "/mcp", BOB).await);
    let new = "bob-fedcba9876543210";
    world.mount.save(&guarded("", &servers).replace(BOB, new));
    let known = async || (bob.with("x-api-key", new).post(LIST).await.status != 401).then_some(());
    until("the new key is known", known).await;
    assert_eq!(bob.post(LIST).await.status, 401);
    assert_eq!(open(&world, "/mcp", new).await.post(LIST).await.status, 200);
    assert_eq!(alice.post(LIST).await.status, 200, "whoever kept his key notices nothing");
    world.mount.save(&file("", &entries(&servers)));
    until("anybody may call", async || {
        (Client::new(world.url("/mcp")).post(&hello("2025-11-25")).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(alice.post(LIST).await.status, 404, "it was alice's, and there is no alice any more");
    let carol = guarded("", &servers).replace("bob:", "carol:");
    world.mount.save(&carol);
    changed(&world, "added", r#"["alice", "carol"]"#).await;
    world.mount.save(&carol.replace(&format!("{ALICE}, "), &format!("{new}, ")).replace("carol:", "dave:"));
    changed(&world, "rotated", r#"["alice"]"#).await;
    let log = world.log();
    let told: Vec<_> = log.iter().map(ToString::to_string).filter(|line| line.contains(CHANGED)).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for secret in [ALICE, BOB, new] {
        assert!(!log.iter().any(|line| line.to_string().contains(secret)), "{log:?}");
    }
}

#[tokio::test]
async fn with_keys_a_public_address_is_allowed() {
    let up = Fake::http(Script::default());
    let public = guarded("", &[("up", up.entry())]).replacen("listen: 127.0.0.1:0", "listen: 0.0.0.0:0", 1);
    let world = World::start(&public).await.ready().await;
    assert_eq!(Client::new(world.url("/mcp")).post(LIST).await.status, 401);
    assert_eq!(open(&world, "/mcp", ALICE).await.tools().await, ["who_mcp_up"]);
}

#[tokio::test]
async fn fault_054_whoever_loses_his_key_loses_his_streams() {
    let up = Fake::http(Script::default());
    let servers = [("up", up.entry())];
    let world = World::start(&guarded("", &servers)).await.ready().await;
    let (alice, bob) = (open(&world, "/mcp", ALICE).await, open(&world, "/mcp", BOB).await);
    let (mut of_alice, mut of_bob) = (alice.listen().await, bob.listen().await);
    let modern = Modern::new(&world, "/mcp").with("x-api-key", BOB);
    let (_, mut listening) = modern.listen(r#"{"toolsListChanged":true}"#).await;
    let without = guarded("", &servers).replace(&format!(", bob: {BOB}"), "");
    world.mount.save(&without);
    assert_eq!(of_bob.next().await, None, "it ends");
    // The next change is not told him any more.
    up.change(|script| script.tools.push(crate::support::tool("more")));
    world.mount.save(
        &without.replace("mcpServers", "describeOrigin: false\nmcpServers").replace("/mcp\"", "/mcp?\""),
    );
    assert!(of_alice.next().await.unwrap().contains("list_changed"));
    let last = listening.next().await.unwrap();
    assert!(!last.contains("list_changed"), "{last}");
    assert_eq!(listening.next().await, None);
}

/// Whoever has stolen a key had everything open that he wants before it is changed.
#[tokio::test]
async fn fault_054_what_a_changed_key_opened_ends() {
    let up = Fake::http(Script::default());
    let servers = [("up", up.entry())];
    let world = World::start(&guarded("", &servers)).await.ready().await;
    let (alice, bob) = (open(&world, "/mcp", ALICE).await, open(&world, "/mcp", BOB).await);
    let (mut of_alice, mut of_bob) = (alice.listen().await, bob.listen().await);
    let modern = Modern::new(&world, "/mcp").with("x-api-key", BOB);
    let (_, mut listening) = modern.listen(r#"{"toolsListChanged":true}"#).await;
    let new = "bob-fedcba9876543210";
    let rotated = guarded("", &servers).replace(BOB, new);
    world.mount.save(&rotated);
    assert_eq!(of_bob.next().await, None, "it ends");
    assert_eq!(bob.with("x-api-key", new).post(LIST).await.status, 404, "so does its session");
    let again = open(&world, "/mcp", new).await;
    let mut of_new = again.listen().await;
    up.change(|script| script.tools.push(crate::support::tool("more")));
    world.mount.save(
        &rotated.replace("mcpServers", "describeOrigin: false\nmcpServers").replace("/mcp\"", "/mcp?\""),
    );
    for still in [&mut of_alice, &mut of_new] {
        assert!(still.next().await.unwrap().contains("list_changed"));
    }
    let last = listening.next().await.unwrap();
    assert!(!last.contains("list_changed"), "{last}");
    assert_eq!(listening.next().await, None);
    assert_eq!(alice.post(LIST).await.status, 200, "whoever kept his key notices nothing");
}

#[tokio::test]
async fn our_own_subcommands_show_a_key() {
    let up = Fake::http(Script::default());
    let world = World::start(&guarded("", &[("up", up.entry())])).await.ready().await;
    let run = async |key: Option<&str>| {
        let mut command = crate::support::program();
        command.args(["tools", "--url", &world.url("/mcp")]).env_remove("TRUNKLINE_KEY");
        if let Some(key) = key {
            command.env("TRUNKLINE_KEY", key);
        }
        let output = command.output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, said) = run(Some(ALICE)).await;
    assert!(code == Some(0) && said.contains("who_mcp_up"), "{said}");
    for key in [None, Some("nonsense")] {
        let (code, said) = run(key).await;
        assert!(code == Some(1) && said.contains("TRUNKLINE_KEY"), "{said}");
    }
}
