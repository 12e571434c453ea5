//! Issue 2: many dead servers.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::support::{
    Client, Fake, Mount, Reply, Script, World, closest, entries, file, join, median, refused_port, scaled,
};

const INTERVAL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn forty_dead_servers_cost_little() {
    let window = Duration::from_secs(scaled(5, 60).try_into().unwrap());
    let (refused, mut servers): (Vec<_>, Vec<_>) = (0..20).map(|_| refused_port()).unzip();
    servers.extend((0..8).map(|n| format!(r#"{{"command": "no-such-program-{n}"}}"#)));
    servers
        .extend((0..4).map(|_| {
            r#"{"command": "sh", "args": ["-c", "echo broken >&2; echo more >&2; exit 3"]}"#.into()
        }));
    let broken: Vec<_> = (0..7).map(|_| Fake::http(failing())).collect();
    servers.extend(broken.iter().map(Fake::entry));
    let silent = Fake::http(Script { refusal: Some(Reply::Stall), ..Script::default() });
    servers.push(silent.entry());
    assert_eq!(servers.len(), 40);
    let alive = Fake::http(Script::default());
    servers.push(alive.entry());
    let names: Vec<_> = (0..servers.len()).map(|n| format!("s{n}")).collect();
    let servers: Vec<_> = names.iter().map(String::as_str).zip(servers).collect();
    let limits = "reconnectInterval: 1s, firstListWait: 1s";
    let world = World::start_in(Mount::new(&file(limits, &entries(&servers)))).await.ready().await;

    let client = Client::open(&world, "/mcp").await;
    let (lines, began) = (world.log().len(), Instant::now());
    let mut times = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        assert_eq!(client.tools().await, ["who_mcp_s40"]);
        times.push(started.elapsed());
    }
    let (middle, slowest) = (median(times.clone()), times.into_iter().max().unwrap());
    assert!(middle < Duration::from_millis(5), "{middle:?}");

    let mut calls = 0;
    while began.elapsed() < window {
        let answers = join((0..40).map(|n| unknown(&client, n))).await;
        for answer in answers {
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            calls += 1;
        }
        assert_eq!(client.call("who_mcp_s40", "{}").await["result"]["content"][0]["text"], "here");
    }
    sleep_until(began + window).await;
    // A call makes a line of its own by design.
    let grown: Vec<_> =
        world.log().into_iter().skip(lines).filter(|line| line["message"] != "call").collect();
    let most = window.as_secs_f64() / INTERVAL.as_secs_f64() + 2.0;
    for fake in broken.iter().chain([&silent]) {
        let attempts: Vec<_> = fake.seen_of("initialize").iter().filter_map(|seen| seen.at).collect();
        assert!(attempts.len() >= 2 || std::ptr::eq(fake, &raw const silent), "{attempts:?}");
        assert!(closest(&attempts) >= INTERVAL * 3 / 4, "{:?}", closest(&attempts));
    }
    let (mut all, metrics) = (0.0, world.admin("/metrics").await.1);
    for n in 0..40 {
        let series = format!("trunkline_upstream_reconnects_total{{reason=\"lost\",server=\"s{n}\"}} ");
        let tried: f64 =
            metrics.lines().find_map(|line| line.strip_prefix(&series)).map_or(0.0, |n| n.parse().unwrap());
        assert!(tried <= most, "s{n} was tried {tried} times in {window:?}");
        all += tried;
    }
    let per_minute = f64::from(u32::try_from(grown.len()).unwrap()) * 60.0 / window.as_secs_f64();
    eprintln!(
        "tools/list: median {middle:?}, slowest {slowest:?}; {all} attempts of 40 servers under {calls} calls in \
         {window:?} (interval {INTERVAL:?}); {} log lines, {per_minute} a minute",
        grown.len()
    );
    assert!(per_minute < 50.0, "{grown:#?}");
    drop(refused);
}

fn failing() -> Script {
    Script { refusal: Some(Reply::Status(500, vec![])), ..Script::default() }
}

async fn unknown(client: &Client, n: usize) -> serde_json::Value {
    client.call(&format!("any_mcp_s{n}"), "{}").await
}
