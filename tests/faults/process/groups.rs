//! Rows 105 and 106: little memory, little time.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use tokio::time::Instant;

use crate::support::{
    Client, Fake, Group, Reply, Script, World, entries, file, join, name, process, text, tool,
};

const MEMORY: usize = 64 << 20;

/// A server with a tool whose result is larger than may be, and one that answers at once.
fn large() -> Script {
    let long = text(&"x".repeat((16 << 20) + 1));
    Script {
        tools: vec![tool("who"), tool("large")],
        ..Script::answering(move |seen| {
            if seen.text.contains("large") {
                Reply::Result(long.clone())
            } else {
                Reply::Result(text("here"))
            }
        })
    }
}

#[tokio::test]
async fn fault_105_with_little_memory_it_sheds_load_and_lives_in_cgroups_v1() {
    let limit = MEMORY.to_string();
    let limits = [("memory.limit_in_bytes", &*limit), ("memory.swappiness", "0")];
    match Group::v1("memory", &limits) {
        Ok(group) => squeezed(&group).await,
        Err(why) => name("fault_105_with_little_memory_it_sheds_load_and_lives_in_cgroups_v1", &why),
    }
}

#[tokio::test]
async fn fault_105_with_little_memory_it_sheds_load_and_lives_in_cgroups_v2() {
    let limit = MEMORY.to_string();
    match Group::v2("memory", &[("memory.max", &*limit)]) {
        Ok(group) => squeezed(&group).await,
        Err(why) => name("fault_105_with_little_memory_it_sheds_load_and_lives_in_cgroups_v2", &why),
    }
}

/// Bodies of 4 MiB and one byte, the same id from many clients, and results of 16 MiB and one byte, all at once.
async fn squeezed(group: &Group) {
    let up = Fake::http(large());
    let mut come_in = tokio::process::Command::new("sh");
    come_in.args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh", &group.door()]);
    come_in.arg(env!("CARGO_BIN_EXE_trunkline"));
    let mount = crate::support::Mount::new(&file("", &entries(&[("up", up.entry())])));
    let world = World::start_as(mount, come_in).await.ready().await;
    let clients = join((0..200).map(|_| Client::open(&world, "/mcp"))).await;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"who_mcp_up","arguments":{{"a":"{}"}}}}}}"#,
        "x".repeat(4 << 20)
    );
    let same =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_mcp_up","arguments":{}}}"#;
    let huge =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"large_mcp_up","arguments":{}}}"#;
    let (bodies, calls, results) = tokio::join!(
        join(clients.iter().take(32).map(|client| client.try_send(Method::POST, body.clone()))),
        join(clients.iter().skip(40).map(|client| client.post(same))),
        join(clients.iter().skip(32).take(8).map(|client| client.post(huge))),
    );
    for answer in bodies.into_iter().flatten() {
        assert!([413, 503].contains(&answer.status().as_u16()), "{}", answer.status());
    }
    let mut shed = 0;
    for answer in calls.iter().chain(&results) {
        match answer.status {
            503 | 413 => shed += 1,
            200 => {
                let answer = answer
                    .text
                    .lines()
                    .map(|line| line.trim_start_matches("data: "))
                    .rfind(|line| line.starts_with('{'));
                let answer: Value = serde_json::from_str(answer.unwrap()).unwrap();
                assert!(
                    answer["id"].is_number() && !(answer["result"].is_null() && answer["error"].is_null()),
                    "{answer}"
                );
            }
            other => panic!("{other}: {}", answer.text),
        }
    }
    // It lives, was never killed, and serves as ever.
    let killed = group.read("memory.oom_control") + &group.read("memory.events");
    let kills = killed.lines().filter_map(|line| line.strip_prefix("oom_kill ")).collect::<Vec<_>>();
    assert!(kills.iter().all(|count| *count == "0") && process::runs(world.pid()), "{killed}");
    let answer = clients[0].call("who_mcp_up", "{}").await;
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    eprintln!(
        "64 MiB: {shed} of {} calls were shed, {} KiB resident after it",
        calls.len() + results.len(),
        process::rss(world.pid())
    );
}

#[tokio::test]
async fn fault_106_with_a_tenth_of_a_core_probes_are_answered_in_time_cgroups_v1() {
    let limits = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "10000")];
    match Group::v1("cpu", &limits) {
        Ok(group) => slowed(&group).await,
        Err(why) => name("fault_106_with_a_tenth_of_a_core_probes_are_answered_in_time_cgroups_v1", &why),
    }
}

#[tokio::test]
async fn fault_106_with_a_tenth_of_a_core_probes_are_answered_in_time_cgroups_v2() {
    match Group::v2("cpu", &[("cpu.max", "10000 100000")]) {
        Ok(group) => slowed(&group).await,
        Err(why) => name("fault_106_with_a_tenth_of_a_core_probes_are_answered_in_time_cgroups_v2", &why),
    }
}

async fn slowed(group: &Group) {
    let up = Fake::http(Script::default());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let clients = join((0..16).map(|_| Client::open(&world, "/mcp"))).await;
    group.take(world.pid());
    let (end, mut slowest, mut probes) = (Instant::now() + Duration::from_secs(5), Duration::ZERO, 0);
    let calls = join(clients.iter().map(async |client| {
        let mut answered = 0;
        while Instant::now() < end {
            let answer = client.call("who_mcp_up", "{}").await;
            assert_eq!(answer["result"]["content"][0]["text"], "here", "no deadline is met early: {answer}");
            answered += 1;
        }
        answered
    }));
    let probing = async {
        while Instant::now() < end {
            let began = Instant::now();
            assert_eq!(world.admin("/livez").await.0, 200);
            slowest = slowest.max(began.elapsed());
            probes += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let (calls, ()) = tokio::join!(calls, probing);
    eprintln!(
        "a tenth of a core: {} calls answered, {probes} probes, the slowest after {slowest:?}",
        calls.iter().sum::<usize>()
    );
    assert!(slowest <= Duration::from_secs(1), "{slowest:?}");
    assert_eq!(up.seen_of("initialize").len(), 1, "and no connection was thought lost");
}
