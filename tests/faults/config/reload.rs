//! Rows 95 and 97: many reloads under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{LAST, REFUSED, TAKEN};
use crate::support::{
    Client, Fake, Mount, Reply, Script, Step, World, answer, entries, file, median, scaled, text, tool, until,
};

/// A server that answers which version of its configuration called it.
fn versioned() -> Fake {
    Fake::http(Script::answering(|seen| Reply::Result(text(seen.header("x-version")))))
}

/// The servers of one version.
struct Servers {
    steady: [Fake; 2],
    changing: Fake,
    visitor: Fake,
}

impl Servers {
    fn file(&self, version: usize) -> String {
        let changing = self.changing.entry_with(&format!(r#", "headers": {{"x-version": "{version}"}}"#));
        let mut servers =
            vec![("http", self.steady[0].entry()), ("stdio", self.steady[1].entry()), ("changing", changing)];
        if version % 4 == 3 {
            servers.insert(0, ("visitor", self.visitor.entry())); // comes and goes
        }
        file("reconnectInterval: 1s", &entries(&servers))
    }
}

/// Calls without a pause until told to stop; how many calls were made.
fn load(
    world: &World,
    tool: &'static str,
    stop: &Arc<AtomicBool>,
    failed: &Arc<AtomicUsize>,
    calls: &mut JoinSet<usize>,
) {
    let (url, stop, failed) = (world.url("/mcp"), stop.clone(), failed.clone());
    calls.spawn(async move {
        let (client, mut made) = (Client::greet(url).await, 0);
        while !stop.load(Ordering::Relaxed) {
            let answer = client.call(tool, "{}").await;
            if answer["result"]["content"][0]["text"] != "here" {
                eprintln!("{tool}: {answer}");
                failed.fetch_add(1, Ordering::Relaxed);
            }
            made += 1;
        }
        made
    });
}

#[tokio::test]
async fn fault_097_no_call_on_an_unchanged_server_fails_under_reloads_and_changed_ones_switch() {
    let reloads = scaled(60, 200);
    let servers = Servers {
        steady: [Fake::http(Script::default()), Fake::stdio(Script::default())],
        changing: versioned(),
        visitor: Fake::http(Script::default()),
    };
    let mount = Mount::swapped(&servers.file(0));
    let mut world = World::start_in(mount).await.ready().await;
    let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let under_load = Instant::now();
    let mut calls = JoinSet::new();
    for tool in ["who_mcp_http", "who_mcp_stdio"] {
        load(&world, tool, &stop, &failed, &mut calls);
    }
    let client = Client::open(&world, "/mcp").await;
    let (mut taken, mut refused, mut times) =
        (world.metric(TAKEN).await, world.metric(REFUSED).await, Vec::new());
    for n in 0..reloads {
        let valid = n % 2 == 1;
        let text = if valid { servers.file(n) } else { format!("{}\n  bad: {{}}\n", servers.file(n)) };
        let began = Instant::now();
        // The first half as Kubernetes does it, the second as editors do.
        if n < reloads / 2 {
            world.mount.swap(&text);
        } else {
            world.mount.save(&text);
        }
        if valid {
            taken += 1.0;
            until("it is taken", async || (world.metric(TAKEN).await >= taken).then_some(())).await;
            assert_eq!(
                client.call("who_mcp_changing", "{}").await["result"]["content"][0]["text"],
                n.to_string()
            );
            times.push(began.elapsed());
            assert!(world.status().await["configProblems"].as_array().unwrap().is_empty());
        } else {
            refused += 1.0;
            until("it is refused", async || (world.metric(REFUSED).await >= refused).then_some(())).await;
            let last = n.saturating_sub(1).to_string();
            assert_eq!(client.call("who_mcp_changing", "{}").await["result"]["content"][0]["text"], last);
            let line = text.lines().position(|line| line.contains("bad:")).unwrap() + 1;
            let told = world.status().await["configProblems"].to_string();
            assert!(told.contains(&format!("config.yaml:{line}:")), "{told}");
        }
        assert!((world.metric(LAST).await - f64::from(u8::from(valid))).abs() < 0.1);
        assert!(
            (world.metric(TAKEN).await - taken).abs() < 0.1
                && (world.metric(REFUSED).await - refused).abs() < 0.1
        );
    }
    let (known, noticed) = (servers.changing.seen_of("initialize").len(), world.metric(TAKEN).await);
    let same = format!("{}# nothing new\n", servers.file(reloads - 1));
    world.mount.save(&same);
    world.signal(nix::sys::signal::Signal::SIGHUP);
    world.logged("SIGHUP").await;
    for _ in 0..10 {
        client.call("who_mcp_changing", "{}").await;
    }
    stop.store(true, Ordering::Relaxed);
    let under_load = under_load.elapsed();
    let mut made = 0;
    while let Some(done) = calls.join_next().await {
        made += done.unwrap();
    }
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    for fake in &servers.steady {
        assert_eq!(fake.seen_of("initialize").len(), 1, "left alone");
    }
    assert_eq!(servers.changing.seen_of("initialize").len(), known, "nothing new, no new connection");
    assert!((world.metric(TAKEN).await - noticed).abs() < 0.1);
    assert_eq!(servers.visitor.seen_of("initialize").len(), reloads / 4, "added as often as it was removed");
    let (middle, slowest) = (median(times.clone()), times.into_iter().max().unwrap());
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    eprintln!(
        "{reloads} reloads, half of them invalid, half by ..data swap: 0 of {made} calls failed ({} a second); a \
         changed server switched after {middle:?} (median), {slowest:?} (slowest), quiet time included",
        made as u64 / under_load.as_secs().max(1)
    );
}

#[tokio::test]
async fn fault_097_a_removed_server_finishes_its_calls_and_its_names_are_unknown() {
    let gate = CancellationToken::new();
    let waiting = gate.clone();
    let gone = Fake::http(Script {
        tools: vec![tool("who"), tool("slow")],
        sessions: true,
        call: Arc::new(move |seen| {
            if seen.text.contains("slow") {
                Reply::Steps(vec![Step::Wait(waiting.clone()), answer("at last")])
            } else {
                Reply::Result(text("here"))
            }
        }),
        ..Script::default()
    });
    let stays = Fake::http(Script::default());
    let world = World::start(&file("", &entries(&[("gone", gone.entry()), ("stays", stays.entry())])))
        .await
        .ready()
        .await;
    let client = Client::open(&world, "/mcp").await;
    let own = Client::open(&world, "/mcp/gone").await;
    let mut stream = client.listen().await;
    let remove = async {
        gone.saw(|seen| seen.method == "tools/call").await;
        world.mount.save(&file("", &entries(&[("stays", stays.entry())])));
        assert!(stream.next().await.unwrap().contains("notifications/tools/list_changed"));
        assert_eq!(client.call("who_mcp_gone", "{}").await["error"]["code"], -32602);
        assert_eq!(client.tools().await, ["who_mcp_stays"]);
        assert_eq!(own.post(&own.request("who", "{}")).await.status, 404, "its view is gone as well");
        gate.cancel();
    };
    let (answer, ()) = tokio::join!(client.call("slow_mcp_gone", "{}"), remove);
    assert_eq!(answer["result"]["content"][0]["text"], "at last", "{answer}");
    gone.saw(|seen| seen.kind == "DELETE").await;
    let metrics = world.admin("/metrics").await.1;
    assert!(!metrics.contains("server=\"gone\"") && metrics.contains("server=\"stays\""));
}

#[tokio::test]
async fn fault_095_a_half_written_file_changes_nothing_and_a_hangup_reads_it_again() {
    let up = Fake::http(Script::default());
    let whole = file("", &entries(&[("up", up.entry())]));
    let mut world = World::start(&whole).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let refused = world.metric(REFUSED).await;
    let half = whole.split_at(whole.find("mcpServers").unwrap()).0;
    std::fs::write(world.mount.file(), half).unwrap(); // in place, as a truncating editor does
    until("it is refused", async || (world.metric(REFUSED).await > refused).then_some(())).await;
    assert_eq!(client.tools().await, ["who_mcp_up"]);
    std::fs::write(world.mount.file(), &whole).unwrap();
    until("it is valid again", async || (world.metric(LAST).await > 0.5).then_some(())).await;
    world.signal(nix::sys::signal::Signal::SIGHUP);
    world.logged("SIGHUP").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    assert_eq!(up.seen_of("initialize").len(), 1);
}
