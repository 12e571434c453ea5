//! PROTOCOL.md §1.7: several messages in one body, in sessions of 2025-03-26 alone.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, Reply, Script, Step, World, answer, entries, error, file, progress, text,
};

fn call(id: usize, said: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"who_mcp_up","arguments":{{"said":"{said}"}},"_meta":{{"progressToken":{id}}}}}}}"#
    )
}

const PING: &str = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Answers with what is in the arguments: `wait` when the gate opens, `tell` after progress.
async fn echoing(gate: &CancellationToken) -> (World, Fake) {
    let gate = gate.clone();
    let up = Fake::http(Script::answering(move |seen| {
        let said = seen.params()["arguments"]["said"].as_str().unwrap().to_owned();
        match said.as_str() {
            "wait" => Reply::Steps(vec![Step::Wait(gate.clone()), answer(&said)]),
            "tell" => Reply::Steps(vec![progress(), Step::Wait(gate.clone()), answer(&said)]),
            _ => Reply::Result(text(&said)),
        }
    }));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    (world, up)
}

fn array(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn fault_028_a_batch_is_answered_as_one_array() {
    let gate = CancellationToken::new();
    let (world, up) = echoing(&gate).await;
    let client = Client::of(&world, "2025-03-26").await;
    let hello = crate::support::hello("2025-03-26");
    let batch = format!(
        r#" [{},{PING}, {NOTE} ,{},1,{{"jsonrpc":"2.0","id":9,"method":"no/such"}},{hello},{},{{}}]"#,
        call(1, "one"),
        call(2, "two"),
        call(1, "again")
    );
    let got = client.post(&batch).await;
    assert_eq!((got.status, got.headers["content-type"].as_bytes()), (200, &b"application/json"[..]));
    let answers = array(&got.text);
    let of = |id: Value| answers.iter().filter(|answer| answer["id"] == id).collect::<Vec<_>>();
    assert_eq!(answers.len(), 8, "{}", got.text);
    assert_eq!(of("ping".into())[0]["result"], serde_json::json!({}));
    assert_eq!(of(2.into())[0]["result"]["content"][0]["text"], "two");
    assert_eq!(of(9.into())[0]["error"]["code"], -32601);
    assert_eq!(of("hello".into())[0]["error"]["code"], -32600, "no session is made in a batch");
    let twice = of(1.into());
    assert!(twice.iter().any(|answer| answer["result"]["content"][0]["text"] == "one"));
    assert!(twice.iter().any(|answer| answer["error"]["code"] == -32600), "an id twice: {twice:?}");
    let no_id = answers.iter().filter(|answer| answer.get("id").is_none());
    assert_eq!(no_id.map(|answer| &answer["error"]["code"]).collect::<Vec<_>>(), [-32600, -32600]);
    assert_eq!(up.seen_of("tools/call").len(), 2);

    for quiet in [format!("[{NOTE},{NOTE}]"), format!(r#"[{{"jsonrpc":"2.0","id":7,"result":{{}}}},{NOTE}]"#)]
    {
        let got = client.post(&quiet).await;
        assert_eq!((got.status, &*got.text), (202, ""), "{quiet}");
    }
    let got = client.with("accept", "application/json").post(&format!("[{},{PING}]", call(3, "one"))).await;
    assert_eq!(array(&got.text).len(), 2);
}

#[tokio::test]
async fn fault_028_a_batch_is_refused_where_it_does_not_belong() {
    let (world, up) = echoing(&CancellationToken::new()).await;
    let batch = format!("[{PING}]");
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let got = Client::of(&world, revision).await.post(&batch).await;
        assert_eq!((got.status, error(&got.text)), (400, Some(-32600)), "{revision}");
        assert!(got.text.contains("send each message by itself"), "{}", got.text);
    }
    assert_eq!(Client::new(world.url("/mcp")).post(&batch).await.status, 400);
    let client = Client::of(&world, "2025-03-26").await;
    assert_eq!(client.with("mcp-session-id", "made-up").post(&batch).await.status, 404);
    let many = |count: usize| format!("[{}]", vec![PING; count].join(","));
    for (body, code) in
        [("[]", -32600), ("[ ]", -32600), (&many(65), -32600), ("[", -32700), ("[1,]", -32700)]
    {
        let got = client.post(body).await;
        assert_eq!((got.status, error(&got.text)), (400, Some(code)), "{body:.20}: {}", got.text);
    }
    assert_eq!(array(&client.post(&many(64)).await.text).len(), 64);
    assert!(up.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn the_calls_of_a_batch_run_side_by_side_and_can_be_cancelled_one_by_one() {
    let gate = CancellationToken::new();
    let (world, up) = echoing(&gate).await;
    let client = Client::of(&world, "2025-03-26").await;
    let batch = format!("[{},{},{}]", call(1, "wait"), call(2, "wait"), call(3, "quick"));
    let plain = client.with("accept", "application/json");
    let (got, ()) = tokio::join!(plain.post(&batch), async {
        up.saw(|seen| seen.text.contains("quick")).await;
        let seen = up.seen_of("tools/call");
        assert_eq!(seen.len(), 3, "none waits for another");
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
        assert_eq!(client.post(cancel).await.status, 202);
        up.saw(|seen| seen.method == "notifications/cancelled").await;
        gate.cancel();
    });
    let mut ids: Vec<_> = array(&got.text).iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 3], "the cancelled one is missing");
}

#[tokio::test]
async fn what_comes_before_the_answers_makes_events_that_can_be_resumed() {
    let gate = CancellationToken::new();
    let (world, _up) = echoing(&gate).await;
    let client = Client::of(&world, "2025-03-26").await;
    let batch = format!("[{},{PING},{}]", call(1, "tell"), call(2, "quick"));
    let mut events: Events = client.stream(&batch).await;
    let mut before = vec![events.next().await.unwrap()];
    let last = events.last_id.clone().unwrap();
    drop(events);
    let mut events = client.with("last-event-id", &last).listen().await;
    before.extend([events.next().await.unwrap(), events.next().await.unwrap()]);
    before.sort();
    assert!(before[0].contains(r#""id":"ping""#), "{before:?}");
    assert!(before[1].contains(r#""id":2"#) && before[2].contains("notifications/progress"), "{before:?}");
    gate.cancel();
    assert!(events.next().await.unwrap().contains(r#""id":1"#));
    assert_eq!(events.next().await, None);

    // A client that takes nothing but events gets events, be they as quick as may be.
    let mut events = client.with("accept", "text/event-stream").stream(&format!("[{PING},{PING}]")).await;
    for _ in 0..2 {
        assert!(events.next().await.unwrap().contains(r#""id":"ping""#));
    }
    assert_eq!(events.next().await, None);
}
