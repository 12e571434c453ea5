//! What is no HTTP, or could be read in two ways.

use std::time::Duration;

use super::{others_are_well, rejected, world};
use crate::support::raw::{Raw, head};
use crate::support::{Client, Script};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"who_mcp_up","arguments":{}}}"#;

#[tokio::test]
async fn fault_006_ambiguous_bodies_are_refused_and_the_connection_closed() {
    let (world, up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let length = format!("Content-Length: {}\r\n", CALL.len());
    let chunk = format!("{:x}\r\n{CALL}\r\n0\r\n\r\n", CALL.len());
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (lines, body) in [
        (format!("{length}{chunked}"), chunk.clone()),
        (format!("{chunked}{length}"), chunk.clone()),
        (format!("{length}{length}"), CALL.to_owned()),
        (format!("{length}Content-Length: 5\r\n"), CALL.to_owned()),
        ("Transfer-Encoding: chunked, x\r\n".into(), chunk.clone()),
        ("Transfer-Encoding: x\r\n".into(), chunk.clone()),
        ("Content-Length: 5, 5\r\n".into(), CALL.to_owned()),
        ("Content-Length: +5\r\n".into(), CALL.to_owned()),
        (chunked.into(), format!("zz\r\n{CALL}\r\n0\r\n\r\n")),
        (chunked.into(), format!("{:x};{}\r\n{CALL}\r\n0\r\n\r\n", CALL.len(), "e".repeat(1 << 20))),
    ] {
        let mut raw = Raw::open(&world).await;
        // What a smuggler would have come after it.
        raw.say(head(&client, &lines) + &body + &head(&client, &length) + CALL).await;
        match raw.answer().await {
            Some(said) => assert_eq!(said.status, 400, "{lines:?}: {}", said.head),
            None => assert!(body.len() > 1 << 20, "{lines:?}: closed without a word"),
        }
        assert!(raw.ends(Duration::from_secs(5)).await, "{lines:?}");
    }
    assert!(up.seen_of("tools/call").is_empty(), "nothing is handed on");
    assert!(rejected(&world, "malformed").await >= 3.0);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_007_control_bytes_in_headers_are_refused_and_split_nothing() {
    let (world, up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    for line in [
        "X: a\rb\r\n",
        "X: a\0b\r\n",
        "X: a\r\n folded\r\n",
        "X : a\r\n",
        "X\u{e4}: a\r\n",
        "Mcp-Session-Id: a\rSet-Cookie: b\r\n",
        "Mcp-Name: a\x0bb\x7f\r\n",
    ] {
        let mut raw = Raw::open(&world).await;
        raw.say(head(&client, &format!("{line}Content-Length: {}\r\n", CALL.len())) + CALL).await;
        assert_eq!(raw.answer().await.unwrap().status, 400, "{line:?}");
        assert!(raw.ends(Duration::from_secs(5)).await, "{line:?}");
    }
    // What looks like a line's end but is none by the rules of HTTP comes back escaped or not at all.
    let client = client.with("mcp-session-id", "a%0d%0aSet-Cookie: b");
    let answer = client.post(CALL).await;
    assert_eq!((answer.status, answer.headers.get("set-cookie")), (404, None));
    assert!(up.seen_of("tools/call").is_empty());
    assert!(world.log().iter().all(|line| line.is_object()), "each line of the log is one object");
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_013_what_is_no_http_is_closed() {
    let (world, _up) = world("headerTimeout: 1s", Script::default()).await;
    let hello = [&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3][..], &[7; 194]].concat();
    let starts: [&[u8]; 7] = [
        b"GET /mcp\r\n",
        &hello,
        b"SSH-2.0-x\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0",
        b"GET / HTTP/3.0\r\n\r\n",
    ];
    for address in [world.address(), world.operators()] {
        for start in starts {
            let mut raw = Raw::to(address).await;
            raw.say(start).await;
            assert!(raw.ends(Duration::from_secs(5)).await, "{:?}", String::from_utf8_lossy(start));
        }
    }
    assert_eq!(world.metric("trunkline_panics_total").await, 0.0);
    others_are_well(&world).await;
}
