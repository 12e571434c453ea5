//! Rows 34 to 38, 41 and 42: revisions, headers, the life of a session, and what clients may hold.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{one, others_notice_nothing};
use crate::support::{
    Client, Fake, Modern, Reply, Script, Step, World, answer, entries, error, file, hello, join, progress,
    text, until,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn fault_034_a_revision_cannot_be_changed_on_the_way() {
    let (world, up, client) = one(Script::default()).await;
    for (header, status) in [
        ("2025-11-25", 200),
        ("", 200),
        // Clients that write another one that we know are served: what was agreed holds.
        ("2025-06-18", 200),
        ("2025-03-26", 200),
        ("2026-07-28", 400),
        ("1999-01-01", 400),
        ("latest", 400),
    ] {
        let told = client.with("mcp-protocol-version", header).post(PING).await;
        assert_eq!(told.status, status, "{header}: {}", told.text);
    }
    assert!(up.seen_of("ping").is_empty());
    let batch = client.with("mcp-protocol-version", "2025-03-26").post(&format!("[{PING}]")).await;
    assert_eq!((batch.status, error(&batch.text)), (400, Some(-32600)), "the session is what it was");
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_036_what_a_header_says_never_stands_raw_in_another() {
    let noted = r#"{"name":"who","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
    let script = Script { tools: vec![noted.into()], ..Script::default() };
    let up = Fake::http(Script { discovery: Some(r#"{"tools":{}}"#.into()), ..script });
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Modern::new(&world, "/mcp");
    for evil in
        ["a\r\nx-evil: 1", "a\nb", "\r", "\0", "é\r\n\r\nGET / HTTP/1.1", "=?base64?YQ==?=", " a ", "\u{7f}"]
    {
        let text = client.calling("who_mcp_up", &json!({"region": evil}).to_string());
        let encoded = trunkline::mcp::encode_header(evil);
        let good = client.headed(&text).with("mcp-param-region", encoded.to_str().unwrap());
        let told = good.post(&text).await;
        assert_eq!(told.status, 200, "{evil:?}: {}", told.text);
        let seen = up.seen_of("tools/call").pop().unwrap();
        assert_eq!(seen.params()["arguments"]["region"], evil);
        assert!(seen.headers.get("x-evil").is_none());
        let header = seen.headers.get("mcp-param-region").expect("it is repeated to a modern server");
        assert!(header.as_bytes().iter().all(|byte| (0x20..0x7f).contains(byte)), "{header:?}");
        assert_eq!(trunkline::mcp::decode_header(header.as_bytes()).as_deref(), Ok(evil));
        // The same value for another argument.
        let wrong = client.headed(&client.calling("who_mcp_up", r#"{"region":"eu"}"#));
        let text = client.calling("who_mcp_up", r#"{"region":"eu"}"#);
        let told = wrong.with("mcp-param-region", encoded.to_str().unwrap()).post(&text).await;
        assert_eq!((told.status, error(&told.text)), (400, Some(-32020)), "{evil:?}: {}", told.text);
    }
}

#[tokio::test]
async fn fault_037_the_wrong_order_has_its_errors_and_leaves_no_state() {
    let (world, up, client) = one(Script::default()).await;
    let bare = Client::new(world.url("/mcp"));
    let call = bare.request("who_mcp_up", "{}");
    let sessions = async || world.metric("trunkline_sessions").await;
    let before = sessions().await;
    for text in [&*call, PING, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#] {
        let told = bare.post(text).await;
        assert_eq!(told.status, 400, "before `initialize`: {}", told.text);
        assert!(told.headers.get("mcp-session-id").is_none());
    }
    for bad in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":null,"capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":7}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7,"capabilities":{}}}"#,
    ] {
        let told = bare.post(bad).await;
        assert_eq!(error(&told.text), Some(-32602), "{bad}: {}", told.text);
        assert!(told.headers.get("mcp-session-id").is_none(), "{bad}");
    }
    assert!((sessions().await - before).abs() < 0.5, "no session was made");
    // A second `initialize` opens another session and does nothing to the first.
    let again = client.post(&hello("2025-06-18")).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_ne!(again.headers["mcp-session-id"], client.headers["mcp-session-id"]);
    assert_eq!(client.post(PING).await.status, 200);
    let second = client.with("mcp-session-id", again.headers["mcp-session-id"].to_str().unwrap());
    assert_eq!(second.whole(hyper::Method::DELETE, "").await.status, 204);
    assert_eq!(second.post(PING).await.status, 404);
    assert_eq!(client.post(PING).await.status, 200, "the first one lives on");
    // Without `notifications/initialized` a call is served all the same: clients forget it.
    let eager = Client::new(world.url("/mcp"));
    let opened = eager.post(&hello("2025-11-25")).await;
    let eager = eager.with("mcp-session-id", opened.headers["mcp-session-id"].to_str().unwrap());
    assert!(eager.call("who_mcp_up", "{}").await["result"].is_object());
    assert_eq!(up.seen_of("tools/call").len(), 1);
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_038_cancellations_and_progress_of_strangers_are_ignored() {
    let gate = CancellationToken::new();
    let script = {
        let gate = gate.clone();
        Script::answering(move |seen| {
            if seen.params()["arguments"]["waits"] == true {
                Reply::Steps(vec![progress(), Step::Wait(gate.clone()), answer("done")])
            } else {
                Reply::Result(text("here"))
            }
        })
    };
    let (world, up, client) = one(script).await;
    let stranger = Client::open(&world, "/mcp").await;
    let call = r#"{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"who_mcp_up","arguments":{"waits":true},"_meta":{"progressToken":"p"}}}"#;
    let mut events = client.stream(call).await;
    assert!(events.next().await.unwrap().contains("progress"));
    let ours = up.seen_of("tools/call")[0].id.clone().unwrap();
    for who in [&client, &stranger] {
        for text in [
            // Of ids that are not in flight, ours towards the server among them, and of no ids at all.
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never"}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{ours}}}}}"#),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":[]}}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":9}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{ours},"progress":9}}}}"#),
            // Answers to what nobody asked.
            format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{}}}"#, text("forged")),
            r#"{"jsonrpc":"2.0","id":"mine","result":{"content":[]}}"#.to_owned(),
        ] {
            let told = who.post(&text).await;
            assert_eq!((told.status, &*told.text), (202, ""), "{text}");
        }
    }
    let theirs = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}"#;
    assert_eq!(stranger.post(theirs).await.status, 202);
    others_notice_nothing(&world, "who_mcp_up").await;
    assert!(
        up.seen_of("notifications/cancelled").is_empty() && up.seen_of("notifications/progress").is_empty()
    );
    gate.cancel();
    let last = events.next().await.unwrap();
    assert_eq!(last, format!(r#"{{"jsonrpc":"2.0","id":"mine","result":{}}}"#, text("done")));
}

#[tokio::test]
async fn fault_041_what_tracing_writes_into_a_call_does_not_stop_it() {
    let (world, up, client) = one(Script::default()).await;
    let large = "k=v,".repeat(1 << 18);
    for (key, value) in [
        ("baggage", json!(large)),
        ("baggage", json!(7)),
        ("traceparent", json!("00-zz-zz-zz")),
        ("traceparent", json!("")),
        ("traceparent", json!({"a": 1})),
        ("traceparent", json!("00-\r\n-x")),
        ("tracestate", json!(large)),
    ] {
        let params = json!({"name": "who_mcp_up", "arguments": {}, "_meta": {key: value}}).to_string();
        let answer = client.json("tools/call", &params).await;
        assert_eq!(answer["result"]["content"][0]["text"], "here", "{key}: {answer}");
        let modern = Modern::new(&world, "/mcp").saying(&format!(r#""{key}":{value}"#));
        let answer = modern.call("who_mcp_up", "{}").await;
        assert_eq!(answer["result"]["content"][0]["text"], "here", "{key}: {answer}");
        for seen in up.seen_of("tools/call") {
            let headers: usize =
                seen.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
            assert!(headers < 4096, "none of it becomes a header");
        }
    }
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_042_one_client_holds_a_thousand_subscriptions_and_no_more() {
    const MOST: usize = 1000;
    let script = Script {
        capabilities: Some(r#"{"tools":{},"resources":{"subscribe":true},"logging":{}}"#.into()),
        templates: vec![r#"{"uriTemplate":"test://up/{id}","name":"t"}"#.into()],
        other: Arc::new(|_| Reply::Result("{}".into())),
        ..Script::default()
    };
    let (world, up, client) = one(script).await;
    let (mut granted, mut refused) = (0, 0);
    for start in (0..10_000).step_by(50) {
        let uris: Vec<_> =
            (start..start + 50).map(|n| json!({"uri": format!("test://up/{n}")}).to_string()).collect();
        for answer in join(uris.iter().map(|uri| client.json("resources/subscribe", uri))).await {
            if answer["result"].is_object() {
                granted += 1;
                continue;
            }
            let told = answer["error"]["message"].as_str().unwrap();
            assert!(told.contains("subscription"), "{answer}");
            refused += 1;
        }
    }
    eprintln!("{granted} of {} subscriptions were granted", granted + refused);
    assert!(granted <= MOST && granted > MOST - 10, "{granted}");
    // The server may hear of one that is refused, and then that it is not wanted.
    let asked = |method: &str| up.seen_of(method).len();
    until("the server is left with those that stand", async || {
        (asked("resources/subscribe") - asked("resources/unsubscribe") <= MOST).then_some(())
    })
    .await;
    // Another client has room, and the first one again once it gives some back.
    let other = Client::open(&world, "/mcp").await;
    let uri = |n: usize| json!({"uri": format!("test://up/{n}")}).to_string();
    assert!(other.json("resources/subscribe", &uri(5)).await["result"].is_object());
    assert!(other.json("resources/subscribe", &uri(2_000_000)).await["result"].is_object());
    assert!(client.json("resources/unsubscribe", &uri(0)).await["result"].is_object());
    assert!(client.json("resources/subscribe", &uri(3_000_000)).await["result"].is_object());
    // Levels come and go: the server hears of each change of what is wanted, and one level is kept.
    for n in 0..500 {
        let level = ["debug", "error"][n % 2];
        let answer: Value = client.json("logging/setLevel", &json!({"level": level}).to_string()).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(client.json("logging/setLevel", r#"{"level":"loud"}"#).await["error"]["code"], -32602);
    others_notice_nothing(&world, "who_mcp_up").await;
    assert_eq!(world.server("up").await["state"], "ready");
}
