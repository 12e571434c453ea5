//! PROTOCOL.md §2.9 across the eras: tasks of 2025-11-25 for clients of 2026-07-28, and tasks of the extension for clients
//! that know nothing of them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::tasks::{next, open_gate, tasks, world};
use crate::support::{Client, Fake, Modern, Reply, Script, Seen, text, tool};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const ABLE: &str = r#"{"roots":{},"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

async fn about(client: &Modern, method: &str, id: &str) -> Value {
    client.json(method, &format!(r#"{{"taskId":"{id}"}}"#)).await
}

/// The status and the body of the answer to `text`, where that is an error.
async fn refused(client: &Modern, text: &str) -> (u16, Value) {
    let answer = client.post(text).await;
    (answer.status, serde_json::from_str(&answer.text).unwrap())
}

#[tokio::test]
async fn an_older_servers_task_is_one_of_the_extension() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(tasks("up", true, &open_gate()));
        let world = world(&[("up", &up)]).await;
        let client = Modern::able(&world, "/mcp", ABLE);
        let found = client.json("server/discover", "{}").await;
        assert_eq!(found["result"]["capabilities"]["extensions"], json!({TASKS: {}}), "{found}");
        let created = client.call("required_mcp_up", r#"{"n":1.50}"#).await["result"].clone();
        let id = created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        assert!(id.starts_with("t1."), "{id}");
        let task = json!({"resultType": "task", "taskId": id, "status": "working", "createdAt": "2025-11-25T00:00:00Z", "lastUpdatedAt": "2025-11-25T00:00:00Z", "ttlMs": 60_000, "pollIntervalMs": 100});
        for (key, value) in task.as_object().unwrap() {
            assert_eq!(created[key], *value, "{key}: {created}");
        }
        assert!(up.seen_of("tools/call")[0].text.contains("1.50"), "as it came");

        let asks = about(&client, "tasks/get", &id).await["result"].clone();
        assert_eq!(
            (&asks["status"], &asks["resultType"]),
            (&json!("input_required"), &json!("complete")),
            "{asks}"
        );
        let (key, asked) = asks["inputRequests"].as_object().unwrap().iter().next().expect("a question");
        assert_eq!(asked["method"], "roots/list", "{asked}");
        assert!(!asked.to_string().contains("related-task"), "{asked}");
        let update =
            |key: &str, said: &str| format!(r#"{{"taskId":"{id}","inputResponses":{{"{key}":{said}}}}}"#);
        let wrong = client.json("tasks/update", &update(key, "5")).await;
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        let other = client.json("tasks/update", &update("nobody's", r#"{"roots":[]}"#)).await;
        assert_eq!(
            other["result"]["resultType"], "complete",
            "keys that are not asked for mean nothing: {other}"
        );
        let roots = r#"{"roots":[{"uri":"file:///a"}]}"#;
        let told = client.json("tasks/update", &update(key, roots)).await;
        assert_eq!(told["result"]["resultType"], "complete", "{told}");
        let heard = up.saw(|seen| seen.method.is_empty() && seen.text.contains("file:///a")).await;
        assert!(heard.text.contains(r#""up 0""#), "under the server's own id: {}", heard.text);

        let done = about(&client, "tasks/get", &id).await["result"].clone();
        assert_eq!((&done["status"], &done["taskId"]), (&json!("completed"), &json!(id)), "{done}");
        assert_eq!(done["result"]["content"][0]["text"], "up 0", "{done}");
        assert!(done["result"].get("_meta").is_none(), "{done}");
        assert_eq!(about(&client, "tasks/cancel", &id).await["result"]["resultType"], "complete");
        for bad in ["up 0", "t1.", &id.replace("t1.", "t2.")] {
            assert_eq!(about(&client, "tasks/get", bad).await["error"]["code"], -32602, "{bad}");
        }
        let (bare, params) = (Modern::new(&world, "/mcp"), format!(r#"{{"taskId":"{id}"}}"#));
        let (status, told) = refused(&bare, &bare.request("tasks/get", &params)).await;
        assert_eq!((status, &told["error"]["code"]), (400, &json!(-32021)), "{told}");
        assert_eq!(told["error"]["data"]["requiredCapabilities"]["extensions"], json!({TASKS: {}}));
        let (status, told) = refused(&client, &client.request("tasks/result", &params)).await;
        assert_eq!((status, &told["error"]["code"]), (404, &json!(-32601)), "{told}");
    }
}

#[tokio::test]
async fn who_listens_hears_of_an_older_servers_task() {
    let up = Fake::http(tasks("up", false, &open_gate()));
    let world = world(&[("up", &up)]).await;
    let client = Modern::able(&world, "/mcp", ABLE);
    let id = client.call("required_mcp_up", "{}").await["result"]["taskId"].as_str().unwrap().to_owned();
    let (told, mut events) = client.listen(&format!(r#"{{"taskIds":["{id}","nobody's"]}}"#)).await;
    assert_eq!(told["params"]["notifications"], json!({"taskIds": [id]}), "{told}");
    let subscription = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    for status in ["working", "completed"] {
        let told = next(&mut events).await;
        assert_eq!(told["method"], "notifications/tasks", "{told}");
        let task = &told["params"];
        assert_eq!((&task["taskId"], &task["status"]), (&json!(id), &json!(status)), "{told}");
        assert_eq!(task["_meta"], json!({"io.modelcontextprotocol/subscriptionId": subscription}), "{told}");
    }
}

#[tokio::test]
async fn who_takes_no_tasks_gets_the_answer() {
    let up = Fake::http(tasks("up", false, &open_gate()));
    let world = world(&[("up", &up)]).await;
    let client = Modern::new(&world, "/mcp");
    let params = r#"{"name":"required_mcp_up","arguments":{},"task":{"ttl":1}}"#;
    let answer = client.json("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "up 0", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_ne!(
        up.seen_of("tools/call")[0].params()["task"]["ttl"],
        1,
        "the client's word means nothing here"
    );
    let params = r#"{"name":"optional_mcp_up","task":{"ttl":1}}"#;
    assert_eq!(client.json("tools/call", params).await["result"]["content"][0]["text"], "no task");
}

/// A server of 2026-07-28 whose tool only runs as a task, which asks its user once and then ends with this `status` and these
/// further members.
fn needy(status: &'static str, more: String) -> Script {
    let answered = Arc::new(Mutex::new(false));
    let task = |status: &str, more: &str| {
        format!(
            r#"{{"resultType":"complete","taskId":"it's","status":"{status}","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttlMs":null,"pollIntervalMs":1{more}}}"#
        )
    };
    let declared = |seen: &Seen| {
        seen.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS].is_object()
    };
    Script {
        tools: vec![tool("job")],
        discovery: Some(format!(r#"{{"tools":{{}},"extensions":{{"{TASKS}":{{}}}}}}"#)),
        call: Arc::new(move |seen| {
            if !declared(seen) {
                let needs = format!(r#"{{"requiredCapabilities":{{"extensions":{{"{TASKS}":{{}}}}}}}}"#);
                return Reply::Text(format!(
                    r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":-32021,"message":"as a task only","data":{needs}}}}}"#
                ));
            }
            Reply::Result(task("working", "").replace("complete", "task"))
        }),
        other: Arc::new(move |seen| {
            assert!(declared(seen), "{}", seen.text);
            if !seen.headers.is_empty() {
                assert_eq!((seen.header("mcp-method"), seen.header("mcp-name")), (&*seen.method, "it's"));
            }
            assert_eq!(seen.params()["taskId"], "it's");
            let mut answered = answered.lock().unwrap();
            let form = r#","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}"#;
            match (&*seen.method, *answered) {
                ("tasks/get", false) => Reply::Result(task("input_required", form)),
                ("tasks/get", true) => Reply::Result(task(status, &more)),
                ("tasks/update", _) => {
                    assert_eq!(
                        seen.params()["inputResponses"],
                        json!({"who": {"action": "accept", "content": {"n": 1}}})
                    );
                    *answered = true;
                    Reply::Result(r#"{"resultType":"complete"}"#.into())
                }
                ("tasks/cancel", _) => Reply::Result(r#"{"resultType":"complete"}"#.into()),
                (other, _) => panic!("unexpected {other}"),
            }
        }),
        ..Script::default()
    }
}

/// Such a server whose task comes to a result.
fn done() -> Script {
    needy("completed", format!(r#","result":{}"#, text("done")))
}

#[tokio::test]
async fn a_task_of_the_extension_is_seen_through_for_older_clients() {
    for make in [Fake::http, Fake::stdio] {
        let up = make(done());
        let world = world(&[("up", &up)]).await;
        let client = Client::able(&world, "/mcp", r#"{"elicitation":{"form":{}}}"#).await;
        let mut events = client.stream(&client.request("job_mcp_up", "{}")).await;
        let asked = next(&mut events).await;
        assert_eq!(
            (&asked["method"], &asked["params"]["message"]),
            (&json!("elicitation/create"), &json!("Who?"))
        );
        let said =
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"n": 1}}});
        client.post(&said.to_string()).await;
        let answer = next(&mut events).await;
        assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "done"}]}), "{answer}");
        assert_eq!(up.seen_of("tools/call").len(), 2);
        // Others have to say themselves that they take tasks.
        let bare = Modern::new(&world, "/mcp");
        let (status, told) = refused(&bare, &bare.calling("job_mcp_up", "{}")).await;
        assert_eq!((status, &told["error"]["code"]), (400, &json!(-32021)), "{told}");
    }
}

#[tokio::test]
async fn a_failed_or_cancelled_task_is_told_as_the_call_would_have_been() {
    let error = r#","error":{"code":-32603,"message":"broken"}"#;
    for (end, more, code, told) in
        [("failed", error, Some(-32603), "broken"), ("cancelled", "", None, "cancelled")]
    {
        let up = Fake::http(needy(end, more.into()));
        let world = world(&[("up", &up)]).await;
        let client = Client::able(&world, "/mcp", r#"{"elicitation":{"form":{}}}"#).await;
        let mut events = client.stream(&client.request("job_mcp_up", "{}")).await;
        let asked = next(&mut events).await;
        let said =
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"n": 1}}});
        client.post(&said.to_string()).await;
        let answer = next(&mut events).await;
        assert_eq!(answer["error"]["code"].as_i64(), code, "{answer}");
        assert_eq!(answer["result"]["isError"] == true, code.is_none(), "{answer}");
        assert!(answer.to_string().contains(told), "{answer}");
    }
}

#[tokio::test]
async fn a_modern_servers_tasks_pass_under_ids_of_our_own() {
    let up = Fake::http(done());
    let world = world(&[("up", &up)]).await;
    let client = Modern::able(&world, "/mcp", ABLE);
    let created = client.call("job_mcp_up", "{}").await["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().unwrap();
    assert!(id.starts_with("t1."), "{id}");
    let asks = about(&client, "tasks/get", id).await["result"].clone();
    assert_eq!(
        (&asks["taskId"], &asks["inputRequests"]["who"]["method"]),
        (&json!(id), &json!("elicitation/create"))
    );
    let update = format!(
        r#"{{"taskId":"{id}","inputResponses":{{"who":{{"action":"accept","content":{{"n":1}}}}}}}}"#
    );
    assert_eq!(client.json("tasks/update", &update).await["result"]["resultType"], "complete");
    let done = about(&client, "tasks/get", id).await["result"].clone();
    assert_eq!(
        (&done["status"], &done["result"]["content"][0]["text"]),
        (&json!("completed"), &json!("done")),
        "{done}"
    );
    assert!(about(&client, "tasks/cancel", id).await["result"].is_object());
}
