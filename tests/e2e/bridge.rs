//! PROTOCOL.md §2.2–2.8 and §2.12: clients of one era, servers of the other, and what each of them sees.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, Modern, Reply, Script, Seen, Step, World, answer, entries, file, text,
};

const ALL: &str = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#;
const KEY: &str = "io.modelcontextprotocol/";

async fn world(up: &Fake) -> World {
    World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn next(events: &mut Events) -> Value {
    parsed(&events.next().await.expect("another message"))
}

fn said(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Asks for the user's name and then for the roots, each in a round of its own, and answers with both.
fn rounds(seen: &Seen) -> Reply {
    let params = seen.params();
    let round = |asked: &str, state: &str| {
        Reply::Result(format!(
            r#"{{"resultType":"input_required","inputRequests":{asked},"requestState":"{state}"}}"#
        ))
    };
    match params["requestState"].as_str() {
        None => round(
            r#"{"name":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":1.50}}}}}}"#,
            "one \\u00e9",
        ),
        Some("one é") => round(r#"{"dirs":{"method":"roots/list"}}"#, "two"),
        Some("two") => Reply::Result(format!(
            r#"{{"resultType":"complete","content":[],"structuredContent":{},"_meta":{{"{KEY}serverInfo":{{"name":"up","version":"1"}},"a/b":2.50}}}}"#,
            params["inputResponses"]
        )),
        Some(other) => panic!("unexpected state {other}"),
    }
}

fn modern(call: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Script {
    Script { discovery: Some(r#"{"tools":{}}"#.into()), ..Script::answering(call) }
}

#[tokio::test]
async fn rounds_of_a_modern_server_are_requests_to_a_client_with_a_session() {
    for make in [Fake::http, Fake::stdio] {
        let up = make(modern(rounds));
        let world = world(&up).await;
        let client = Client::able(&world, "/mcp", ALL).await;
        let call = r#"{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"who_mcp_up","arguments":{"a":1.50},"_meta":{"progressToken":"p","x/y":1,"io.modelcontextprotocol/clientCapabilities":{"smuggled":{}}}}}"#;
        let mut events = client.stream(call).await;
        let asked = events.next().await.unwrap();
        assert!(asked.contains(r#""default":1.50"#), "as it came: {asked}");
        let asked = parsed(&asked);
        assert_eq!(asked["method"], "elicitation/create");
        let answered = r#"{"action":"accept","content":{"n":2.50}}"#;
        assert_eq!(client.post(&said(&asked["id"], answered)).await.status, 202);
        let asked = next(&mut events).await;
        assert_eq!(asked["method"], "roots/list");
        client.post(&said(&asked["id"], r#"{"roots":[{"uri":"file:///a"}]}"#)).await;
        let done = next(&mut events).await;
        assert_eq!(events.next().await, None);
        let result = json!({
            "content": [],
            "structuredContent": {"dirs": {"roots": [{"uri": "file:///a"}]}},
            "_meta": {"a/b": 2.5},
        });
        assert_eq!((&done["id"], &done["result"]), (&json!("mine"), &result), "of the last round alone");

        let calls = up.seen_of("tools/call");
        assert_eq!(calls.len(), 3);
        for (call, other) in calls.iter().zip(calls.iter().skip(1)) {
            assert_ne!(call.id, other.id);
        }
        for call in &calls {
            let params = call.params();
            assert!(call.text.contains(r#""arguments":{"a":1.50}"#), "as it came: {}", call.text);
            assert_eq!(params["name"], "who");
            let meta = &params["_meta"];
            assert_eq!(meta["progressToken"].to_string(), *call.id.as_ref().unwrap(), "our own token");
            assert_eq!(
                (&meta["x/y"], &meta[format!("{KEY}protocolVersion")]),
                (&json!(1), &json!("2026-07-28"))
            );
            let abilities = &meta[format!("{KEY}clientCapabilities")];
            assert_eq!(abilities["elicitation"], json!({"form": {}, "url": {}}));
            assert!(abilities["smuggled"].is_null(), "what the handshake said counts: {abilities}");
            assert!(meta[format!("{KEY}logLevel")].is_null(), "the client named none");
            if call.kind == "POST" {
                let shown = ["mcp-protocol-version", "mcp-method", "mcp-name"].map(|name| call.header(name));
                assert_eq!(shown, ["2026-07-28", "tools/call", "who"]);
            }
        }
        let [first, second, last] = &calls[..] else { panic!() };
        assert!(first.params()["inputResponses"].is_null() && first.params()["requestState"].is_null());
        assert!(
            second.text.contains(&format!(r#""inputResponses":{{"name":{answered}}}"#)),
            "{}",
            second.text
        );
        assert_eq!(last.params()["inputResponses"], json!({"dirs": {"roots": [{"uri": "file:///a"}]}}));
    }
}

#[tokio::test]
async fn a_client_that_cancels_between_rounds_hears_no_more_of_the_call() {
    let up = Fake::http(modern(rounds));
    let world = world(&up).await;
    let client = Client::able(&world, "/mcp", ALL).await;
    let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
    let asked = next(&mut events).await;
    client.post(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#).await;
    let told = next(&mut events).await;
    assert_eq!(
        (&told["method"], &told["params"]["requestId"]),
        (&json!("notifications/cancelled"), &asked["id"])
    );
    assert_eq!(events.next().await, None, "and no answer");
    client.post(&said(&asked["id"], r#"{"action":"accept"}"#)).await;
    assert!(client.tools().await.len() == 1 && up.seen_of("tools/call").len() == 1, "nor does its server");
}

#[tokio::test]
async fn what_a_client_cannot_be_asked_ends_the_call_in_words_for_a_model() {
    let up = Fake::http(modern(rounds));
    let world = world(&up).await;
    for (client, what) in [
        (Client::open(&world, "/mcp").await, "did not declare elicitation"),
        (Client::able(&world, "/mcp", ALL).await.with("accept", "application/json"), "takes no events"),
    ] {
        let answer = client.call("who_mcp_up", "{}").await;
        let told = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(answer["result"]["isError"] == true && told.contains(what), "{answer}");
    }
    let client = Client::able(&world, "/mcp", ALL).await;
    let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
    let asked = next(&mut events).await;
    let refusal = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-1,"message":"no"}}}}"#, asked["id"]);
    client.post(&refusal).await;
    let asked = next(&mut events).await;
    assert_eq!(asked["method"], "roots/list", "a refused form is a cancelled one");
    let again = refusal.replace(r#""gw-1""#, &asked["id"].to_string());
    client.post(&again).await;
    let answer = next(&mut events).await;
    assert!(answer["result"]["isError"] == true, "and for roots there is no such word: {answer}");
    let last = up.seen_of("tools/call").pop().unwrap().params();
    assert_eq!(last["inputResponses"], json!({"name": {"action": "cancel"}}));
}

#[tokio::test]
async fn a_modern_server_keeps_its_state_with_a_client_which_cannot_read_it() {
    let up = Fake::http(modern(rounds));
    let world = world(&up).await;
    let client = Modern::able(&world, "/mcp", ALL);
    let retry = |state: &Value, responses: Value| {
        json!({"name": "who_mcp_up", "arguments": {}, "requestState": state, "inputResponses": responses})
            .to_string()
    };
    let first = client.json("tools/call", r#"{"name":"who_mcp_up","arguments":{}}"#).await;
    assert_eq!(first["result"]["inputRequests"]["name"]["method"], "elicitation/create", "{first}");
    let state = &first["result"]["requestState"];
    assert!(!state.as_str().unwrap().contains("one"), "sealed: {state}");
    let answers = json!({"name": {"action": "accept"}, "more": 7});
    let second = client.json("tools/call", &retry(state, answers.clone())).await;
    assert_eq!(second["result"]["resultType"], "input_required", "{second}");
    let seen = up.seen_of("tools/call").pop().unwrap();
    assert!(seen.text.contains(r#""requestState":"one \u00e9""#), "byte by byte its own: {}", seen.text);
    assert_eq!(seen.params()["inputResponses"], answers);
    let third =
        client.json("tools/call", &retry(&second["result"]["requestState"], json!({"dirs": {}}))).await;
    assert_eq!(third["result"]["structuredContent"], json!({"dirs": {}}), "{third}");
    assert_eq!(third["result"]["_meta"][format!("{KEY}serverInfo")]["name"], "trunkline");
    // Its server sees to how often a state may be used; we, to whose and for what.
    let other = retry(state, answers).replace("\"arguments\":{}", "\"arguments\":{\"x\":1}");
    assert_eq!(client.json("tools/call", &other).await["error"]["code"], -32602);
    assert_eq!(up.seen_of("tools/call").len(), 3);
}

#[tokio::test]
async fn a_legacy_servers_questions_are_rounds_to_a_client_without_a_session() {
    let ask = r#"{"jsonrpc":"2.0","id":"ask-$ID","method":"elicitation/create","params":{"mode":"url","url":"https://a","elicitationId":"e","message":"m","_meta":{"progressToken":1}}}"#;
    let script = Script::answering(move |_| {
        let echo = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":$SAID}}"#;
        Reply::Steps(vec![Step::Ask(ask.into(), "\"ask-$ID\"".into()), Step::Send(echo.into())])
    });
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(script.clone());
        let world = world(&up).await;
        let client = Modern::able(&world, "/mcp", ALL);
        let first = client.json("tools/call", r#"{"name":"who_mcp_up","arguments":{}}"#).await;
        let asked = &first["result"]["inputRequests"];
        assert_eq!(
            asked,
            &json!({"leg-1": {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a", "message": "m"}}})
        );
        let responses = json!({"leg-1": {"action": "accept"}});
        let state = &first["result"]["requestState"];
        let retry = json!({"name": "who_mcp_up", "arguments": {}, "requestState": state, "inputResponses": responses});
        let done = client.json("tools/call", &retry.to_string()).await;
        let heard = &done["result"]["structuredContent"];
        assert_eq!(
            (&done["result"]["resultType"], &heard["result"]),
            (&json!("complete"), &responses["leg-1"])
        );
        assert!(heard["id"].as_str().unwrap().starts_with("ask-"), "{heard}");
        let calls = up.seen_of("tools/call");
        assert_eq!(calls.len(), 1, "the server saw one call");
        assert!(!calls[0].text.contains(KEY), "and no envelope: {}", calls[0].text);
    }
}

#[tokio::test]
async fn pages_that_a_legacy_server_wants_opened_first_are_a_round() {
    let script = Script::answering(|seen| {
        if seen.id.as_ref().and_then(|id| id.parse::<u64>().ok()).is_some_and(|id| id % 2 == 0) {
            return Reply::Result(text("opened"));
        }
        Reply::Text(r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a","message":"m"}]}}}"#.into())
    });
    let up = Fake::http(script);
    let world = world(&up).await;
    // Until it is one that the server wants to be asked about.
    let able = Modern::able(&world, "/mcp", ALL);
    let asks = async |client: &Modern| loop {
        let answer = client.post(&client.calling("who_mcp_up", "{}")).await;
        let parsed = parsed(&answer.text);
        if parsed["result"]["resultType"] != "complete" {
            return (answer.status, parsed);
        }
    };
    let (_, first) = asks(&able).await;
    let requests = first["result"]["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["params"], json!({"mode": "url", "url": "https://a", "message": "m"}));
    for (action, told) in [("accept", "opened"), ("decline", "did not open")] {
        let asked = if action == "accept" { first.clone() } else { asks(&able).await.1 };
        let state = &asked["result"]["requestState"];
        let responses = json!({key: {"action": action}});
        let retry = json!({"name": "who_mcp_up", "arguments": {}, "requestState": state, "inputResponses": responses});
        let done = able.json("tools/call", &retry.to_string()).await;
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains(told), "{done}");
    }
    let (status, refused) = asks(&Modern::able(&world, "/mcp", r#"{"elicitation":{}}"#)).await;
    let needed = json!({"requiredCapabilities": {"elicitation": {"url": {}}}});
    assert_eq!(
        (status, &refused["error"]["code"], &refused["error"]["data"]),
        (400, &json!(-32021), &needed)
    );
}

#[tokio::test]
async fn each_client_hears_of_the_log_what_it_asked_for() {
    let log = |level: &str| {
        Step::Send(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1}}}}"#
        ))
    };
    let up = Fake::http(Script::answering(move |_| {
        Reply::Steps(vec![log("debug"), log("error"), answer("done")])
    }));
    let world = world(&up).await;
    let client = Modern::new(&world, "/mcp");
    for (level, heard) in [("", 0), ("error", 1), ("debug", 2)] {
        let member = format!(r#""{KEY}logLevel":"{level}""#);
        let client = if level.is_empty() { client.saying(r#""a/b":1"#) } else { client.saying(&member) };
        let mut events = Vec::new();
        let answer = client.post(&client.calling("who_mcp_up", "{}")).await;
        events.extend(answer.text.matches("notifications/message"));
        assert_eq!(events.len(), heard, "{level}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_call_begins_once_the_server_knows_from_which_level_on_its_log_is_wanted() {
    let known = CancellationToken::new();
    let (told, gate) = (known.clone(), known.clone());
    let up = Fake::http(Script {
        capabilities: Some(r#"{"tools":{},"logging":{}}"#.into()),
        other: Arc::new(move |seen| {
            assert_eq!(seen.method, "logging/setLevel");
            Reply::Steps(vec![Step::Wait(gate.clone()), Step::Send(seen.answer("{}"))])
        }),
        ..Script::answering(move |_| Reply::Result(text(&told.is_cancelled().to_string())))
    });
    let world = world(&up).await;
    let client = Modern::new(&world, "/mcp").saying(&format!(r#""{KEY}logLevel":"debug""#));
    let server = async {
        up.saw(|seen| seen.method == "logging/setLevel").await;
        // As long as no call that does not wait for it would take.
        sleep(Duration::from_millis(200)).await;
        known.cancel();
    };
    let (answer, ()) = tokio::join!(client.call("who_mcp_up", "{}"), server);
    assert_eq!(answer["result"]["content"][0]["text"], "true", "{answer}");
}

#[tokio::test]
async fn a_call_that_is_made_again_is_told_what_its_client_said_before() {
    let script = Script::answering(|_| {
        let ask = |n: u8| {
            let leg = r#"{"jsonrpc":"2.0","id":"N-$ID","method":"elicitation/create","params":{"message":"N","requestedSchema":{"type":"object","properties":{}},"_meta":{"progressToken":$ID}}}"#;
            Step::Ask(leg.replace('N', &n.to_string()), format!("\"{n}-$ID\""))
        };
        let echo = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":$SAID}}"#;
        Reply::Steps(vec![ask(1), ask(2), Step::Send(echo.into())])
    });
    let up = Fake::http(script);
    let entry = up.entry_with(r#", "replay": true"#);
    let world = World::start(&file("", &entries(&[("up", entry)]))).await.ready().await;
    let client = Modern::able(&world, "/mcp", ALL);
    let mut params = json!({"name": "who_mcp_up", "arguments": {}});
    for message in ["1", "2"] {
        let asked = client.json("tools/call", &params.to_string()).await;
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let (key, request) = requests.iter().next().unwrap();
        assert_eq!((requests.len(), &request["params"]["message"]), (1, &json!(message)), "{asked}");
        up.saw(|seen| seen.method == "notifications/cancelled").await;
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = json!({key: 7});
        assert_eq!(client.json("tools/call", &params.to_string()).await["error"]["code"], -32602);
        params["inputResponses"] = json!({key: {"action": "accept", "content": {"n": message}}});
    }
    let done = client.json("tools/call", &params.to_string()).await;
    let heard = &done["result"]["structuredContent"]["result"]["content"]["n"];
    assert_eq!((heard, up.seen_of("tools/call").len()), (&json!("2"), 3), "{done}");
    params["arguments"] = json!({"x": 1});
    assert_eq!(
        client.json("tools/call", &params.to_string()).await["error"]["code"],
        -32602,
        "of another call"
    );
    let replayed = r#"trunkline_held_calls_total{result="replayed",server="up"}"#;
    assert!((world.metric(replayed).await - 2.0).abs() < 0.5);
}
