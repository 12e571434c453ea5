//! Sizes.

use std::time::Duration;

use super::{count, others_are_well, rejected, world};
use crate::support::raw::{Raw, head, post};
use crate::support::{Client, Modern, Script, process, until};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[tokio::test]
async fn fault_005_too_many_too_long_headers_and_targets_have_their_status() {
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let lines = |count: usize, size: usize| format!("X: {}\r\n", "x".repeat(size)).repeat(count);
    let length = format!("Content-Length: {}\r\n", LIST.len());
    for (more, status) in [
        (lines(101, 1), 431),
        (lines(90, 1), 200),
        (lines(33, 1 << 10), 431),
        (lines(1, 33 << 10), 431),
        (lines(1, 200 << 10), 431),
        (lines(30, 1 << 10), 200),
    ] {
        let mut raw = Raw::open(&world).await;
        raw.say(head(&client, &(more.clone() + &length)) + LIST).await;
        // More than we read of it may be on its way when it is refused: then the refusal may be lost, with a reset.
        let said = raw.answer().await.map(|said| said.status);
        assert!(
            said == Some(status) || said.is_none() && more.len() > 96 << 10,
            "{} bytes: {said:?}",
            more.len()
        );
        assert_eq!(raw.ends(Duration::from_millis(500)).await, status != 200, "{} bytes", more.len());
    }
    for (size, status) in [(70 << 10, 414), (9 << 10, 414), (4 << 10, 404)] {
        let mut raw = Raw::open(&world).await;
        raw.say(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(size))).await;
        assert_eq!(raw.answer().await.unwrap().status, status, "{size}");
    }
    // The same over HTTP/2.
    let mut headers = client.with("x-long", &"x".repeat(33 << 10));
    let mut line = crate::support::Line::open(&client, true).await;
    assert_eq!(line.send(&headers, hyper::Method::POST, LIST.into()).await.status(), 431);
    headers = client.with("x-long", "");
    for number in 0..101 {
        let name = hyper::header::HeaderName::try_from(format!("x-{number}")).unwrap();
        headers.headers.insert(name, "1".parse().unwrap());
    }
    assert_eq!(line.send(&headers, hyper::Method::POST, LIST.into()).await.status(), 431);
    assert_eq!(line.send(&client, hyper::Method::POST, LIST.into()).await.status(), 200, "it goes on");
    assert!(rejected(&world, "too_large").await >= 3);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_008_a_body_above_the_limit_is_refused_and_never_held() {
    const LIMIT: usize = 4 << 20;
    let (world, up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.post(&" ".repeat(LIMIT - LIST.len())).await.status, 400, "the limit itself is read");
    let before = process::rss(world.pid());
    let mut raw = Raw::open(&world).await;
    raw.say(head(&client, &format!("Content-Length: {}\r\n", 2 * LIMIT + 1))).await;
    assert_eq!(raw.answer().await.unwrap().status, 413, "before a byte of it came");
    for chunked in [false, true, true, true, true, true, true, true] {
        let mut raw = Raw::open(&world).await;
        if chunked {
            raw.say(head(&client, "Transfer-Encoding: chunked\r\n")).await;
            for _ in 0..=LIMIT >> 16 {
                raw.say(format!("10000\r\n{}\r\n", "x".repeat(1 << 16))).await;
            }
        } else {
            raw.say(head(&client, &format!("Content-Length: {}\r\n", LIMIT + 1)) + &"x".repeat(LIMIT + 1))
                .await;
        }
        assert_eq!(raw.answer().await.unwrap().status, 413, "chunked {chunked}");
    }
    // The allocator gives pages back within a second.
    until("what they took is given back", async || {
        (process::rss(world.pid()).saturating_sub(before) <= 5 << 10).then_some(())
    })
    .await;
    assert_eq!(count(&world, "trunkline_buffered_bytes").await, 0, "all is given back");
    assert_eq!(up.seen_of("tools/call").len(), 0);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_009_compressed_bodies_are_refused_unread() {
    let (world, up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    // A gzip header and what may be 1 GiB of zeros.
    let bomb: Vec<u8> = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0xed; 1000]].concat();
    for coding in ["gzip", "br", "deflate", "zstd", "gzip, gzip", "GZIP"] {
        let client = client.with("content-encoding", coding);
        let answer = client.whole(hyper::Method::POST, bomb.clone()).await;
        assert_eq!(answer.status, 415, "{coding}: {}", answer.text);
    }
    assert_eq!(client.with("content-encoding", "identity").post(LIST).await.status, 200);
    assert_eq!(up.seen_of("tools/call").len(), 0);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_012_wrong_methods_types_and_paths_have_their_status() {
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let modern = Modern::new(&world, "/mcp");
    for (method, status) in [
        ("PUT", 405),
        ("PATCH", 405),
        ("TRACE", 405),
        ("CONNECT", 405),
        ("BREW", 405),
        ("HEAD", 200),
        ("OPTIONS", 204),
    ] {
        let method = hyper::Method::from_bytes(method.as_bytes()).unwrap();
        let mut raw = Raw::open(&world).await;
        let target = if method == "CONNECT" { "localhost:80" } else { "/mcp" };
        raw.say(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        let said = raw.answer().await.unwrap().status;
        assert!(said == status || method == "CONNECT" && said == 404, "{method}: {said}");
    }
    // The newest revision has neither the stream nor an end of a session.
    let headed = modern.headed(&modern.request("tools/list", "{}"));
    for method in [hyper::Method::GET, hyper::Method::DELETE] {
        let answer = headed.whole(method, "").await;
        assert_eq!((answer.status, answer.headers["allow"].to_str().unwrap()), (405, "POST, OPTIONS, HEAD"));
    }
    assert_eq!(client.with("content-type", "text/plain").post(LIST).await.status, 415);
    assert_eq!(client.with("content-type", "").post(LIST).await.status, 415);
    assert_eq!(client.with("accept", "image/png").post(LIST).await.status, 406);
    assert_eq!(client.with("accept", "").post(LIST).await.status, 200, "without `Accept` whatever fits");
    for path in ["/", "/mcpx", "/mcp/none", "/mcp/up/x", "/metrics", "//mcp", "/mcp/../mcp"] {
        let mut raw = Raw::open(&world).await;
        raw.say(post(&client, LIST).replace("POST /mcp ", &format!("POST {path} "))).await;
        assert_eq!(raw.answer().await.unwrap().status, 404, "{path}");
    }
    others_are_well(&world).await;
}
