//! Servers of 2026-07-28 behind us, and how it is found out that they are (PROTOCOL.md §§2.1, 2.7, 5).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::support::{
    Client, Events, Everything, Fake, Modern, Reply, Script, Seen, Step, World, entries, everything, file,
    process, until,
};

const WATCHED: &str = r#"{"uri":"test://watched-resource"}"#;

/// One server, over HTTP and as a child.
async fn both(arguments: &[&str]) -> [(Option<Everything>, String); 2] {
    let over_http = Everything::http(arguments).await;
    let entry = over_http.entry("");
    [(Some(over_http), entry), (None, everything(arguments).await)]
}

async fn world(entry: String) -> World {
    World::start(&file("reconnectInterval: 200ms", &entries(&[("up", entry)]))).await.ready().await
}

async fn next(events: &mut Events) -> Value {
    serde_json::from_str(&events.next().await.expect("another message")).unwrap()
}

/// What the server knows of the client that calls.
async fn whoami(client: &Client) -> Value {
    let answer = client.call("whoami_mcp_up", "{}").await;
    assert!(answer["result"]["structuredContent"].is_object(), "{answer}");
    answer["result"]["structuredContent"].clone()
}

async fn revision(world: &World) -> Value {
    world.server("up").await["revision"].clone()
}

/// How many subscribers the server has of the watched resource.
async fn watchers(client: &Client) -> Value {
    let answer = client.call("subscriptions_mcp_up", "{}").await;
    answer["result"]["structuredContent"]["test://watched-resource"].clone()
}

#[tokio::test]
async fn a_legacy_client_uses_a_modern_server_as_one_of_its_own() {
    for (_server, entry) in both(&["--era", "modern"]).await {
        let world = world(entry).await;
        assert_eq!(revision(&world).await, "2026-07-28");
        assert_eq!(world.server("up").await["era"], "modern");
        let client = Client::open(&world, "/mcp").await;
        assert!(client.tools().await.contains(&"whoami_mcp_up".to_owned()));
        let who = whoami(&client).await;
        assert_eq!(who["revision"], "2026-07-28");

        let request = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"test_tool_with_progress_mcp_up","arguments":{},"_meta":{"progressToken":"p"}}}"#;
        let mut events = client.stream(request).await;
        for progress in [0, 50, 100] {
            let told = next(&mut events).await;
            let params = json!({ "progressToken": "p", "progress": progress, "total": 100 });
            assert_eq!((&told["method"], &told["params"]), (&json!("notifications/progress"), &params));
        }
        let answer = next(&mut events).await;
        assert_eq!((&answer["id"], answer["result"]["resultType"].is_null()), (&json!(7), true), "{answer}");

        let mut own = client.listen().await;
        client.call("test_trigger_tool_change_mcp_up", "{}").await;
        assert_eq!(next(&mut own).await["method"], "notifications/tools/list_changed");
        client.call("test_trigger_prompt_change_mcp_up", "{}").await;
        assert_eq!(next(&mut own).await["method"], "notifications/prompts/list_changed");

        let subscribed = client.json("resources/subscribe", WATCHED).await;
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
        for _ in 0..2 {
            client.call("touch_mcp_up", WATCHED).await;
            let told = next(&mut own).await;
            let bare = json!({ "uri": "test://watched-resource" });
            assert_eq!(
                (&told["method"], &told["params"]["uri"]),
                (&json!("notifications/resources/updated"), &bare["uri"])
            );
            assert!(!told.to_string().contains("subscriptionId"), "{told}");
        }
        client.json("resources/unsubscribe", WATCHED).await;
        until("nobody watches any more", async || {
            matches!(watchers(&client).await, Value::Null).then_some(())
        })
        .await;
        client.call("touch_mcp_up", WATCHED).await;
        client.call("test_trigger_tool_change_mcp_up", "{}").await;
        assert_eq!(next(&mut own).await["method"], "notifications/tools/list_changed", "and no update");
    }
}

