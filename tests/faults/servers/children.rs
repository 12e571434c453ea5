//! Child processes that misbehave.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{Beside, is_stub, said};
use crate::support::{process, until};

/// The entry of a child that runs `script` in a shell.
fn shell(script: &str, more: &str) -> String {
    format!(r#"{{"command": "sh", "args": ["-c", {}]{more}}}"#, serde_json::json!(script))
}

/// Answers the handshake and the list as a server with one tool; then goes on with `rest`.
fn greeted(rest: &str) -> String {
    let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}"#;
    let list = r#"{"tools":[{"name":"who","inputSchema":{"type":"object"}}]}"#;
    format!(
        r#"reply() {{ printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" "$1"; }}
while read -r line; do
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *server/discover*) reply '"error":{{"code":-32601,"message":"no"}}';;
    *'"initialize"'*) reply '"result":{hello}';;
    *tools/list*) reply '"result":{list}'; break;;
  esac
done
{rest}"#
    )
}

#[tokio::test]
async fn fault_089_children_that_end_or_talk_nonsense_are_told_apart_and_cost_one_start_per_interval() {
    let servers = [
        ("exits", shell("echo sorry >&2; exit 3", "")),
        ("crashes", shell("kill -SEGV $$", "")),
        ("babbles", shell("exec yes nonsense", r#", "connectTimeout": "500ms""#)),
        ("forks", shell("sleep 3600 & sleep 3600 & exit 4", "")),
        ("once", shell(&greeted("read -r line; exit 5"), "")),
    ];
    let limits = "reconnectInterval: 1s, firstListWait: 3s";
    let beside = Beside::start(limits, &servers).await;
    let began = Instant::now();
    let (client, world) = (&beside.client, &beside.world);
    let call = client.call("who_mcp_once", "{}").await;
    assert!(is_stub(&call) && said(&call).contains("status 5"), "{call}");
    for (name, why) in [
        ("exits", "exited with status 3: sorry"),
        ("crashes", "killed by signal 11"),
        ("babbles", "lines that are no messages"),
        ("forks", "exited with status 4"),
    ] {
        let status = until("it is told", async || {
            let status = world.server(name).await;
            status["reason"].as_str().is_some().then_some(status)
        })
        .await;
        assert!(status["reason"].as_str().unwrap().contains(why), "{status}");
    }
    while began.elapsed() < Duration::from_secs(4) {
        beside.others_are_well().await;
        for name in ["exits", "crashes", "forks"] {
            assert!(is_stub(&client.call(&format!("who_mcp_{name}"), "{}").await));
        }
    }
    let most = began.elapsed().as_secs_f64() + 3.0;
    for (name, _) in &servers {
        let series = format!(r#"trunkline_upstream_reconnects_total{{reason="lost",server="{name}"}}"#);
        let starts = world.metric(&series).await;
        assert!(starts <= most, "{name} was started {starts} times, at most {most}");
    }
    for pid in process::children(world.pid()) {
        // One that has just ended is reaped in a moment.
        until("no zombie stays", async || {
            (process::runs(pid) || !process::children(world.pid()).contains(&pid)).then_some(())
        })
        .await;
    }
    assert!(process::children(world.pid()).len() <= servers.len());
}

#[tokio::test]
async fn fault_089_a_child_that_reads_no_more_fails_its_calls_by_their_deadline() {
    let deaf = shell(&greeted("exec sleep 3600"), r#", "timeout": "500ms", "breaker": false"#);
    let beside = Beside::start("callsPerSession: 1000", &[("deaf", deaf)]).await;
    let arguments = format!(r#"{{"much":"{}"}}"#, "x".repeat(64 << 10));
    let started = Instant::now();
    let calls = (0..40).map(|_| beside.client.call("who_mcp_deaf", &arguments));
    let (answers, ()) = tokio::join!(crate::support::join(calls), beside.others_are_well());
    for answer in answers {
        assert!(is_stub(&answer) && said(&answer).contains("500ms"), "{}", said(&answer));
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let grown = process::rss(beside.world.pid());
    assert!(grown < 120 << 10, "{grown} KiB");
}

#[tokio::test]
async fn fault_090_a_child_that_ignores_term_is_killed_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let rest = format!(
        r#"trap "" TERM HUP INT
sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo $$ $! > {}
while :; do sleep 1; done"#,
        file.display()
    );
    let mut beside = Beside::start("", &[("stays", shell(&greeted(&rest), ""))]).await;
    let pids = until("it runs", async || {
        let text = std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))?;
        Some(text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>())
    })
    .await;
    let started = Instant::now();
    beside.world.signal(Signal::SIGTERM);
    let status = beside.world.ended(Duration::from_secs(8)).await;
    let took = started.elapsed();
    assert!(status.success() && took >= Duration::from_secs(3), "{status} after {took:?}");
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| !process::runs(*pid)), "its group is gone");
}
