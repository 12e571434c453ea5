//! Answers that break off, or are none.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::Method;

use super::said;
use crate::support::{Act, Client, Ending, Fake, Relay, Reply, Script, World, entries, file, join};

#[tokio::test]
async fn fault_076_an_answer_that_breaks_off_fails_its_call_alone() {
    let up = Fake::faulty(Script::answering(|seen| {
        let whole = seen.answer(r#"{"content":[{"type":"text","text":"here"}]}"#);
        let half = whole.get(..whole.len() / 2).unwrap();
        let head = "HTTP/1.1 200 .\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n";
        let event = format!("event: message\ndata: {half}");
        let acts = match seen.params()["arguments"]["how"].as_str() {
            Some("nothing") => vec![Act::Reset],
            Some("head") => vec![Act::bytes(head), Act::Reset],
            Some("json") => vec![Act::bytes(format!("{head}{half}")), Act::Close],
            Some("event") => vec![Act::events(), Act::bytes(event), Act::Close],
            Some("events") => {
                vec![Act::events(), Act::event(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#), Act::Reset]
            }
            _ => return Reply::Text(whole),
        };
        Reply::Raw(acts)
    }));
    let other = Fake::http(Script::default());
    let servers = entries(&[("up", up.entry()), ("other", other.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for how in ["nothing", "head", "json", "event", "events"] {
        let how_so = format!(r#"{{"how":"{how}"}}"#);
        let broken = client.call("who_mcp_up", &how_so);
        let good =
            join((0..20).map(|n| client.call(if n % 2 == 0 { "who_mcp_up" } else { "who_mcp_other" }, "{}")));
        let (broken, good) = tokio::join!(broken, good);
        assert_eq!(broken["result"]["isError"], true, "{how}: {broken}");
        assert!(said(&broken).contains("server up"), "{how}: {broken}");
        assert!(said(&broken).contains("may or may not have taken effect"), "{how}: {broken}");
        assert!(good.iter().all(|answer| said(answer) == "here"), "{how}: {good:?}");
    }
    assert_eq!(up.seen_of("tools/call").len(), 5 + 5 * 10, "a call was sent twice");
    assert_eq!(world.server("up").await["state"], "ready");
}

#[tokio::test]
async fn fault_076_a_network_that_cuts_fails_the_calls_on_it_alone() {
    let up = Fake::http(Script {
        call: Arc::new(|seen| {
            let size = if seen.text.contains("long") { 1 << 20 } else { 1 << 17 };
            Reply::Result(format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(size)))
        }),
        ..Script::default()
    });
    let relay = Relay::to(&up.entry());
    let world =
        World::start(&file("", &entries(&[("up", relay.entry(r#", "timeout": "2s""#))]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for ending in [Ending::Close, Ending::HalfClose, Ending::Reset] {
        relay.weather(|weather| weather.cut = Some((1 << 16, ending)));
        let broken = client.call("who_mcp_up", "{}").await;
        assert_eq!(broken["result"]["isError"], true, "{ending:?}");
        // What passes as it comes breaks off as it comes.
        relay.weather(|weather| weather.cut = Some((1 << 19, ending)));
        let long = client.request("who_mcp_up", r#"{"how":"long"}"#);
        let response = client.send(Method::POST, long).await;
        assert!(response.into_body().collect().await.is_err(), "{ending:?}");
        relay.weather(|weather| weather.cut = None);
        assert_eq!(said(&client.call("who_mcp_up", "{}").await).len(), 1 << 17, "{ending:?}");
    }
    assert_eq!(up.seen_of("tools/call").len(), 9, "a call was sent twice");
}

#[tokio::test]
async fn fault_076_a_connection_that_ends_under_the_handshake_is_replaced() {
    let up = Fake::faulty(Script {
        discovering: Some(Arc::new(|seen| {
            let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#;
            Reply::Raw(vec![Act::json(&seen.fill(unknown)), Act::HangUp])
        })),
        ..Script::default()
    });
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    assert_eq!(world.server("up").await["state"], "ready");
    let again = r#"trunkline_upstream_reconnects_total{reason="lost",server="up"}"#;
    assert!(world.metric(again).await < 0.5, "it took more than one attempt");
    assert_eq!(up.seen_of("initialize").len(), 1);
}

#[tokio::test]
async fn fault_076_a_connection_that_ends_under_a_read_is_replaced_and_under_a_call_is_not() {
    let up = Fake::faulty(Script {
        capabilities: Some(r#"{"tools":{},"resources":{}}"#.into()),
        resources: vec![r#"{"uri":"a://b","name":"b"}"#.into()],
        overrule: Some(Arc::new(|seen| {
            let contents = r#"{"contents":[]}"#;
            match seen.method.as_str() {
                "resources/read" => Some(Reply::Result(contents.into())),
                // The next request on this connection meets its end.
                "tools/call" => Some(Reply::Raw(vec![
                    Act::json(&seen.answer(r#"{"content":[{"type":"text","text":"here"}]}"#)),
                    Act::HangUp,
                ])),
                _ => None,
            }
        })),
        ..Script::default()
    });
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
    let read = client.json("resources/read", r#"{"uri":"a://b"}"#).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
    assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
    let broken = client.call("who_mcp_up", "{}").await;
    assert!(said(&broken).contains("may or may not have taken effect"), "{broken}");
    assert_eq!(up.seen_of("tools/call").len(), 2);
}
