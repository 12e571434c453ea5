//! Results that are too long to be held pass through as they come.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::{Act, Client, Fake, Reply, Script, Seen, World, entries, file, process, until};

/// Beyond what is held, by some.
const LONG: usize = 3 << 20;

/// A call's answer: `$ID` stands for its id.
fn answer(how: &str, text: &str) -> String {
    let content = format!(r#""content":[{{"type":"text","text":"{text}"}}]"#);
    match how {
        "id first" => format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{{content}}}}}"#),
        "id last" => format!(r#"{{"result":{{{content}}},"jsonrpc":"2.0","id":$ID}}"#),
        "failed" => format!(r#"{{"result":{{{content},"isError":true}},"jsonrpc":"2.0","id":$ID}}"#),
        "link" => {
            let link = r#"{"type":"resource_link","name":"l","uri":"far:\u0031"}"#;
            let content = content.replace("}]", &format!("}},{link}]"));
            format!(r#"{{"result":{{{content}}},"jsonrpc":"2.0","id":$ID}}"#)
        }
        "another's" => format!(r#"{{"result":{{{content}}},"jsonrpc":"2.0","id":99999}}"#),
        "error" => format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":1,"message":"{text}"}}}}"#),
        how => panic!("{how}"),
    }
}

/// A server whose tool answers as `how` says and comes in chunks, with a length, or as an event, as `by` says.
fn server(gate: &CancellationToken) -> Fake {
    let gate = gate.clone();
    let call = move |seen: &Seen| {
        let arguments = &seen.params()["arguments"];
        let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let size = usize::try_from(arguments["size"].as_u64().unwrap()).unwrap();
        let text = seen.fill(&answer(&argument("how"), &"é\\\" 9".repeat(size / 6)));
        let head = |more: &str| {
            Act::bytes(format!("HTTP/1.1 200 .\r\ncontent-type: application/json\r\n{more}\r\n"))
        };
        let half = text.len() / 2;
        let (one, two) = text.as_bytes().split_at(half);
        let (one, two) = (one.to_vec(), two.to_vec());
        Reply::Raw(match &*argument("by") {
            "length" => vec![Act::json(&text)],
            "chunks" => {
                let chunks = text.as_bytes().chunks(5000).map(|chunk| {
                    let mut framed = format!("{:x}\r\n", chunk.len()).into_bytes();
                    framed.extend_from_slice(chunk);
                    framed.extend_from_slice(b"\r\n");
                    framed
                });
                let framed: Vec<u8> = chunks.chain([b"0\r\n\r\n".to_vec()]).flatten().collect();
                vec![head("transfer-encoding: chunked\r\n"), Act::bytes(framed)]
            }
            "event" => vec![Act::events(), Act::event(&text), Act::Close],
            "cut" => vec![head(&format!("content-length: {}\r\n", text.len())), Act::bytes(one), Act::Close],
            "silence" => {
                vec![head(&format!("content-length: {}\r\n", text.len())), Act::bytes(one), Act::Silence]
            }
            "gate" => vec![
                head(&format!("content-length: {}\r\n", text.len())),
                Act::bytes("{"),
                Act::Rest(Duration::from_millis(20)), // what it is stands in a later packet
                Act::bytes(one.get(1..).unwrap().to_vec()),
                Act::Wait(gate.clone()),
                Act::bytes(two),
            ],
            by => panic!("{by}"),
        })
    };
    let other = Arc::new(|_: &Seen| Reply::Result(r#"{"contents":[]}"#.into()));
    Fake::faulty(Script { other, ..Script::answering(call) })
}

struct Stage {
    world: World,
    client: Client,
    up: Fake,
    gate: CancellationToken,
}

impl Stage {
    async fn set(timeout: &str) -> Self {
        let gate = CancellationToken::new();
        let up = server(&gate);
        let entry = up.entry_with(&format!(r#", "timeout": "{timeout}", "breaker": false"#));
        let world = World::start(&file("", &entries(&[("up", entry)]))).await.ready().await;
        // In a stream of events, which comes where a call takes over a second, an answer can be resumed and so is held.
        let client = Client::open(&world, "/mcp").await.with("accept", "application/json");
        Self { world, client, up, gate }
    }

    fn request(&self, how: &str, by: &str, size: usize) -> String {
        let arguments = format!(r#"{{"how":"{how}","by":"{by}","size":{size}}}"#);
        self.client.request("who_mcp_up", &arguments)
    }
}

#[tokio::test]
async fn they_come_as_they_were_whatever_the_order_and_the_framing() {
    let stage = Stage::set("30s").await;
    for size in [200 << 10, LONG] {
        for by in ["length", "chunks", "event"] {
            for how in ["id first", "id last", "failed"] {
                let request = stage.request(how, by, size);
                let id = serde_json::from_str::<Value>(&request).unwrap()["id"].to_string();
                let got = stage.client.post(&request).await;
                let expected = answer(how, &"é\\\" 9".repeat(size / 6)).replace("$ID", &id);
                assert_eq!(
                    (got.status, &got.headers[CONTENT_TYPE]),
                    (200, &"application/json".parse().unwrap())
                );
                assert!(
                    got.text == expected,
                    "{how} by {by}, {size}: {} bytes of {}",
                    got.text.len(),
                    expected.len()
                );
            }
        }
    }
    let failed = r#"trunkline_requests_total{method="tools/call",outcome="tool_error",server="up"}"#;
    assert!((stage.world.metric(failed).await - 6.0).abs() < 0.5, "what says that it failed is counted so");
}

#[tokio::test]
async fn one_that_breaks_off_is_never_taken_for_whole() {
    let stage = Stage::set("1s").await;
    for (how, by) in
        [("id first", "cut"), ("id last", "cut"), ("id first", "silence"), ("another's", "length")]
    {
        let request = stage.request(how, by, LONG);
        let response = stage.client.send(Method::POST, request).await;
        assert!(response.into_body().collect().await.is_err(), "{how} by {by} came whole");
        // Up to the bound there is an answer all the same.
        let short = stage.client.ask(&stage.request(how, by, 100 << 10)).await;
        let short: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(short["result"]["isError"], true, "{how} by {by}: {short}");
    }
    let error = stage.client.ask(&stage.request("error", "length", LONG)).await;
    assert_eq!(serde_json::from_str::<Value>(&error).unwrap()["error"]["code"], 1);
    assert_eq!(stage.up.seen_of("tools/call").len(), 4 * 2 + 1, "a call was sent twice");
    let fine = stage.client.ask(&stage.request("id last", "length", LONG)).await;
    assert!(fine.len() > LONG);
}

#[tokio::test]
async fn a_client_that_has_gone_is_not_read_for() {
    let stage = Stage::set("30s").await;
    let request = stage.request("id last", "gate", LONG);
    let mut reading = stage.client.send(Method::POST, request).await.into_body();
    assert!(reading.frame().await.is_some(), "what has come is told before the rest is there");
    let flight = "trunkline_requests_in_flight{server=\"up\"}";
    assert!((stage.world.metric(flight).await - 1.0).abs() < 0.5);
    drop(reading);
    until("the call is over", async || (stage.world.metric(flight).await < 0.5).then_some(())).await;
    // One that stays gets the rest.
    let request = stage.request("id last", "gate", LONG);
    let mut reading = stage.client.send(Method::POST, request).await.into_body();
    let first = reading.frame().await.unwrap().unwrap().into_data().unwrap().len();
    stage.gate.cancel();
    let rest = reading.collect().await.unwrap().to_bytes().len();
    assert!(first + rest > LONG, "{first} and {rest}");
}

#[tokio::test]
async fn resources_that_a_long_result_names_can_be_read() {
    let stage = Stage::set("30s").await;
    stage.client.ask(&stage.request("link", "length", LONG)).await;
    stage
        .client
        .ask(r#"{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{"uri":"far:1"}}"#)
        .await;
    assert_eq!(stage.up.seen_of("resources/read").len(), 1, "nobody knows whose it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_flat() {
    const EACH: usize = 12 << 20;
    let filler = Bytes::from(vec![b'x'; EACH]);
    let up = Fake::faulty(Script::answering(move |seen| {
        let start = r#"{"result":{"content":[{"type":"text","text":""#;
        let end = seen.fill(r#""}]},"jsonrpc":"2.0","id":$ID}"#);
        let length = start.len() + EACH + end.len();
        let head = format!(
            "HTTP/1.1 200 .\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{start}"
        );
        Reply::Raw(vec![Act::bytes(head), Act::Bytes(filler.clone()), Act::bytes(end)])
    }));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await.with("accept", "application/json");
    client.ask(&client.request("who_mcp_up", "{}")).await;
    let before = process::peak(world.pid());
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let (client, request) = (client.again(), client.request("who_mcp_up", "{}"));
        calls.spawn(async move {
            let mut body = client.send(Method::POST, request).await.into_body();
            let mut length = 0;
            while let Some(frame) = body.frame().await {
                length += frame.unwrap().into_data().unwrap().len();
            }
            length
        });
    }
    while let Some(length) = calls.join_next().await {
        assert!(length.unwrap() > EACH);
    }
    let grown = process::peak(world.pid()).saturating_sub(before);
    eprintln!("8 results of 12 MiB at once: {grown} KiB more resident");
    assert!(grown < EACH >> 10, "{grown} KiB");
}
