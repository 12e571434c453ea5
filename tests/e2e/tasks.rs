//! PROTOCOL.md §2.9, legacy on both sides: tasks of 2025-11-25 pass under ids of our own, and a tool that needs one is run
//! as one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Events, Fake, Reply, Script, Seen, Step, World, entries, file, hello};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Each task needs two looks until it has ended; `asks` makes it ask for roots instead, once somebody waits for its result.
pub(super) fn tasks(name: &'static str, asks: bool, gate: &CancellationToken) -> Script {
    let looks = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let task = |id: &str, status: &str| json!({"taskId": id, "status": status, "createdAt": "2025-11-25T00:00:00Z", "ttl": 60_000, "pollInterval": 100});
    let listed = looks.clone();
    let gate = gate.clone();
    Script {
        tools: ["required", "optional"]
            .map(|kind| format!(r#"{{"name":"{kind}","inputSchema":{{"type":"object"}},"execution":{{"taskSupport":"{kind}"}}}}"#))
            .to_vec(),
        capabilities: Some(r#"{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#.into()),
        call: Arc::new(move |seen: &Seen| {
            if seen.params().get("task").is_none() {
                return Reply::Result(json!({"content": [{"type": "text", "text": "no task"}]}).to_string());
            }
            let mut looks = looks.lock().unwrap();
            let id = format!("{name} {}", looks.len());
            looks.insert(id.clone(), 0);
            Reply::Result(json!({"task": task(&id, "working")}).to_string())
        }),
        other: Arc::new(move |seen| {
            let mut looks = listed.lock().unwrap();
            if seen.method == "tasks/list" {
                let mut all: Vec<_> = looks.keys().map(|id| task(id, "working")).collect();
                all.push(task("another's", "working"));
                return Reply::Result(json!({"tasks": all}).to_string());
            }
            let id = seen.params()["taskId"].as_str().unwrap().to_owned();
            let Some(looked) = looks.get_mut(&id) else {
                return Reply::Text(r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no such task"}}"#.into());
            };
            *looked += 1;
            let related = json!({RELATED: {"taskId": id}});
            match seen.method.as_str() {
                "tasks/get" if asks && *looked < 3 => Reply::Result(task(&id, "input_required").to_string()),
                "tasks/get" if *looked < 2 => Reply::Result(task(&id, "working").to_string()),
                "tasks/get" => Reply::Result(task(&id, "completed").to_string()),
                "tasks/cancel" => Reply::Result(task(&id, "cancelled").to_string()),
                "tasks/result" => {
                    let result = |said: &str| format!(r#"{{"content":[{{"type":"text","text":"{id}"}}],"_meta":{related},"structuredContent":{said},"n":1.50}}"#);
                    let ask = json!({"jsonrpc": "2.0", "id": id, "method": "roots/list", "params": {"_meta": related}});
                    let mut steps = vec![Step::Wait(gate.clone())];
                    let asks = asks && *looked < 3;
                    if asks {
                        steps = vec![Step::Ask(ask.to_string(), json!(id).to_string())];
                    }
                    let said = if asks { "$SAID" } else { "{}" };
                    steps.push(Step::Send(format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{}}}"#, result(said))));
                    Reply::Steps(steps)
                }
                other => panic!("unexpected {other}"),
            }
        }),
        tells: true,
        ..Script::default()
    }
}

pub(super) fn open_gate() -> CancellationToken {
    let gate = CancellationToken::new();
    gate.cancel();
    gate
}

pub(super) async fn world(servers: &[(&str, &Fake)]) -> World {
    let servers: Vec<_> = servers.iter().map(|(name, fake)| (*name, fake.entry())).collect();
    World::start(&file("", &entries(&servers))).await.ready().await
}

pub(super) async fn next(events: &mut Events) -> Value {
    serde_json::from_str(&events.next().await.expect("another message")).unwrap()
}

/// Starts a task and gives its id.
async fn start(client: &Client, tool: &str) -> String {
    let answer = client.json("tools/call", &format!(r#"{{"name":"{tool}","task":{{"ttl":60000}}}}"#)).await;
    let task = &answer["result"]["task"];
    assert_eq!((&task["status"], &task["pollInterval"]), (&json!("working"), &json!(100)), "{answer}");
    task["taskId"].as_str().unwrap().to_owned()
}

async fn about(client: &Client, method: &str, id: &str) -> Value {
    client.json(method, &format!(r#"{{"taskId":"{id}"}}"#)).await
}

#[tokio::test]
async fn tasks_pass_under_ids_of_our_own() {
    let gate = open_gate();
    let (one, two) = (Fake::http(tasks("one", false, &gate)), Fake::stdio(tasks("two", false, &gate)));
    let world = world(&[("one", &one), ("two", &two)]).await;
    let hello: Value =
        serde_json::from_str(&Client::new(world.url("/mcp")).ask(&hello("2025-11-25")).await).unwrap();
    assert_eq!(
        hello["result"]["capabilities"]["tasks"],
        json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
    );
    let (client, other) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let (first, second) =
        (start(&client, "optional_mcp_one").await, start(&client, "required_mcp_two").await);
    for id in [&first, &second] {
        assert!(id.starts_with("t1.") && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    }
    let got = about(&client, "tasks/get", &first).await;
    assert_eq!(
        (&got["result"]["taskId"], &got["result"]["status"]),
        (&json!(first), &json!("working")),
        "{got}"
    );
    assert_eq!(one.seen_of("tasks/get")[0].params()["taskId"], "one 0");
    for (id, raw) in [(&first, "one 0"), (&second, "two 0")] {
        let came = client
            .ask(&format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tasks/result","params":{{"taskId":"{id}"}}}}"#
            ))
            .await;
        assert!(came.contains(r#""n":1.50"#), "as it came: {came}");
        let came: Value = serde_json::from_str(&came).unwrap();
        assert_eq!(came["result"]["content"][0]["text"], *raw);
        assert_eq!(came["result"]["_meta"][RELATED]["taskId"], **id);
    }
    start(&other, "optional_mcp_one").await;
    let listed = client.json("tasks/list", "{}").await;
    let ids: Vec<_> = listed["result"]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["taskId"].as_str().unwrap().to_owned())
        .collect();
    let opened = async |id: &String| about(&client, "tasks/get", id).await["result"]["taskId"] == **id;
    assert!(ids.len() == 2 && opened(&ids[0]).await && opened(&ids[1]).await, "its own tasks only: {listed}");
    let ended = about(&client, "tasks/cancel", &second).await;
    assert_eq!(
        (&ended["result"]["taskId"], &ended["result"]["status"]),
        (&json!(second), &json!("cancelled")),
        "{ended}"
    );
    let mut forged = first.clone();
    forged.replace_range(8..9, if first.get(8..9) == Some("A") { "B" } else { "A" });
    for bad in ["one 0", "t1.", "", &forged] {
        assert_eq!(about(&client, "tasks/get", bad).await["error"]["code"], -32602, "{bad}");
    }
    let own = Client::open(&world, "/mcp/two").await;
    assert_eq!(about(&own, "tasks/get", &first).await["error"]["code"], -32602, "it is not of this view");
    assert_eq!(client.json("tasks/list", r#"{"cursor":"x"}"#).await["error"]["code"], -32602);
}

#[tokio::test]
async fn what_a_task_tells_goes_to_its_owner() {
    let one = Fake::http(tasks("one", false, &open_gate()));
    let world = world(&[("one", &one)]).await;
    let (owner, other) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let (mut hers, mut theirs) = (owner.listen().await, other.listen().await);
    let id = start(&owner, "optional_mcp_one").await;
    one.saw(|seen| seen.kind == "GET").await;
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"one 0","status":"working","n":1.50}}"#);
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"another's","status":"working"}}"#);
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"end"}}"#);
    let told = hers.next().await.unwrap();
    assert_eq!(
        told,
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{"taskId":"{id}","status":"working","n":1.50}}}}"#
        )
    );
    for stream in [&mut hers, &mut theirs] {
        assert_eq!(next(stream).await["params"]["data"], "end");
    }
}

#[tokio::test]
async fn a_tool_that_needs_a_task_is_run_as_one() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(tasks("up", false, &open_gate()));
        let world = world(&[("up", &up)]).await;
        let client = Client::open(&world, "/mcp").await;
        let answer = client.call("required_mcp_up", r#"{"n":1}"#).await;
        assert_eq!(answer["result"]["content"][0]["text"], "up 0", "{answer}");
        assert_eq!(up.seen_of("tools/call")[0].params()["arguments"]["n"], 1);
        assert_eq!((up.seen_of("tasks/get").len(), up.seen_of("tasks/result").len()), (2, 1));
        assert_eq!(client.call("optional_mcp_up", "{}").await["result"]["content"][0]["text"], "no task");
    }
}

#[tokio::test]
async fn a_task_of_ours_asks_the_client() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(tasks("up", true, &open_gate()));
        let world = world(&[("up", &up)]).await;
        let client = Client::able(&world, "/mcp", r#"{"roots":{}}"#).await;
        let mut events = client.stream(&client.request("required_mcp_up", "{}")).await;
        let asked = next(&mut events).await;
        assert_eq!(asked["method"], "roots/list");
        let related = &asked["params"]["_meta"];
        assert!(related[RELATED]["taskId"].as_str().unwrap().starts_with("t1."), "{asked}");
        client
            .post(
                &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [], "_meta": related}})
                    .to_string(),
            )
            .await;
        let answer = next(&mut events).await;
        assert_eq!(&answer["result"]["_meta"], related, "{answer}");
        let told = up.saw(|seen| seen.method.is_empty() && seen.text.contains("roots")).await;
        assert!(told.text.contains(r#"{"taskId":"up 0"}"#), "the server's own id: {}", told.text);
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_the_task_that_we_made_of_it() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let gate = CancellationToken::new();
        let up = make(tasks("up", false, &gate));
        let world = world(&[("up", &up)]).await;
        let client = Client::open(&world, "/mcp").await;
        let call = client.request("required_mcp_up", "{}");
        let ((), mut events) = tokio::join!(
            async {
                up.saw(|seen| seen.method == "tasks/result").await;
                client
                    .post(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#)
                    .await;
            },
            client.stream(&call)
        );
        assert_eq!(events.next().await, None);
        let told = up.saw(|seen| seen.method == "tasks/cancel").await;
        assert_eq!(told.params()["taskId"], "up 0");
        gate.cancel();
    }
}
