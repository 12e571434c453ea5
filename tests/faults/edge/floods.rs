//! Floods over HTTP/2 (and one over HTTP/1.1).

use std::time::Duration;

use super::{closed, others_are_well, world};
use crate::support::raw::{Raw, Two, encoded, fields, frame, post, posted};
use crate::support::{Client, Script, process, scaled, until};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"who_mcp_up","arguments":{}}}"#;
/// RFC 9113, 7.
const ENHANCE_YOUR_CALM: u32 = 11;

#[tokio::test]
async fn fault_011_pipelined_requests_are_answered_in_order() {
    const REQUESTS: usize = 1000;
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let mut raw = Raw::open(&world).await;
    let all: String =
        (0..REQUESTS).map(|id| post(&client, &LIST.replace(":1,", &format!(":{id},")))).collect();
    let (mut read, mut write) = tokio::io::split(std::mem::replace(&mut raw, Raw::open(&world).await).io);
    let sending = tokio::io::AsyncWriteExt::write_all(&mut write, all.as_bytes());
    let reading = async {
        let (mut text, mut more) = (Vec::new(), [0; 1 << 16]);
        let ends = |text: &[u8]| text.windows(8).filter(|eight| eight == b"\"jsonrpc").count();
        while ends(&text) < REQUESTS {
            let count = tokio::io::AsyncReadExt::read(&mut read, &mut more).await.unwrap();
            assert!(count > 0, "closed after {}", ends(&text));
            text.extend_from_slice(&more[..count]);
        }
        String::from_utf8(text).unwrap()
    };
    let (sent, text) =
        tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(sending, reading) })
            .await
            .unwrap();
    sent.unwrap();
    let ids: Vec<usize> = text
        .split("\"id\":")
        .skip(1)
        .filter_map(|rest| rest.split([',', '}']).next()?.parse().ok())
        .collect();
    assert!(ids.iter().copied().eq(0..REQUESTS), "{ids:?}");
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_014_rapid_resets_end_the_connection() {
    let (world, up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let mut two = Two::open(&world, &[]).await;
    let streams = u32::try_from(scaled(10_000, 100_000)).unwrap();
    let headers = fields("POST", &client);
    let mut batch = Vec::new();
    for number in 0..streams {
        let stream = 2 * number + 1;
        batch.extend(encoded(frame::HEADERS, frame::END_HEADERS, stream, &headers));
        batch.extend(encoded(frame::RESET, 0, stream, &8_u32.to_be_bytes()));
        if batch.len() > 64 << 10 && !two.say(&std::mem::take(&mut batch)).await {
            break;
        }
    }
    match two.gave_up().await {
        Some(reason) => assert_eq!(reason, ENHANCE_YOUR_CALM),
        None => assert!(!two.say(&[0; 1]).await, "closed, if without a word that could be read"),
    }
    others_are_well(&world).await;
    assert_eq!(up.seen_of("tools/call").len(), 1, "the other's");
    until("it is counted", async || (closed(&world, "protocol").await >= 1.0).then_some(())).await;
}

#[tokio::test]
async fn fault_015_resets_that_we_are_made_to_send_end_the_connection() {
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let mut two = Two::open(&world, &[]).await;
    let headers = fields("POST", &client);
    let mut open = true;
    for number in 0..10_000_u32 {
        let stream = 2 * number + 1;
        let mut frames = encoded(frame::HEADERS, frame::END_HEADERS, stream, &headers);
        frames.extend(encoded(frame::WINDOW, 0, stream, &i32::MAX.to_be_bytes()));
        open = two.say(&frames).await;
        if !open {
            break;
        }
    }
    // It may be closed while we still say more: then the reason is lost with a reset.
    match two.gave_up().await {
        Some(reason) => assert_eq!(reason, ENHANCE_YOUR_CALM),
        None => assert!(!open || !two.say(&[0; 1]).await),
    }
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_016_frames_without_anything_in_them_end_the_connection() {
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    others_are_well(&world).await;
    let before = process::rss(world.pid());
    let headers = fields("POST", &client);
    let floods: [(&str, Vec<u8>, Vec<u8>); 6] = [
        ("CONTINUATION", encoded(frame::HEADERS, 0, 1, &headers), encoded(frame::CONTINUATION, 0, 1, b"")),
        (
            "CONTINUATION with headers",
            encoded(frame::HEADERS, 0, 1, &headers),
            encoded(frame::CONTINUATION, 0, 1, &headers[headers.len() - 20..]),
        ),
        ("DATA", encoded(frame::HEADERS, frame::END_HEADERS, 1, &headers), encoded(frame::DATA, 0, 1, b"")),
        ("SETTINGS", Vec::new(), encoded(frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255])),
        ("PING", Vec::new(), encoded(frame::PING, 0, 0, &[7; 8])),
        ("unknown", Vec::new(), encoded(0xfa, 0, 0, &[7; 100])),
    ];
    for (what, start, again) in floods {
        let mut two = Two::open(&world, &[]).await;
        two.say(&start).await;
        let batch = again.repeat((64 << 10) / again.len());
        let mut said = 0;
        // What it answers is read, so that it is not stopped by that alone.
        let (mut read, mut write) = tokio::io::split(two.0.io);
        let flood = async {
            while said < 64 << 20 && tokio::io::AsyncWriteExt::write_all(&mut write, &batch).await.is_ok() {
                said += batch.len();
            }
            said
        };
        let drain = async {
            let mut more = vec![0; 1 << 16];
            while tokio::io::AsyncReadExt::read(&mut read, &mut more).await.is_ok_and(|count| count > 0) {}
        };
        let said = tokio::select! {
            said = flood => said,
            () = drain => 0,
        };
        assert!(said < 64 << 20, "{what} without end is taken");
        let grown = process::rss(world.pid()).saturating_sub(before);
        eprintln!("a flood of {what} is closed after at most {said} bytes, {grown} KiB more resident");
        assert!(grown < 16 << 10, "{what}: {grown} KiB");
        others_are_well(&world).await;
    }
    assert!(closed(&world, "flood").await >= 1.0);
    // What is no flood goes on: a client that pings between its requests.
    let mut two = Two::open(&world, &[]).await;
    for number in 0..50_u32 {
        two.say(&encoded(frame::PING, 0, 0, &[7; 8]).repeat(20)).await;
        two.say(&posted(2 * number + 1, &client, CALL)).await;
        assert!(two.next_of(frame::DATA).await.is_some());
    }
}
