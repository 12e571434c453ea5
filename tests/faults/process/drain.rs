//! Rows 102 and 103: the end, with nothing to do and with much.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Fake, Modern, Reply, SOON, Script, Step, World, answer, entries, file, join, process, progress,
    until, within,
};

/// TERM to exit where nothing is to be waited for.
const AT_ONCE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn fault_102_an_idle_one_ends_at_once() {
    let up = Fake::http(Script { sessions: true, tells: true, ..Script::default() });
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        let client = Client::open(&world, "/mcp").await; // leaves a connection that is kept alive
        assert_eq!(client.tools().await, ["who_mcp_up"]);
        let told = Instant::now();
        world.signal(signal);
        assert_eq!(world.ended(SOON).await.code(), Some(0));
        let took = told.elapsed();
        eprintln!("{signal}: idle, ended after {took:?}");
        assert!(took <= AT_ONCE, "{took:?}");
        up.saw(|seen| seen.kind == "DELETE").await; // a good guest says good-bye
    }
}

/// The embedded server, with a grandchild that would outlive it.
fn with_grandchild(note: &std::path::Path) -> String {
    let program = env!("CARGO_BIN_EXE_trunkline");
    format!(
        r#"{{"command": "sh", "args": ["-c", "sleep 4242 & echo $! > {}; exec {program} demo-server"]}}"#,
        note.display()
    )
}

#[tokio::test]
async fn fault_102_told_to_end_it_leaves_no_process() {
    let notes = tempfile::tempdir().unwrap();
    let note = notes.path().join("pid");
    let servers = entries(&[
        ("demo", r#"{"command": "self", "args": ["demo-server"]}"#.into()),
        ("family", with_grandchild(&note)),
    ]);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut world = World::start(&file("", &servers)).await.ready().await;
        let client = Client::open(&world, "/mcp").await;
        let mut stream = client.listen().await;
        let grandchild: u32 = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
        let children = process::children(world.pid());
        assert!(children.len() == 2 && process::runs(grandchild), "{children:?}");
        let told = Instant::now();
        world.signal(signal);
        assert_eq!(world.ended(SOON).await.code(), Some(0));
        let took = told.elapsed();
        assert!(took <= Duration::from_secs(1), "{took:?}");
        assert_eq!(stream.next().await, None, "streams end in good order");
        until("no process is left", async || {
            (!children.iter().chain([&grandchild]).any(|pid| process::runs(*pid))).then_some(())
        })
        .await;
        eprintln!("{signal}: ended after {took:?}; {} children and a grandchild are gone", children.len());
    }
}

#[tokio::test]
async fn fault_102_a_hundred_calls_of_five_seconds_are_all_answered() {
    const CALLS: usize = 100;
    let slow = |_: &_| Reply::Steps(vec![Step::Rest(Duration::from_secs(5)), answer("late")]);
    let ups = [Fake::http(Script::answering(slow)), Fake::stdio(Script::answering(slow))];
    let servers = entries(&[("http", ups[0].entry()), ("stdio", ups[1].entry())]);
    let mut world = World::start(&file("", &servers)).await.ready().await;
    let clients = join((0..CALLS).map(|_| Client::open(&world, "/mcp"))).await;
    let calls = join(
        clients
            .iter()
            .enumerate()
            .map(|(n, client)| client.call(if n % 2 == 0 { "who_mcp_http" } else { "who_mcp_stdio" }, "{}")),
    );
    let end = async {
        let all = || ups.iter().map(|up| up.seen_of("tools/call").len()).sum::<usize>() == CALLS;
        until("all calls are under way", async || all().then_some(())).await;
        let told = Instant::now();
        world.signal(Signal::SIGTERM);
        assert_eq!(world.ended(3 * SOON).await.code(), Some(0));
        told.elapsed()
    };
    let (answers, took) = tokio::join!(calls, end);
    let right = answers.iter().filter(|answer| answer["result"]["content"][0]["text"] == "late").count();
    assert_eq!(right, CALLS);
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(8), "{took:?}");
    eprintln!("{CALLS} calls of 5 s: all answered, ended {took:?} after TERM");
}

