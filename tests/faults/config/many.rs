//! Rows 99 and 100: many servers, many reloads, many hangups.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{TAKEN, said, save};
use crate::support::{
    Client, Fake, Reply, SOON, Script, Step, World, answer, entries, file, process, scaled, until,
};

/// CPU time that a process took so far.
fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn fault_099_many_reloads_of_many_servers_cost_little_and_leave_nothing() {
    const SERVERS: usize = 500;
    let reloads = u32::try_from(scaled(20, 1000)).unwrap();
    // A build without optimisations takes several times as long.
    let most = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 100 });
    let up = Fake::http(Script::default());
    let text = |version: u32| {
        let url = up.entry();
        let entry = |n: usize| {
            let title = if n == 7 { version } else { 0 };
            (format!("s{n}"), url.replace("/mcp\"", &format!("/mcp?{n}\", \"title\": \"{title}\"")))
        };
        let all: Vec<_> = (0..SERVERS).map(entry).collect();
        let all: Vec<_> = all.iter().map(|(name, entry)| (&**name, entry.clone())).collect();
        file("refreshInterval: 1h", &entries(&all))
    };
    let world = World::start(&text(0)).await.ready().await;
    until("all are connected", async || (up.seen_of("initialize").len() == SERVERS).then_some(())).await;
    // Asked for the log alone: figures and status of so many servers cost more than a reload.
    let change = async |version: u32| {
        let taken = || {
            let log = world.log();
            log.iter().filter(|line| line["message"] == "the configuration was taken over").count()
        };
        let before = taken();
        world.mount.save(&text(version));
        until("it is taken", async || (taken() > before).then_some(())).await;
    };
    for version in 1..=10 {
        change(version).await; // until memory has found its size
    }
    let (rss, fds, before) = (process::rss(world.pid()), process::fds(world.pid()), cpu(world.pid()));
    for version in 1..=reloads {
        change(1000 + version).await;
    }
    let each = cpu(world.pid()).saturating_sub(before) / reloads;
    assert_eq!(world.server("s7").await["title"], (1000 + reloads).to_string());
    assert_eq!(up.seen_of("initialize").len(), SERVERS, "no connection was made anew");
    let now = (process::rss(world.pid()), process::fds(world.pid()));
    eprintln!("{reloads} reloads of {SERVERS} servers: {each:?} of CPU each; {rss} -> {} KiB", now.0);
    assert!(each <= most, "{each:?}");
    assert!(now.0 <= rss + rss / 20, "{rss} -> {} KiB", now.0);
    assert!(now.1 <= fds + 2, "{fds} -> {} descriptors", now.1);
}

#[tokio::test]
async fn fault_100_a_thousand_hangups_are_a_few_readings() {
    let up = Fake::http(Script::default());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let began = Instant::now();
    for _ in 0..1000 {
        world.signal(Signal::SIGHUP);
    }
    assert_eq!(said(&client, "who_mcp_up").await, "here");
    let title = file("", &entries(&[("up", up.entry_with(r#", "title": "after""#))]));
    save(&world, &title).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let count = world.log().iter().filter(|line| line["message"].to_string().contains("SIGHUP")).count();
    assert!((1..=1000).contains(&count));
    assert_eq!((up.seen_of("initialize").len(), world.metric(TAKEN).await), (1, 2.0));
}

#[tokio::test]
async fn fault_100_a_hangup_in_a_reload_and_at_the_end_does_no_harm() {
    let (gate, call) = (CancellationToken::new(), CancellationToken::new());
    let waiting = call.clone();
    let slow = move |_: &_| Reply::Steps(vec![Step::Wait(waiting.clone()), answer("at last")]);
    let up = Fake::http(Script { call: Arc::new(slow), ..Script::default() });
    let new = Fake::http(Script { greets_after: Some(gate.clone()), ..Script::default() });
    let text = |changing: &Fake| file("", &entries(&[("up", up.entry()), ("changing", changing.entry())]));
    let old = Fake::http(Script::default());
    let mut world = World::start(&text(&old)).await.ready().await;
    let before = world.metric(TAKEN).await;
    world.mount.save(&text(&new));
    new.saw(|seen| seen.method == "initialize").await; // in the middle of it
    for _ in 0..10 {
        world.signal(Signal::SIGHUP);
    }
    gate.cancel();
    until("it is taken", async || (world.metric(TAKEN).await > before).then_some(())).await;
    assert_eq!(new.seen_of("initialize").len(), 1);
    let client = Client::open(&world, "/mcp").await;
    let end = async {
        up.saw(|seen| seen.method == "tools/call").await;
        world.signal(Signal::SIGTERM);
        world.logged("ending").await;
        world.mount.save(&text(&old));
        for _ in 0..10 {
            world.signal(Signal::SIGHUP);
        }
        call.cancel();
        assert_eq!(world.ended(SOON).await.code(), Some(0));
    };
    let (answer, ()) = tokio::join!(client.call("who_mcp_up", "{}"), end);
    assert_eq!(answer["result"]["content"][0]["text"], "at last", "{answer}");
    assert_eq!(
        (old.seen_of("initialize").len(), up.seen_of("initialize").len()),
        (1, 1),
        "no reload at the end"
    );
}
