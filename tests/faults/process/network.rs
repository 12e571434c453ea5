//! Row 92: a bad network between us and a server.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::{
    Client, Fake, Relay, Reply, Script, World, entries, file, own_network, process, run, skip, text, within,
};

const TEST: &str = "fault_092_packets_are_lost_and_then_all_of_them";

/// Drops what goes to or comes from a port, as `what` says.
fn drop_of(port: &str, what: &str) -> Result<(), String> {
    run("nft add table ip test")?;
    run("nft add chain ip test out { type filter hook output priority 0 ; }")?;
    run("nft flush chain ip test out")?;
    for way in ["sport", "dport"] {
        run(&format!("nft add rule ip test out tcp {way} {port} {what}"))?;
    }
    Ok(())
}

fn port(entry: &str) -> String {
    entry.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn fault_092_packets_are_lost_and_then_all_of_them() {
    let ready = own_network("10.77.9.1").and_then(|()| drop_of("9", "numgen random mod 100 < 30 drop"));
    if let Err(why) = ready {
        return skip(TEST, &why);
    }
    let (up, beside) =
        (Fake::http(Script { tells: true, ..Script::default() }), Fake::http(Script::default()));
    let port = port(&up.entry());
    let entry = up.entry_with(r#", "timeout": "5s", "connectTimeout": "5s""#);
    let servers = entries(&[("up", entry), ("beside", beside.entry())]);
    let world = World::start(&file("reconnectInterval: 1s", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let fds = process::fds(world.pid());
    drop_of(&port, "numgen random mod 100 < 30 drop").unwrap();
    let (mut here, mut slowest_beside) = (0, Duration::ZERO);
    for _ in 0..20 {
        let answer = client.call("who_mcp_up", "{}").await;
        here += usize::from(answer["result"]["content"][0]["text"] == "here");
        let began = Instant::now();
        assert_eq!(client.call("who_mcp_beside", "{}").await["result"]["content"][0]["text"], "here");
        slowest_beside = slowest_beside.max(began.elapsed());
    }
    assert!(here >= 15, "the network makes up for what is lost: {here} of 20");
    assert!(slowest_beside < Duration::from_secs(1), "{slowest_beside:?}");
    // The link is down for longer than any timeout of this server.
    drop_of(&port, "drop").unwrap();
    let down = Instant::now();
    while down.elapsed() < Duration::from_secs(12) {
        let answer = client.call("who_mcp_up", "{}").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    run("nft flush chain ip test out").unwrap();
    let back = Instant::now();
    within(Duration::from_secs(15), "it has recovered", async || {
        let answer = client.call("who_mcp_up", "{}").await;
        (answer["result"]["content"][0]["text"] == "here").then_some(())
    })
    .await;
    eprintln!(
        "30 % lost: {here} of 20 calls went through; usable {:?} after the link was up",
        back.elapsed()
    );
    let now = crate::support::standing("descriptors", || process::fds(world.pid())).await;
    assert!(now <= fds + 4, "{fds} -> {now} descriptors");
}

#[tokio::test]
async fn fault_092_a_thin_line_is_slow_and_no_more() {
    let long = "x".repeat(64 << 10);
    let up = Fake::http(Script::answering(move |_| Reply::Result(text(&long))));
    let beside = Fake::http(Script::default());
    let relay = Relay::to(&up.entry());
    relay.weather(|weather| weather.rate = Some(256_000 / 8));
    let servers = entries(&[("up", relay.entry("")), ("beside", beside.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let began = Instant::now();
    let (slow, quick) = tokio::join!(client.call("who_mcp_up", "{}"), async {
        let client = Client::open(&world, "/mcp").await;
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(client.call("who_mcp_beside", "{}").await["result"]["content"][0]["text"], "here");
        }
        began.elapsed()
    });
    let took = began.elapsed();
    assert_eq!(slow["result"]["content"][0]["text"].as_str().unwrap().len(), 64 << 10);
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(8),
        "64 KiB at 256 kbit/s: {took:?}"
    );
    assert!(quick < Duration::from_secs(1), "{quick:?}");
}
