//! Ends: of clients, of calls that meet a bug, of the log's reader, of the process.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{others_are_well, world};
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
        (world.metric(ok).await >= 2.0).then_some(())
    })
    .await;
    assert_eq!(world.metric("trunkline_streams").await, 0.0);
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
    until("all are seen", async || (world.metric("trunkline_connections").await >= 5.0).then_some(())).await;
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
    let mut script = Script::answering(move |seen| match seen.text.contains("slow") {
        true => Reply::Steps(vec![Step::Wait(waits.clone()), answer("slow")]),
        false => Reply::Result(crate::support::text("here")),
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
    assert_eq!(world.metric("trunkline_panics_total").await, 11.0);
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_112_a_log_that_nobody_reads_stops_nothing_and_its_losses_are_counted() {
    let up = Fake::http(Script::default());
    let mount = Mount::new(&file("", &entries(&[("up", up.entry())])));
    // The port is known from a first run only: a log that is not read cannot tell it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = std::fs::read_to_string(mount.file()).unwrap();
    let text = text.replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1).replacen(
        "127.0.0.1:0",
        &format!("127.0.0.1:{admin}"),
        1,
    );
    mount.save(&text);
    let mut child = program()
        .args(["--log", "trace", "--config"])
        .arg(mount.file())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let operators = Client::new(format!("http://127.0.0.1:{admin}/metrics"));
    until("it listens", async || tokio::net::TcpStream::connect(("127.0.0.1", admin)).await.ok()).await;
    let client = Client::greet(url).await;
    until("its tools are there", async || (!client.tools().await.is_empty()).then_some(())).await;
    let lost = async || {
        let text = operators.whole(hyper::Method::GET, "").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix("trunkline_log_lines_lost_total "));
        line.unwrap().parse::<f64>().unwrap()
    };
    let mut times = Vec::new();
    while lost().await == 0.0 {
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
    assert!(times.iter().max().unwrap() < &Duration::from_secs(2));
    crate::support::process::signal(child.id().unwrap(), Signal::SIGTERM);
    let ended =
        tokio::time::timeout(Duration::from_secs(10), child.wait()).await.expect("it ends all the same");
    assert!(ended.unwrap().success());
}

#[tokio::test]
async fn fault_113_scrapes_are_quick_and_stop_no_request() {
    let (world, _up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let scraper = Client::new(format!("http://{}/metrics", world.operators()));
    let scraper = scraper.with("accept", &"text/plain;version=0.0.4;q=0.5,".repeat(1000));
    assert!(scraper.headers["accept"].len() > 30_000);
    let (mut scrapes, mut calls) = (Vec::new(), Vec::new());
    let scraping = async {
        for _ in 0..100 {
            let started = Instant::now();
            let answer = scraper.whole(hyper::Method::GET, "").await;
            scrapes.push(started.elapsed());
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
    let (scrape, call) = (crate::support::median(scrapes), crate::support::median(calls));
    eprintln!("the median scrape beside calls took {scrape:?}, the call {call:?}");
    // 5 ms where the machine does nothing else; builds are slower.
    assert!(scrape < Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 }), "{scrape:?}");
    assert!(call < Duration::from_millis(100), "{call:?}");
    // The same one, by many at once.
    let all = join((0..100).map(|_| scraper.whole(hyper::Method::GET, ""))).await;
    assert!(all.iter().all(|answer| answer.status == 200));
    others_are_well(&world).await;
}

#[tokio::test]
async fn fault_106_with_a_tenth_of_a_core_probes_are_answered_and_nothing_storms() {
    let (world, up) = world("", Script::default()).await;
    let client = Client::open(&world, "/mcp").await;
    let Some(quota) = Quota::of(world.pid(), 10_000) else {
        eprintln!("skipped: no cpu control group can be made here");
        return;
    };
    let load = async {
        for _ in 0..20 {
            let answer = client.call("who_mcp_up", "{}").await;
            assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
        }
    };
    let probes = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..10 {
            let started = Instant::now();
            assert_eq!(world.admin("/livez").await.0, 200);
            slowest = slowest.max(started.elapsed());
        }
        slowest
    };
    let ((), slowest) = tokio::join!(load, probes);
    eprintln!("with a tenth of a core the slowest of ten probes beside calls took {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let late = r#"trunkline_requests_total{method="tools/call",outcome="timeout",server="up"}"#;
    assert_eq!(
        (world.metric(late).await, up.seen_of("tools/call").len()),
        (0.0, 20),
        "nothing is late or sent twice"
    );
    drop(quota);
}

/// A control group (version 1 or 2) that gives a process so many microseconds of each 100 ms.
struct Quota(std::path::PathBuf, u32);

impl Quota {
    fn of(pid: u32, quota: u32) -> Option<Self> {
        let one = std::path::Path::new("/sys/fs/cgroup/cpu");
        let name = format!("trunkline-{pid}");
        let folder = if one.is_dir() { one.join(name) } else { one.parent()?.join(name) };
        std::fs::create_dir(&folder).ok()?;
        let made = Self(folder.clone(), pid);
        let write = |file: &str, text: String| std::fs::write(folder.join(file), text);
        write("cpu.cfs_quota_us", quota.to_string())
            .or_else(|_| write("cpu.max", format!("{quota} 100000")))
            .and_then(|()| write("cgroup.procs", pid.to_string()))
            .ok()?;
        Some(made)
    }
}

impl Drop for Quota {
    /// A group that is not empty cannot be removed, so the process goes back to the root first.
    fn drop(&mut self) {
        let root = self.0.parent().unwrap().join("cgroup.procs");
        drop(std::fs::write(root, self.1.to_string()));
        drop(std::fs::remove_dir(&self.0));
    }
}
