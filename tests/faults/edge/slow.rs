//! Clients that take their time.

use std::time::Duration;

use super::{closed, count, others_are_well, rejected, world};
use crate::support::raw::{Raw, Two, encoded, fields, frame, head, post, posted};
use crate::support::{Client, Modern, Reply, Script, Step, join, process, progress, scaled, text, until};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"who_mcp_up","arguments":{}}}"#;

#[tokio::test]
async fn fault_001_connections_that_say_nothing_are_closed_in_time() {
    let (world, _up) = world("headerTimeout: 2s", Script::default()).await;
    let before = process::fds(world.pid());
    let silent = join((0..scaled(500, 5000)).map(|_| Raw::open(&world))).await;
    let count = silent.len();
    others_are_well(&world).await;
    let rss = process::rss(world.pid());
    eprintln!("{count} silent connections: {rss} KiB resident");
    assert!(rss <= 120 << 10);
    let ended =
        join(silent.into_iter().map(|mut raw| async move { raw.ends(Duration::from_secs(8)).await })).await;
    assert!(ended.into_iter().all(|ended| ended));
    assert!(closed(&world, "silent").await >= u64::try_from(count).unwrap());
    until("the descriptors are back", async || (process::fds(world.pid()) <= before + 8).then_some(())).await;
}

