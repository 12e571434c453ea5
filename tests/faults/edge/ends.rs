//! Ends: of clients, of calls that meet a bug, of the log's reader, of the process.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{count, others_are_well, world};
use crate::support::raw::{Raw, Two, head, post};
use crate::support::{
    Client, Fake, Modern, Mount, Reply, Script, Step, World, answer, entries, file, join, program, progress,
    tool, until,
};

#[tokio::test]
async fn fault_021_whoever_goes_away_has_cancelled_without_a_session_and_not_with_one() {
    let gate = CancellationToken::new();
    let waits = gate.clone();
    let script =
        Script::answering(move |_| Reply::Steps(vec![progress(), Step::Wait(waits.clone()), answer("here")]));
    let (world, up) = world("", script).await;
    let (modern, client) = (Modern::new(&world, "/mcp"), Client::open(&world, "/mcp").await);
    let mut calls = 0;
    for resets in [false, true] {
        for is_modern in [true, false] {
            let text = if is_modern {
                modern.calling("who_mcp_up", "{}")
            } else {
                client.request("who_mcp_up", "{}")
            };
            let headed =
                if is_modern { modern.headed(&text) } else { client.with("accept", "text/event-stream") };
            let mut raw = Raw::open(&world).await;
            raw.say(post(&headed, &text)).await;
            calls += 1;
            up.saw(|_| up.seen_of("tools/call").len() == calls).await;
            let cancelled = up.seen_of("notifications/cancelled").len();
            let gone = Instant::now();
            if resets {
                raw.reset();
            } else {
                raw.io.shutdown().await.unwrap(); // half: it would still read
            }
            if is_modern {
                up.saw(|_| up.seen_of("notifications/cancelled").len() == cancelled + 1).await;
                assert!(gone.elapsed() < Duration::from_secs(1), "{:?}", gone.elapsed());
            } else {
                others_are_served(&world, &modern).await;
                assert_eq!(up.seen_of("notifications/cancelled").len(), cancelled, "its call runs on");
            }
        }
    }
    gate.cancel();
    until("the calls have ended", async || {
        let ok = r#"trunkline_requests_total{method="tools/call",outcome="ok",server="up"}"#;
        (count(&world, ok).await >= 2).then_some(())
    })
    .await;
    assert_eq!(count(&world, "trunkline_streams").await, 0);
}

/// Something else goes all the way, so that what would have come before it has come.
async fn others_are_served(world: &World, modern: &Modern) {
    assert!(modern.json("tools/list", "{}").await["result"]["tools"].is_array());
    assert_eq!(world.admin("/livez").await.0, 200);
}

