//! Rows 22 to 30: the form of a message.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use tokio::time::Instant;

use super::{one, others_notice_nothing};
use crate::support::{
    Client, Fake, Reply, Script, Step, World, answer, entries, error, file, join, median, text,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn has_id(text: &str) -> bool {
    let answer: serde_json::Value = serde_json::from_str(text).unwrap();
    answer.get("id").is_some()
}

#[tokio::test]
async fn fault_022_what_is_not_json_is_told_so_without_an_id() {
    let (world, up, client) = one(Script::default()).await;
    let utf16: Vec<u8> = PING.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&b"\xff\xfe"[..], &utf16].concat();
    let bodies: [&[u8]; 12] = [
        b"",
        b" \n",
        b"not json",
        b"{",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}".as_bytes(),
        &utf16,
        &marked,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xed\xa0\x80\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}{}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\0\"}}",
    ];
    for body in bodies {
        let told = client.whole(Method::POST, body.to_vec()).await;
        let what = String::from_utf8_lossy(body);
        assert_eq!((told.status, error(&told.text)), (400, Some(-32700)), "{what}: {}", told.text);
        assert!(!has_id(&told.text), "{what}: {}", told.text);
    }
    others_notice_nothing(&world, "who_mcp_up").await;
    assert_eq!(up.seen_of("tools/call").len(), 1, "nothing of it reached the server");
}

/// Deep by `depth` in the arguments of a call.
fn deep_call(depth: usize) -> String {
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"who_mcp_up","arguments":{{"a":{open}{close}}}}}}}"#
    )
}