#[tokio::test]
async fn fault_002_slow_heads_are_closed_in_time() {
    let (world, _up) = world("headerTimeout: 1s", Script::default()).await;
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(200));
    let drip = |start: &'static str| {
        let (world, head) = (&world, &head);
        async move {
            let mut raw = Raw::open(world).await;
            raw.say(start).await;
            let started = tokio::time::Instant::now();
            assert!(raw.drip(head.as_bytes(), Duration::from_millis(100)).await, "{start:?} is never closed");
            started.elapsed()
        }
    };
    // From the first byte on, after a head's first lines, and after a beginning of HTTP/2's.
    let times = join(["", "POST /mcp HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM"].map(drip).into_iter()).await;
    assert!(times.iter().all(|time| *time < Duration::from_secs(4)), "{times:?}");
    assert!(closed(&world, "silent").await >= 1);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_002_a_connection_is_kept_while_its_client_thinks_and_not_for_half_a_head() {
    let (world, _up) = world("headerTimeout: 1s", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let used = || async {
        let mut raw = Raw::open(&world).await;
        raw.say(post(&client, CALL)).await;
        assert_eq!(raw.answer().await.unwrap().status, 200);
        raw
    };
    let (mut thinking, mut slow, mut gone) = (used().await, used().await, used().await);
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(200));
    let (early, dripped, late) = tokio::join!(
        thinking.ends(Duration::from_secs(3)),
        slow.drip(head.as_bytes(), Duration::from_millis(100)),
        gone.ends(Duration::from_secs(9)),
    );
    assert!(!early && dripped && late, "{early} {dripped} {late}");
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_003_a_slow_body_is_given_up_before_any_server_hears_of_it() {
    let (world, up) = world("bodyTimeout: 3s", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let calls = up.seen_of("tools/call").len();
    let mut raw = Raw::open(&world).await;
    raw.say(head(&client, &format!("Content-Length: {}\r\n", CALL.len()))).await;
    assert!(raw.drip(CALL.as_bytes(), Duration::from_millis(200)).await);
    assert_eq!(raw.answer().await.unwrap().status, 408);
    assert!(raw.ends(Duration::from_secs(2)).await, "what comes late is no other request");
    assert_eq!(up.seen_of("tools/call").len(), calls);
    // The same over HTTP/2, where the connection stays.
    let mut two = Two::open(&world, &[]).await;
    two.say(&encoded(frame::HEADERS, frame::END_HEADERS, 1, &fields("POST", &client))).await;
    for (stream, says) in [(1, "slower than"), (3, "here")] {
        let answer = loop {
            let frame = two.next_of(frame::DATA).await.unwrap();
            if frame.stream == stream && !frame.payload.is_empty() {
                break String::from_utf8(frame.payload).unwrap();
            }
        };
        assert!(answer.contains(says), "{answer}");
        two.say(&posted(stream + 2, &client, CALL)).await;
    }
    assert_eq!(rejected(&world, "too_slow").await, 2);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_010_a_body_that_was_waited_for_and_never_comes_is_given_up() {
    let (world, up) = world("bodyTimeout: 1s", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let mut raw = Raw::open(&world).await;
    raw.say(head(&client, "Expect: 100-continue\r\nContent-Length: 100\r\n")).await;
    assert_eq!(raw.answer().await.unwrap().status, 100);
    assert_eq!(raw.answer().await.unwrap().status, 408);
    assert!(raw.ends(Duration::from_secs(2)).await);
    assert!(up.seen_of("tools/call").is_empty());
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_004_a_client_that_never_reads_is_closed_and_its_call_cancelled() {
    const SIZE: usize = 12 << 20;
    let large = text(&"x".repeat(SIZE));
    let script = Script::answering(move |seen| match seen.text.contains("large") {
        true => Reply::Result(large.clone()),
        // Events without end, and no answer.
        false if seen.text.contains("endless") => {
            Reply::Steps((0..100_000).flat_map(|_| [progress(), Step::Send(pad())]).collect())
        }
        false => Reply::Result(text("here")),
    });
    let (world, up) = world("writeTimeout: 1s", script).await;
    let modern = Modern::new(&world, "/mcp");
    let (large, endless) = (
        modern.calling("who_mcp_up", r#"{"kind":"large"}"#),
        modern.calling("who_mcp_up", r#"{"kind":"endless"}"#),
    );
    let before = process::rss(world.pid());
    for body in [&large, &endless] {
        let mut raw = Raw::narrow(&world).await;
        let body = body.replacen(r#""_meta":{"#, r#""_meta":{"progressToken":9,"#, 1);
        raw.say(post(&modern.headed(&body), &body)).await;
        let times = closed(&world, "unread").await;
        until("it is closed", async || (closed(&world, "unread").await > times).then_some(())).await;
        drop(raw);
    }
    // The rest of an answer that nobody will read is not held, and the call that told without end hears of it.
    until("nothing is held", async || (count(&world, "trunkline_buffered_bytes").await == 0).then_some(()))
        .await;
    until("the server is told", async || (!up.seen_of("notifications/cancelled").is_empty()).then_some(()))
        .await;
    let grown = process::rss(world.pid()).saturating_sub(before);
    eprintln!("two clients that never read: {grown} KiB more resident after them");
    others_are_well(&world).await;
}

/// A log line of some size.
fn pad() -> String {
    let data = "x".repeat(4000);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1,"progressToken":$ID,"message":"{data}"}}}}"#
    )
}

#[tokio::test]
async fn fault_017_streams_without_a_window_are_closed_and_hold_little() {
    const STREAMS: u32 = 100;
    let (world, _up) = world("writeTimeout: 1s", Script::default()).await;
    let before = process::rss(world.pid());
    // No window for any stream, from the start.
    let mut two = Two::open(&world, &[(4, 0)]).await;
    let clients = join((0..STREAMS).map(|_| Client::open(&world, "/mcp"))).await;
    for (number, client) in (0..).zip(&clients) {
        let flags = frame::END_HEADERS | frame::END_STREAM;
        two.say(&encoded(frame::HEADERS, flags, 2 * number + 1, &fields("GET", client))).await;
    }
    let mut resets = 0;
    while resets < STREAMS {
        let frame = two.next().await.expect("the connection stays");
        assert_ne!(frame.kind, frame::DATA, "there is no window for it");
        resets += u32::from(frame.kind == frame::RESET);
    }
    assert_eq!(closed(&world, "unread").await, u64::from(STREAMS));
    let grown = process::rss(world.pid()).saturating_sub(before);
    eprintln!("{STREAMS} streams without a window: {grown} KiB more resident");
    assert!(grown < 20 << 10, "{grown} KiB");
    assert_eq!(count(&world, "trunkline_streams").await, 0);
    others_are_well(&world).await;
}