#[tokio::test]
async fn fault_102_a_thousand_streams_are_closed_within_a_second() {
    const STREAMS: usize = 1000;
    let up = Fake::http(Script::default());
    let mut world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let (mut streams, mut listens) = (Vec::new(), Vec::new());
    for _ in 0..STREAMS / 2 {
        streams.push(Client::open(&world, "/mcp").await.listen().await);
        listens.push(Modern::new(&world, "/mcp").listen(r#"{"toolsListChanged":true}"#).await.1);
    }
    assert!((world.metric("trunkline_streams").await - 1000.0).abs() < 0.1);
    let told = Instant::now();
    world.signal(Signal::SIGTERM);
    let closed = async {
        for stream in &mut streams {
            assert_eq!(stream.next().await, None);
        }
        for listen in &mut listens {
            let last: Value = serde_json::from_str(&listen.next().await.unwrap()).unwrap();
            assert!(last["result"].is_object(), "the answer that ends it, but {last}");
            assert_eq!(listen.next().await, None);
        }
        told.elapsed()
    };
    let (closed, status) = tokio::join!(closed, world.ended(SOON));
    assert_eq!(status.code(), Some(0));
    world.logged("ended").await;
    let at = |what: &str| {
        let log = world.log();
        let line =
            log.iter().find(|line| line["message"].as_str().is_some_and(|said| said.starts_with(what)));
        milliseconds(line.unwrap()["timestamp"].as_str().unwrap())
    };
    // It ends once the last of them is closed. By its own clock: this test has a thousand connections to read from. A
    // build without optimisations, among other tests, takes several times as long.
    let took = Duration::from_millis(at("ended").saturating_sub(at("ending")));
    eprintln!("{STREAMS} streams: all were closed after {took:?}, and read to the end after {closed:?}");
    let most = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 });
    assert!(took <= most, "{took:?}");
    assert!(closed <= SOON, "{closed:?}");
}

/// Since midnight, of a line in the log.
fn milliseconds(stamp: &str) -> u64 {
    let clock = stamp.split_once('T').unwrap().1.trim_end_matches('Z');
    let (whole, rest) = clock.split_once('.').unwrap();
    let seconds = whole.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    seconds * 1000 + rest.get(..3).unwrap().parse::<u64>().unwrap()
}

/// Asks its client in the middle of the call.
const ASKS: &str = r#"{"jsonrpc":"2.0","id":"leg","method":"elicitation/create","params":{"message":"well?","requestedSchema":{"type":"object","properties":{}}}}"#;

