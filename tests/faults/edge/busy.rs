//! More than there is room for.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{closed, count, others_are_well, rejected, world};
use crate::support::raw::{Raw, head};
use crate::support::{Client, Line, Modern, Reply, Script, Step, World, answer, error, join, process, until};

/// Calls wait until the gate opens.
fn gated(gate: &CancellationToken) -> Script {
    let gate = gate.clone();
    Script::answering(move |_| Reply::Steps(vec![Step::Wait(gate.clone()), answer("here")]))
}

#[tokio::test]
async fn fault_121_calls_beyond_the_limit_are_told_at_once_to_come_again() {
    const CALLS: usize = 20;
    let gate = CancellationToken::new();
    let (world, up) = world(&format!("calls: {CALLS}"), gated(&gate)).await;
    let clients = join((0..=CALLS).map(|_| Client::open(&world, "/mcp"))).await;
    let last = &clients[CALLS];
    let waiting = join(clients[..CALLS].iter().map(|client| client.call("who_mcp_up", "{}")));
    let rest = async {
        until("all are there", async || (up.seen_of("tools/call").len() == CALLS).then_some(())).await;
        let started = tokio::time::Instant::now();
        let busy = last.post(&last.request("who_mcp_up", "{}")).await;
        let took = started.elapsed();
        assert_eq!(
            (busy.status, &busy.headers["retry-after"]),
            (503, &"1".parse().unwrap()),
            "{}",
            busy.text
        );
        assert_eq!(error(&busy.text), Some(-32603), "with its id: {}", busy.text);
        assert!(
            busy.text.contains(r#""id":0"#) && took < Duration::from_millis(500),
            "{took:?} {}",
            busy.text
        );
        // What costs nothing is served all the same, and a new client comes in.
        assert_eq!(last.tools().await, ["who_mcp_up"]);
        Client::open(&world, "/mcp").await;
        let modern = Modern::new(&world, "/mcp");
        assert_eq!(modern.post(&modern.calling("who_mcp_up", "{}")).await.status, 503);
        gate.cancel();
    };
    let (answers, ()) = tokio::join!(waiting, rest);
    assert!(answers.iter().all(|answer| answer["result"]["content"][0]["text"] == "here"));
    assert_eq!(up.seen_of("tools/call").len(), CALLS, "no server heard of the others");
    assert_eq!(rejected(&world, "busy").await, 2);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_122_a_client_that_takes_all_it_can_leaves_room_for_others() {
    let gate = CancellationToken::new();
    let (world, up) = world("calls: 20", gated(&gate)).await;
    let (greedy, other) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let texts: Vec<_> = (0..40).map(|_| greedy.request("who_mcp_up", "{}")).collect();
    let asking = join(texts.iter().map(|text| greedy.post(text)));
    let rest = async {
        until("it has its share", async || (rejected(&world, "busy").await == 30).then_some(())).await;
        let call = other.call("who_mcp_up", "{}");
        let opening = async {
            up.saw(|_| up.seen_of("tools/call").len() == 11).await;
            gate.cancel();
        };
        assert_eq!(tokio::join!(call, opening).0["result"]["content"][0]["text"], "here");
    };
    let (answers, ()) = tokio::join!(asking, rest);
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(served, 10, "half of what there is");
}

#[tokio::test]
async fn fault_011_a_connection_without_a_session_has_its_own_limit() {
    let gate = CancellationToken::new();
    let (world, up) = world("callsPerSession: 4", gated(&gate)).await;
    let modern = Modern::new(&world, "/mcp");
    let headed = modern.headed(&modern.calling("who_mcp_up", "{}"));
    let mut line = crate::support::raw::Two::open(&world, &[]).await;
    for number in 0..5_u32 {
        line.say(&crate::support::raw::posted(2 * number + 1, &headed, &modern.calling("who_mcp_up", "{}")))
            .await;
    }
    let refused = loop {
        let frame = line.next_of(crate::support::raw::frame::DATA).await.unwrap();
        if frame.payload.windows(6).any(|six| six == b"-32603") {
            break frame.stream;
        }
    };
    assert_eq!(refused, 9, "the fifth");
    assert_eq!(up.saw(|_| up.seen_of("tools/call").len() == 4).await.method, "tools/call");
    gate.cancel();
}

#[tokio::test]
async fn fault_117_connections_and_streams_beyond_the_limit_are_turned_away() {
    let (world, _up) = world("clientConnections: 30, streams: 2", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let mut line = Line::open(&client, false).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(Client::open(&world, "/mcp").await.listen().await);
    }
    let busy = client.whole(hyper::Method::GET, "").await;
    assert_eq!((busy.status, busy.headers.contains_key("retry-after")), (503, true), "{}", busy.text);
    let modern = Modern::new(&world, "/mcp");
    assert_eq!(
        modern.post(&modern.request("subscriptions/listen", r#"{"notifications":{}}"#)).await.status,
        503
    );
    drop(streams);
    until("there is room again", async || (count(&world, "trunkline_streams").await == 0).then_some(()))
        .await;
    drop(client.listen().await);
    let mut held = join((0..31).map(|_| Raw::open(&world))).await;
    let ends = join(held.iter_mut().map(|raw| raw.ends(Duration::from_secs(1)))).await;
    let turned = ends.into_iter().filter(|ends| *ends).count();
    assert!((1..10).contains(&turned) && closed(&world, "full").await >= 1, "{turned}");
    let call = line.send(&client, hyper::Method::POST, client.request("who_mcp_up", "{}")).await;
    assert_eq!(call.status(), 200, "who is in stays");
    drop(held);
    until("there is room again", async || (count(&world, "trunkline_connections").await < 20).then_some(()))
        .await;
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_105_bodies_beyond_the_memory_are_refused_and_it_does_not_grow() {
    const BODY: usize = 3 << 20;
    let (world, up) = world("buffers: 16MiB", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let before = process::rss(world.pid());
    // Many large bodies that never end.
    let mut held = Vec::new();
    for _ in 0..30 {
        let mut raw = Raw::open(&world).await;
        raw.say(head(&client, &format!("Content-Length: {}\r\n", BODY + 10))).await;
        raw.say(vec![b' '; BODY]).await;
        held.push(raw);
    }
    until("some are refused", async || (rejected(&world, "memory").await >= 20).then_some(())).await;
    let grown = process::rss(world.pid()).saturating_sub(before);
    eprintln!("30 unended bodies of 3 MiB: {grown} KiB more resident");
    assert!(grown < 40 << 10, "{grown} KiB");
    let shed = client.post(&client.request("who_mcp_up", "{}")).await;
    assert!(shed.status == 200 || shed.status == 503 && shed.headers.contains_key("retry-after"), "{shed:?}");
    drop(held);
    until("all is given back", async || (count(&world, "trunkline_buffered_bytes").await == 0).then_some(()))
        .await;
    let large = client.request("who_mcp_up", &format!(r#"{{"x":"{}"}}"#, "x".repeat(BODY)));
    assert!(client.ask(&large).await.contains("here"));
    assert!(up.seen_of("tools/call").len() <= 2);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_105_answers_beyond_the_memory_fail_alone_and_are_given_back() {
    const SIZE: usize = 10 << 20;
    let large = crate::support::text(&"x".repeat(SIZE));
    let script = Script::answering(move |seen| {
        if seen.text.contains("large") {
            Reply::Result(large.clone())
        } else {
            Reply::Result(crate::support::text("here"))
        }
    });
    let (world, _up) = world("buffers: 24MiB", script).await;
    // As an event an answer can be resumed, and so is held; one alone passes as it comes.
    let client = Client::open(&world, "/mcp").await.with("accept", "text/event-stream");
    let before = process::rss(world.pid());
    let texts: Vec<_> = (0..12).map(|_| client.request("who_mcp_up", r#"{"x":"large"}"#)).collect();
    let calls = join(texts.iter().map(|text| client.post(text)));
    let small = async {
        for _ in 0..20 {
            let answer = client.post(&client.request("who_mcp_up", "{}")).await;
            assert!(matches!(answer.status, 200 | 503), "{}", answer.text);
        }
    };
    let (answers, ()) = tokio::join!(calls, small);
    let whole = answers.iter().filter(|answer| answer.text.len() > SIZE).count();
    let told = answers.iter().filter(|answer| answer.text.contains("too large for the memory")).count();
    let shed = answers.iter().filter(|answer| answer.status == 503).count();
    let grown = process::rss(world.pid()).saturating_sub(before);
    eprintln!("12 answers of 10 MiB: {whole} whole, {told} refused, {shed} shed; {grown} KiB more resident");
    assert!(whole >= 1 && told >= 1 && whole + told + shed == 12, "{whole} {told} {shed}");
    assert!(grown < 150 << 10, "{grown} KiB"); // without a bound 12 of them and their copies
    until("all is given back", async || (count(&world, "trunkline_buffered_bytes").await == 0).then_some(()))
        .await;
    assert!(client.call("who_mcp_up", r#"{"x":"large"}"#).await.to_string().len() > SIZE, "one has room");
    let client = client.with("accept", "application/json");
    let answers = join(texts.iter().map(|text| client.post(text))).await;
    assert!(answers.iter().all(|answer| answer.text.len() > SIZE), "they need no room");
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_020_without_descriptors_streams_live_on_and_it_recovers() {
    let (world, up) = world("", Script { tells: true, ..Script::default() }).await;
    let client = Client::open(&world, "/mcp").await;
    let mut stream = client.listen().await;
    limit(&world, process::fds(world.pid()) + 4);
    let raws = join((0..50).map(|_| Raw::open(&world))).await;
    let mut world = world;
    world.logged("no connections can be taken").await;
    let (busy, started) = (cpu(world.pid()), tokio::time::Instant::now());
    let tries = warnings(&world);
    up.change(|script| script.tools.push(crate::support::tool("more")));
    up.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert!(stream.next().await.unwrap().contains("tools/list_changed"), "streams live on");
    until("it has tried again", async || (warnings(&world) >= tries + 3).then_some(())).await;
    let (spent, time) = (cpu(world.pid()).saturating_sub(busy), started.elapsed());
    assert!(spent < time / 2, "{spent:?} of {time:?} busy");
    drop(raws);
    limit(&world, 1 << 10);
    others_are_well(&world).await;
}

fn warnings(world: &World) -> usize {
    let said = |line: &&serde_json::Value| {
        line["message"].as_str().is_some_and(|said| said.contains("no connections can be taken"))
    };
    world.log().iter().filter(said).count()
}

/// Lets a process have so many descriptors.
fn limit(world: &World, descriptors: usize) {
    let mut prlimit = std::process::Command::new("prlimit");
    prlimit.arg(format!("--nofile={descriptors}:4096")).arg(format!("--pid={}", world.pid()));
    assert!(prlimit.status().expect("prlimit, of util-linux").success());
}

/// How long a process has been busy.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}