#[tokio::test]
async fn fault_103_idle_connections_and_half_requests_do_not_hold_the_end() {
    let (mut world, _up) = world("drainTimeout: 60s", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let mut two = Two::open(&world, &[]).await;
    assert!(two.next().await.is_some());
    let mut half = Two::open(&world, &[]).await;
    let headers = crate::support::raw::fields("POST", &client);
    half.say(&crate::support::raw::encoded(1, 4, 1, &headers)).await;
    let mut held = Vec::new();
    for start in [
        String::new(),
        "POST /mcp HTTP/1.1\r\nHost: l".into(),
        head(&client, "Content-Length: 100\r\n") + "{",
    ] {
        let mut raw = Raw::open(&world).await;
        raw.say(start).await;
        held.push(raw);
    }
    let _stream = client.listen().await;
    until("all are seen", async || (count(&world, "trunkline_connections").await >= 5).then_some(())).await;
    let started = Instant::now();
    world.signal(Signal::SIGTERM);
    assert!(world.ended(Duration::from_secs(10)).await.success());
    eprintln!("ended {:?} after SIGTERM, beside idle connections and half requests", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "there is no such bug in a release")]
async fn fault_110_a_call_that_panics_is_answered_and_nobody_else_notices() {
    let gate = CancellationToken::new();
    let waits = gate.clone();
    let mut script = Script::answering(move |seen| {
        if seen.text.contains("slow") {
            Reply::Steps(vec![Step::Wait(waits.clone()), answer("slow")])
        } else {
            Reply::Result(crate::support::text("here"))
        }
    });
    script.tools.push(tool("bug"));
    let up = Fake::http(script);
    let mut program = program();
    program.env("TRUNKLINE_PANIC", "bug_mcp_up");
    let world =
        World::start_as(Mount::new(&file("", &entries(&[("up", up.entry())]))), program).await.ready().await;
    let (client, modern) = (Client::open(&world, "/mcp").await, Modern::new(&world, "/mcp"));
    let slow = client.call("who_mcp_up", r#"{"x":"slow"}"#);
    let bugs = async {
        up.saw(|seen| seen.method == "tools/call").await;
        for n in 0..5 {
            let answer = client.call("bug_mcp_up", "{}").await;
            assert_eq!(
                (&answer["error"]["code"], answer["id"].is_u64()),
                (&(-32603).into(), true),
                "{answer}"
            );
            let answer = modern.call("bug_mcp_up", "{}").await;
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here", "{n}");
        }
        // On the way as events, where the call has a task of its own.
        let events = client.with("accept", "text/event-stream");
        let answer = events.ask(&client.request("bug_mcp_up", "{}")).await;
        assert!(answer.contains("-32603"), "{answer}");
        gate.cancel();
    };
    let (answer, ()) = tokio::join!(slow, bugs);
    assert_eq!(answer["result"]["content"][0]["text"], "slow", "the same session's, on the way meanwhile");
    assert_eq!(count(&world, "trunkline_panics_total").await, 11);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_112_a_log_that_nobody_reads_stops_nothing_and_its_losses_are_counted() {
    let up = Fake::http(Script::default());
    let mount = Mount::new(&file("", &entries(&[("up", up.entry())])));
    let mut child = program()
        .args(["--log", "trace", "--log-format", "json", "--config"])
        .arg(mount.file())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // Read up to where it listens, and then no more.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let listening = loop {
        let line: serde_json::Value =
            serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        if line["message"] == "listening" {
            break line;
        }
    };
    let url = format!("http://{}/mcp", listening["bound"].as_str().unwrap());
    let operators = Client::new(format!("http://{}/metrics", listening["admin"].as_str().unwrap()));
    let client = Client::greet(url).await;
    until("its tools are there", async || (!client.tools().await.is_empty()).then_some(())).await;
    let lost = async || {
        let text = operators.whole(hyper::Method::GET, "").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix("trunkline_log_lines_lost_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let mut times = Vec::new();
    while lost().await == 0 {
        let started = Instant::now();
        let answers = join((0..32).map(|_| client.call("who_mcp_up", "{}"))).await;
        assert!(answers.iter().all(|answer| answer["result"]["content"][0]["text"] == "here"));
        times.push(started.elapsed());
        assert!(times.len() < 2000, "its log is never full");
    }
    for _ in 0..100 {
        let started = Instant::now();
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
        times.push(started.elapsed());
    }
    eprintln!(
        "{} calls beside a log that nobody reads, the slowest {:?}; {} lines lost",
        times.len(),
        times.iter().max(),
        lost().await
    );
    assert!(times.iter().max().unwrap() < &Duration::from_secs(5));
    crate::support::process::signal(child.id().unwrap(), Signal::SIGTERM);
    let ended =
        tokio::time::timeout(Duration::from_secs(10), child.wait()).await.expect("it ends all the same");
    assert!(ended.unwrap().success());
    drop(lines);
}

#[tokio::test]
async fn fault_113_scrapes_are_quick_and_stop_no_request() {
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let scraper = Client::new(format!("http://{}/metrics", world.operators()));
    let scraper = scraper.with("accept", &"text/plain;version=0.0.4;q=0.5,".repeat(1000));
    assert!(scraper.headers["accept"].len() > 30_000);
    let (mut looks, mut calls) = (Vec::new(), Vec::new());
    let scraping = async {
        for _ in 0..100 {
            let started = Instant::now();
            let answer = scraper.whole(hyper::Method::GET, "").await;
            looks.push(started.elapsed());
            assert!(
                answer.status == 200 && answer.text.contains("trunkline_sessions 1"),
                "{}",
                answer.status
            );
        }
    };
    let calling = async {
        for _ in 0..100 {
            let started = Instant::now();
            assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
            calls.push(started.elapsed());
        }
    };
    tokio::join!(scraping, calling);
    let (scrape, call) = (crate::support::median(looks), crate::support::median(calls));
    eprintln!("the median scrape beside calls took {scrape:?}, the call {call:?}");
    // 5 ms where the machine does nothing else; builds are slower.
    assert!(scrape < Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 }), "{scrape:?}");
    assert!(call < Duration::from_millis(100), "{call:?}");
    // The same one, by many at once.
    let all = join((0..100).map(|_| scraper.whole(hyper::Method::GET, ""))).await;
    assert!(all.iter().all(|answer| answer.status == 200));
    others_are_well(&world).await;
}