/// A server whose calls never end, each in a way of its own.
fn endless() -> Script {
    let call = |seen: &crate::support::Seen| match seen.params()["arguments"]["way"].as_str() {
        Some("told") => Reply::Steps(vec![progress(), Step::Wait(CancellationToken::default())]),
        Some("asked") => Reply::Steps(vec![Step::Ask(ASKS.into(), "\"leg\"".into())]),
        _ => Reply::Stall,
    };
    Script {
        call: std::sync::Arc::new(call),
        other: std::sync::Arc::new(|_| Reply::Stall),
        capabilities: Some(r#"{"tools":{},"resources":{"subscribe":true}}"#.into()),
        resources: vec![r#"{"uri":"file:///x","name":"x"}"#.into()],
        ..Script::default()
    }
}

/// A modern server that asks again and again by its answers.
fn rounds() -> Script {
    let asks = r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"well?","mode":"form","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}"#;
    let call = |_: &_| Reply::Result(asks.into());
    Script { discovery: Some(r#"{"tools":{}}"#.into()), call: std::sync::Arc::new(call), ..Script::default() }
}

/// What the stream of `text` ends with.
async fn last(client: &Client, text: &str) -> Value {
    serde_json::from_str(&client.ask(text).await).unwrap()
}

#[tokio::test]
async fn fault_103_every_open_call_gets_an_error_in_time() {
    let drain = Duration::from_millis(1500);
    let ups = [Fake::http(endless()), Fake::stdio(endless()), Fake::http(rounds())];
    let away = Fake::http(Script { greets_after: Some(CancellationToken::default()), ..Script::default() });
    let lazy = away.entry_with(r#", "startup": false"#);
    let servers = entries(&[
        ("http", ups[0].entry()),
        ("stdio", ups[1].entry()),
        ("rounds", ups[2].entry()),
        ("lazy", lazy),
    ]);
    let mut world = World::start(&file("drainTimeout: 1500ms", &servers)).await.ready().await;
    let client = Client::able(&world, "/mcp", r#"{"elicitation":{"form":{}}}"#).await;
    let (own, old) = (Client::open(&world, "/mcp/lazy").await, Client::of(&world, "2025-03-26").await);
    let modern = Modern::able(&world, "/mcp", r#"{"elicitation":{"form":{}}}"#);
    let call = |tool: &str, way: &str| client.request(tool, &format!(r#"{{"way":"{way}"}}"#));
    let legacy = [
        call("who_mcp_http", ""),
        call("who_mcp_http", "told"),
        call("who_mcp_http", "asked"),
        call("who_mcp_stdio", ""),
        call("who_mcp_stdio", "told"),
        call("who_mcp_rounds", ""),
        r#"{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{"uri":"file:///x"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"file:///x"}}"#
            .to_owned(),
    ];
    let batch = format!("[{},{}]", old.request("who_mcp_http", "{}"), old.request("who_mcp_stdio", "{}"));
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#;
    let guests = [modern.calling("who_mcp_http", "{}"), modern.calling("who_mcp_stdio", r#"{"way":"told"}"#)];
    let mut half = half_a_message(&world).await;
    let calls = async {
        tokio::join!(
            join(legacy.iter().map(|text| last(&client, text))),
            old.post(&batch),
            last(&own, list),
            join(guests.iter().map(|text| modern.post(text))),
        )
    };
    let end = async {
        for (up, count) in [(&ups[0], 5), (&ups[1], 4), (&ups[2], 1)] {
            until("calls are under way", async || (up.seen_of("tools/call").len() == count).then_some(()))
                .await;
        }
        for method in ["resources/read", "resources/subscribe"] {
            until(method, async || ups.iter().any(|up| !up.seen_of(method).is_empty()).then_some(())).await;
        }
        let told = Instant::now();
        world.signal(Signal::SIGTERM);
        told
    };
    let answered = async {
        let (answers, told) = tokio::join!(calls, end);
        (answers, told.elapsed())
    };
    let ((legacy, batch, listed, guests), took) = timeout(SOON, answered).await.expect("answers");
    eprintln!("all calls were answered {took:?} after TERM");
    assert!(took <= drain, "{took:?}");
    for answer in &legacy {
        let said = answer["result"]["isError"] == true;
        assert!(said || answer["error"]["code"] == -32603, "{answer}");
        assert!(answer.to_string().contains("is being stopped"), "{answer}");
    }
    assert_eq!(batch.text.matches("is being stopped").count(), 2, "{}", batch.text);
    assert_eq!(listed["result"]["tools"], json!([]), "what there is: {listed}");
    for answer in guests {
        assert!(answer.text.contains("is being stopped"), "{}", answer.text);
    }
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    // Half a message has held up nobody, and may have been refused.
    drop(half.read_to_string(&mut String::new()).await);
    // The servers were told so, too.
    for up in &ups[..2] {
        within(SOON, "it is told", async || (up.seen_of("notifications/cancelled").len() >= 2).then_some(()))
            .await;
    }
}

/// A connection whose client never sends the end of its message.
async fn half_a_message(world: &World) -> TcpStream {
    let url: hyper::Uri = world.url("/mcp").parse().unwrap();
    let host = url.authority().unwrap().as_str();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: 100\r\n\r\n{{").as_bytes()).await.unwrap();
    stream
}