#[tokio::test]
async fn fault_023_what_is_too_deep_is_refused_at_once_both_ways() {
    let script = Script::answering(|seen| {
        // Of a call of ours: as deep as its argument says.
        let depth = seen.params()["arguments"]["depth"].as_u64().unwrap_or_default();
        let depth = usize::try_from(depth).unwrap();
        if depth == 0 {
            return Reply::Result(text("here"));
        }
        Reply::Result(format!(r#"{{"content":[],"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth)))
    });
    let (world, up, client) = one(script).await;
    // The message, `params` and `arguments` are three levels.
    assert_eq!(client.post(&deep_call(125)).await.status, 200);
    for depth in [126, 1_000_000] {
        let told = client.post(&deep_call(depth)).await;
        assert_eq!((told.status, error(&told.text)), (400, Some(-32600)), "{depth}: {:.200}", told.text);
    }
    assert_eq!(up.seen_of("tools/call").len(), 1);
    for (depth, is_error) in [(100, false), (128, true), (1_000_000, true)] {
        let answer = client.call("who_mcp_up", &format!(r#"{{"depth":{depth}}}"#)).await;
        let failed = answer["result"]["isError"] == true || answer["error"].is_object();
        assert_eq!(failed, is_error, "{depth}: {answer:.300}");
    }
    assert_eq!(world.server("up").await["state"], "ready", "one answer is no reason to leave the server");
    others_notice_nothing(&world, "who_mcp_up").await;

    // Refused at the 129th bracket, so it costs no more than reading a body of that size.
    let flat = deep_call(1).replace("[]", &format!("\"{}\"", "x".repeat(2_000_000)));
    let deep = deep_call(1_000_000);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..7 {
        for (text, times) in [&flat, &deep].into_iter().zip(&mut times) {
            let started = Instant::now();
            client.post(text).await;
            times.push(started.elapsed());
        }
    }
    let [flat, deep] = times.map(median);
    eprintln!(
        "a million brackets are refused after {deep:?}; a text of that size is answered after {flat:?}"
    );
    assert!(deep < flat + Duration::from_millis(20), "{deep:?} {flat:?}");
}

#[tokio::test]
async fn fault_024_what_two_readers_could_read_in_two_ways_is_refused() {
    let (world, up, client) = one(Script::default()).await;
    let call = r#""method":"tools/call","params":{"name":"who_mcp_up"}"#;
    let refused = [
        format!(r#"{{"jsonrpc":"2.0","id":1,"id":2,{call}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"\u0069d":2,{call}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"ID":2,{call}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping",{call}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,{call},"params":{{"name":"other"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,{call},"Params":{{"name":"other"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,{call},"param\u017f":{{"name":"other"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,{call},"Method":"ping"}}"#),
        format!(r#"{{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,{call}}}"#),
        r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"who_mcp_up"}}"#.to_owned(),
        r#"{"JsonRpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_mcp_up"}}"#.to_owned(),
    ];
    for body in &refused {
        let told = client.post(body).await;
        assert_eq!((told.status, error(&told.text)), (400, Some(-32600)), "{body}: {}", told.text);
    }
    // What the route depends on is no less of a door.
    for params in [
        r#"{"name":"who_mcp_up","name":"other"}"#,
        r#"{"name":"who_mcp_up","Name":"other"}"#,
        r#"{"name":"who_mcp_up","n\u0061me":"other"}"#,
    ] {
        let answer = client.json("tools/call", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    assert!(up.seen_of("tools/call").is_empty(), "nothing of it was forwarded");
    // Arguments are the tool's own, and twins in there its own affair.
    let own = r#"{"name":"who_mcp_up","arguments":{"Name":1,"name":2,"name":3}}"#;
    assert!(client.json("tools/call", own).await["result"].is_object());
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_025_ids_of_the_wrong_kind_are_refused() {
    let (world, up, client) = one(Script::default()).await;
    for id in ["null", "1.5", "1e3", "1E400", "true", "false", "[1]", r#"{"a":1}"#] {
        let told = client
            .post(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"who_mcp_up"}}}}"#
            ))
            .await;
        assert_eq!((told.status, error(&told.text)), (400, Some(-32600)), "{id}: {}", told.text);
        assert!(!has_id(&told.text), "{}", told.text);
    }
    assert!(up.seen_of("tools/call").is_empty());
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_027_a_thousand_clients_with_the_same_ids_get_their_own_answers() {
    const CLIENTS: usize = 1000;
    let echo = Script::answering(|seen| {
        let said = seen.params()["arguments"]["said"].as_str().unwrap().to_owned();
        Reply::Steps(vec![Step::Rest(Duration::from_millis(20)), answer(&said)])
    });
    let (up, child) = (Fake::http(echo.clone()), Fake::stdio(echo));
    let servers = entries(&[("up", up.entry()), ("child", child.entry())]);
    // All at once, and on a slow machine the first connection waits for long until the last client is there.
    let limits = "headerTimeout: 5m, callsPerServer: 1000";
    let world = World::start(&file(limits, &servers)).await.ready().await;
    let clients = join((0..CLIENTS).map(|_| Client::open(&world, "/mcp"))).await;
    let ids: std::collections::HashSet<_> =
        clients.iter().map(|client| client.headers["mcp-session-id"].clone()).collect();
    assert_eq!(ids.len(), CLIENTS);
    let asked = clients.iter().enumerate().map(|(n, client)| {
        let server = if n % 2 == 0 { "up" } else { "child" };
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{{"name":"who_mcp_{server}","arguments":{{"said":"of {n}"}},"_meta":{{"progressToken":"same"}}}}}}"#
        );
        async move { (n, client.ask(&call).await) }
    });
    for (n, answer) in join(asked).await {
        let own = format!(r#"{{"jsonrpc":"2.0","id":"same","result":{}}}"#, text(&format!("of {n}")));
        assert_eq!(answer, own);
    }
    let seen = up.seen_of("tools/call").len() + child.seen_of("tools/call").len();
    assert_eq!(seen, CLIENTS, "each call once");
    eprintln!("{CLIENTS} clients, one id, each its own answer");
}

#[tokio::test]
async fn fault_028_arrays_in_arrays_are_no_messages() {
    let (world, up, _) = one(Script::default()).await;
    let client = Client::of(&world, "2025-03-26").await;
    let told = client.post(&format!("[[{PING}],{PING}]")).await;
    let answers: Vec<serde_json::Value> = serde_json::from_str(&told.text).unwrap();
    assert_eq!((told.status, answers.len()), (200, 2), "{}", told.text);
    assert!(answers.iter().any(|answer| answer["error"]["code"] == -32600 && answer.get("id").is_none()));
    assert!(answers.iter().any(|answer| answer["id"] == 1 && answer["result"].is_object()));
    let deep = format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(client.post(&deep).await.status, 400);
    assert!(up.seen_of("ping").is_empty());
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_029_each_kind_of_message_has_its_answer() {
    let (world, _up, client) = one(Script::default()).await;
    for (body, status, code) in [
        (PING, 200, None),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 202, None),
        (r#"{"jsonrpc":"2.0","method":"no/such"}"#, 202, None),
        (r#"{"jsonrpc":"2.0","id":77,"result":{}}"#, 202, None),
        (r#"{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"m"}}"#, 202, None),
        (r#"{"jsonrpc":"2.0"}"#, 400, Some(-32600)),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, Some(-32600)),
        (r#"{"jsonrpc":"2.0","id":1,"params":{}}"#, 400, Some(-32600)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, 400, Some(-32600)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, 400, Some(-32600)),
        (r#"{"jsonrpc":"2.0","result":{}}"#, 400, Some(-32600)),
    ] {
        let told = client.post(body).await;
        let told_code = if told.text.is_empty() { None } else { error(&told.text) };
        assert_eq!((told.status, told_code), (status, code), "{body}: {}", told.text);
        assert_eq!(told.text.is_empty(), status == 202, "{body}");
    }
    others_notice_nothing(&world, "who_mcp_up").await;
}

#[tokio::test]
async fn fault_030_what_cannot_be_read_back_is_passed_or_refused_never_altered() {
    let up = Fake::http(Script { call: Arc::new(|_| Reply::Result(text("here"))), ..Script::default() });
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let good =
        ["1e400", "-0", "-0.0", "123456789012345678901234567890", "1E+2", r#""\ud800""#, r#""\ude00\ud83d""#];
    for value in good {
        let before = up.seen_of("tools/call").len();
        assert!(client.call("who_mcp_up", &format!(r#"{{"v":{value}}}"#)).await["result"].is_object());
        let seen = up.seen_of("tools/call");
        assert_eq!(seen.len(), before + 1);
        assert!(
            seen[before].text.contains(&format!(r#""arguments":{{"v":{value}}}"#)),
            "{}",
            seen[before].text
        );
    }
    let count = up.seen_of("tools/call").len();
    for value in
        ["NaN", "Infinity", "01", "1.", "+1", ".5", "0x1", r#""\ud8""#, r#""\x41""#, "'a'", "undefined"]
    {
        let told = client.post(&client.request("who_mcp_up", &format!(r#"{{"v":{value}}}"#))).await;
        assert_eq!((told.status, error(&told.text)), (400, Some(-32700)), "{value}: {}", told.text);
    }
    assert_eq!(up.seen_of("tools/call").len(), count);
}