#[tokio::test]
async fn a_call_that_its_client_cancels_ends_at_a_modern_server() {
    for (_server, entry) in both(&["--era", "modern"]).await {
        let world = world(entry).await;
        let client = Client::open(&world, "/mcp").await;
        let call = r#"{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"steps_mcp_up","arguments":{"n":600,"ms":100},"_meta":{"progressToken":1}}}"#;
        let mut events = client.stream(call).await;
        assert_eq!(next(&mut events).await["method"], "notifications/progress");
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}"#;
        client.post(cancel).await;
        until("the server knows", async || {
            let told = client.call("cancelled_mcp_up", "{}").await;
            let calls = told["result"]["structuredContent"]["calls"].as_array().cloned().unwrap_or_default();
            calls.iter().any(|call| call["name"] == "steps").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_modern_child_is_started_again_and_what_was_missed_is_told() {
    let world = world(everything(&["--era", "modern"]).await).await;
    let client = Client::open(&world, "/mcp").await;
    client.json("resources/subscribe", WATCHED).await;
    let mut own = client.listen().await;
    let process = whoami(&client).await["process"].as_u64().unwrap();
    process::kill(u32::try_from(process).unwrap());
    let mut missing = vec![
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    ];
    while !missing.is_empty() {
        let told = next(&mut own).await;
        missing.retain(|method| told["method"] != *method);
    }
    assert_eq!(revision(&world).await, "2026-07-28");
    assert_ne!(whoami(&client).await["process"], process);
    client.call("touch_mcp_up", WATCHED).await;
    while next(&mut own).await["method"] != "notifications/resources/updated" {}
}

#[tokio::test]
async fn a_server_that_changes_its_era_is_found_out() {
    let server = Everything::http(&["--era", "legacy"]).await;
    let world = world(server.entry("")).await;
    assert_eq!(revision(&world).await, "2025-11-25");
    let client = Client::open(&world, "/mcp").await;
    let mut own = client.listen().await;
    client.json("resources/subscribe", WATCHED).await;
    assert_eq!(whoami(&client).await["revision"], "2025-11-25");
    let mut server = server;
    for era in ["modern", "legacy", "modern"] {
        server = server.replace(&["--era", era]).await;
        let wanted = if era == "modern" { "2026-07-28" } else { "2025-11-25" };
        until("it speaks the other era", async || {
            let answer = client.call("whoami_mcp_up", "{}").await;
            // Not even the first one shows that it means another era.
            assert!(answer["error"].is_null(), "{answer}");
            (answer["result"]["structuredContent"]["revision"] == wanted).then_some(())
        })
        .await;
        assert_eq!(revision(&world).await, wanted);
        until("the subscription stands", async || (watchers(&client).await == 1).then_some(())).await;
        client.call("touch_mcp_up", WATCHED).await;
        while next(&mut own).await["method"] != "notifications/resources/updated" {}
    }
    drop(server);
}

#[tokio::test]
async fn a_server_of_both_eras_is_spoken_to_as_its_client_speaks() {
    let server = Everything::http(&["--era", "both"]).await;
    let asked = async |more: &str| {
        let world = world(server.entry(more)).await;
        let legacy = whoami(&Client::open(&world, "/mcp").await).await;
        let modern = Modern::new(&world, "/mcp").call("whoami_mcp_up", "{}").await;
        [legacy, modern["result"]["structuredContent"].clone()].map(|who| who["revision"].clone())
    };
    assert_eq!(asked("").await, ["2025-11-25", "2026-07-28"]);
    assert_eq!(asked(r#", "protocol": "modern""#).await, ["2026-07-28", "2026-07-28"]);
    assert_eq!(asked(r#", "protocol": "legacy""#).await, ["2025-11-25", "2025-11-25"]);
    assert_eq!(asked(r#", "protocol": "2025-06-18""#).await, ["2025-06-18", "2025-06-18"]);
    // A child belongs to one of them: the first that it hears.
    let world = world(everything(&["--era", "both"]).await).await;
    assert_eq!(whoami(&Client::open(&world, "/mcp").await).await["revision"], "2026-07-28");
}

/// How a server is once it was tried which answers so when it is asked for its revisions, and what it was asked then.
async fn tried(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Value, Vec<String>) {
    let up = Fake::http(Script { discovering: Some(Arc::new(answer)), ..Script::default() });
    let limits = "reconnectInterval: 1h";
    let world = World::start(&file(limits, &entries(&[("up", up.entry())]))).await.ready().await;
    let how = until("it was tried", async || {
        let how = world.server("up").await;
        (how["state"] != "connecting").then_some(how)
    })
    .await;
    let asked = up.seen().into_iter().map(|seen| seen.method);
    (how, asked.filter(|method| ["server/discover", "initialize"].contains(&&**method)).collect())
}

fn fails(code: i32, id: &str, data: &str) -> Reply {
    Reply::Text(format!(r#"{{"jsonrpc":"2.0"{id},"error":{{"code":{code},"message":"no session"{data}}}}}"#))
}

#[tokio::test]
async fn a_servers_answer_to_the_question_tells_its_era() {
    let (asked, both) = ("server/discover", ["server/discover", "initialize"]);
    let with_id = r#","id":$ID"#;
    let status = |code| Reply::Status(code, vec![]);
    let legacy = [
        fails(-32601, with_id, ""),
        fails(-32602, with_id, ""),
        fails(-32600, with_id, ""),
        fails(-32000, "", ""),
        fails(-32022, with_id, r#","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}"#),
        Reply::Result("{}".into()),
        Reply::Result(r#"{"supportedVersions":["2025-11-25"],"capabilities":{}}"#.into()),
        Reply::Text("<html>hello</html>".into()),
        Reply::Steps(vec![Step::Cut]),
    ];
    let statuses = [400, 404, 405, 406, 415, 422, 500, 202].map(status);
    for reply in legacy.into_iter().chain(statuses) {
        let shown = format!("{reply:?}");
        let (how, methods) = tried(move |_| reply.clone()).await;
        assert_eq!((&how["state"], &how["era"]), (&json!("ready"), &json!("legacy")), "{shown}: {how}");
        assert_eq!(methods, both, "{shown}");
    }
    for (reply, state) in [
        (fails(-32020, with_id, ""), "down"),
        (fails(-32021, with_id, ""), "down"),
        (fails(-32022, with_id, r#","data":{"supported":["2099-01-01"]}"#), "down"),
        (status(503), "down"),
        (status(502), "down"),
        (status(401), "needsAuthorization"),
    ] {
        let shown = format!("{reply:?}");
        let (how, methods) = tried(move |_| reply.clone()).await;
        assert_eq!(how["state"], state, "{shown}: {how}");
        assert_eq!(methods, [asked], "{shown}: no verdict about its era");
    }
    // It is asked again where it names what we speak.
    let times = AtomicU32::new(0);
    let (how, methods) = tried(move |_| match times.fetch_add(1, Ordering::Relaxed) {
        0 => fails(-32022, r#","id":$ID"#, r#","data":{"supported":["2026-07-28"]}"#),
        _ => Reply::Result(r#"{"supportedVersions":["2099-01-01","2026-07-28"],"capabilities":{}}"#.into()),
    })
    .await;
    assert_eq!(
        (&how["era"], &methods[..]),
        (&json!("modern"), &[asked, asked].map(String::from)[..]),
        "{how}"
    );
}

/// A child that keeps the first line it reads, and then is a legacy server: but for what `at_discover` does where the
/// line asks for its revisions.
async fn shy(folder: &Path, at_discover: &str) -> String {
    let server: Value = serde_json::from_str(&everything(&["--era", "legacy"]).await).unwrap();
    let script = format!(
        r#"IFS= read -r line
printf '%s\n' "$line" >> "$0.lines"
case "$line" in *server/discover*) {at_discover};; esac
{{ if [ -n "$line" ]; then printf '%s\n' "$line"; fi; exec cat; }} | {} --stdio --era legacy
"#,
        server["command"].as_str().unwrap()
    );
    let path = folder.join("shy");
    fs::write(&path, script).unwrap();
    format!(r#"{{"command": "sh", "args": ["{}"]}}"#, path.display())
}

/// What its children heard first.
fn first_lines(folder: &Path) -> Vec<String> {
    let lines = fs::read_to_string(folder.join("shy.lines")).unwrap();
    let method =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["method"].as_str().unwrap().to_owned();
    lines.lines().map(method).collect()
}

#[tokio::test]
async fn a_child_that_cannot_stand_being_asked_is_known_for_it_afterwards() {
    for (at_discover, first) in [
        ("echo 'unknown request' >&2; exit 1", vec!["server/discover", "initialize"]),
        ("line=", vec!["server/discover"]),
        ("echo 'what?'; line=", vec!["server/discover"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = world(shy(folder.path(), at_discover).await).await;
        assert_eq!(revision(&world).await, "2025-11-25");
        assert_eq!(first_lines(folder.path()), first, "{at_discover}");
        let client = Client::open(&world, "/mcp").await;
        let process = whoami(&client).await["process"].clone();
        let number = u32::try_from(process.as_u64().unwrap()).unwrap();
        process::kill(number);
        // What is written to the shell before it knows would never be answered.
        until("it has ended", async || (!process::runs(number)).then_some(())).await;
        until("it is there again", async || {
            let answer = client.call("whoami_mcp_up", "{}").await;
            let found = &answer["result"]["structuredContent"]["process"];
            (found.is_u64() && *found != process).then_some(())
        })
        .await;
        let again = first_lines(folder.path());
        assert_eq!(again.get(first.len()..).unwrap(), ["initialize"], "{at_discover}");
    }
}
