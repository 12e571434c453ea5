//! Issue 2: JSON payloads pass through unparsed.

use std::sync::Arc;

use crate::support::{Client, Fake, Reply, Script, World, entries, error, file, tool};

/// What parsers that make values of JSON lose: spellings of numbers, twins, order, lone surrogates, spaces.
const ODD: &str = r#"{"z":1e400,"a":-0,"a":123456789012345678901234567890,"\u0061":1.10,"lone":"\ud800","n":{ "deep" : [1E+2 , 0.10000000000000000000000000001,null] },"é":"\/\u00e9","z":true}"#;

fn odd_server() -> Script {
    Script {
        tools: vec![format!(
            r#"{{"inputSchema":{ODD},"x-odd":{ODD},"name":"odd","title":"T","_meta":{ODD}}}"#
        )],
        // The id stands last, and unknown members all around.
        call: Arc::new(|_| {
            Reply::Text(format!(r#"{{"x":{ODD},"result":{ODD},"jsonrpc":"2.0", "id" : $ID ,"y":[{ODD}]}}"#))
        }),
        ..Script::default()
    }
}

#[tokio::test]
async fn fault_030_payloads_pass_byte_for_byte_over_http() {
    payloads_pass(Fake::http(odd_server())).await;
}

#[tokio::test]
async fn fault_030_payloads_pass_byte_for_byte_over_sse() {
    payloads_pass(Fake::sse(odd_server())).await;
}

#[tokio::test]
async fn fault_030_payloads_pass_byte_for_byte_over_stdio() {
    payloads_pass(Fake::stdio(odd_server())).await;
}

async fn payloads_pass(fake: Fake) {
    let world = World::start(&file("", &entries(&[("up", fake.entry())]))).await;
    let client = Client::open(&world, "/mcp").await;
    let sent = format!(
        r#" {{"a":{ODD},"params": {{"x":{ODD},"arguments":{ODD},"name" : "odd_mcp_up","y":[{ODD}]}} ,"method":"tools/call","id":"$ID","jsonrpc":"2.0"}} "#
    );
    let answer = client.ask(&sent).await;
    assert_eq!(answer, format!(r#"{{"x":{ODD},"result":{ODD},"jsonrpc":"2.0", "id" : "$ID" ,"y":[{ODD}]}}"#));
    let seen = fake.saw(|seen| seen.method == "tools/call").await;
    let id = seen.id.unwrap();
    let expected = sent.replace("\"$ID\"", &id).replace("odd_mcp_up", "odd");
    assert_eq!(seen.text.trim(), expected.trim());
    let list = client.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert!(
        list.contains(&format!(r#""x-odd":{ODD},"name":"odd_mcp_up","title":"T","_meta":{ODD}"#)),
        "{list}"
    );
    eprintln!("{} bytes each way as they were", ODD.len());
}

#[tokio::test]
async fn fault_025_ids_come_back_as_they_were_sent() {
    let fake = Fake::stdio(Script { tools: vec![tool("who")], ..Script::default() });
    let world = World::start(&file("", &entries(&[("up", fake.entry())]))).await;
    let client = Client::open(&world, "/mcp").await;
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let ids =
        ["0", "1", "\"1\"", "-7", "123456789012345678901234567890", "\"\"", "\"\\ud800\\u0041\"", &long];
    for id in ids {
        for rest in [
            r#""method":"ping""#,
            r#""method":"tools/list""#,
            r#""method":"tools/call","params":{"name":"who_mcp_up"}"#,
            r#""method":"tools/call","params":{"name":"nobody"}"#,
            r#""method":"unknown""#,
        ] {
            let answer = client.ask(&format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#)).await;
            assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{rest}: {answer:.200}");
        }
    }
    for id in ["true", "1.5", "1e400", "[1]", "{\"a\":1}"] {
        let answer = client.post(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
        assert_eq!((answer.status, error(&answer.text)), (400, Some(-32600)), "{id}: {}", answer.text);
    }
    eprintln!("{} spellings of ids, up to 1 MiB, came back as they were; others are refused", ids.len());
}
