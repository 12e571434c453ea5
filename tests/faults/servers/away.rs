//! Servers that cannot be reached.

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::support::{Client, Fake, Relay, Script, Weather, World, entries, file, join, socket, within};

const INTERVAL: Duration = Duration::from_secs(1);

/// A port whose packets are dropped: its queue is full, and nobody takes anything out of it.
struct Dropping {
    listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Dropping {
    async fn new() -> Self {
        let listener = socket(([127, 0, 0, 1], 0).into()).listen(0).unwrap();
        let (address, mut queued) = (listener.local_addr().unwrap(), Vec::new());
        while let Ok(connected) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
            queued.push(connected.unwrap());
        }
        Self { listener, _queued: queued }
    }

    fn entry(&self) -> String {
        format!(r#"{{"url": "http://{}/mcp"}}"#, self.listener.local_addr().unwrap())
    }
}

/// Calls a tool of each of these servers, and checks that all are told so quickly.
async fn stubs(client: &Client, names: &[&str], limit: Duration) -> usize {
    let calls = names.iter().map(|name| async move {
        let (tool, started) = (format!("who_mcp_{name}"), Instant::now());
        let answer = client.call(&tool, "{}").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let after = started.elapsed();
        assert!(after < limit, "{name} took {after:?}");
    });
    join(calls).await.len()
}

#[tokio::test]
async fn fault_069_servers_out_of_reach_cost_one_attempt_per_interval() {
    let refusing = Fake::http(Script::default());
    refusing.leave().await;
    let (dropping, up) = (Dropping::new().await, Fake::http(Script::default()));
    let closing = Relay::to(&up.entry());
    closing.weather(|weather| weather.closed = true);
    let names = ["refusing", "dropping", "unrouted", "closing"];
    let servers = [
        ("refusing", refusing.entry()),
        ("dropping", dropping.entry()),
        ("unrouted", r#"{"url": "http://255.255.255.255:9/mcp"}"#.into()),
        ("closing", closing.entry("")),
        ("up", up.entry()),
    ];
    let limits = "reconnectInterval: 1s, firstListWait: 100ms";
    let world = World::start(&file(limits, &entries(&servers))).await;
    let client = Client::open(&world, "/mcp").await;
    let (began, mut calls) = (Instant::now(), 0);
    // The first ones wait for a connection that is being made.
    calls += stubs(&client, &names, Duration::from_millis(3500)).await;
    let first = closing.accepted();
    while began.elapsed() < INTERVAL * 6 {
        let (told, here) = tokio::join!(
            stubs(&client, &names, Duration::from_millis(3500)),
            client.call("who_mcp_up", "{}")
        );
        assert_eq!(here["result"]["content"][0]["text"], "here", "{here}");
        calls += told;
    }
    let most = began.elapsed().as_secs_f64() / INTERVAL.as_secs_f64() + 2.0;
    for name in names {
        let series = format!(r#"trunkline_upstream_reconnects_total{{reason="lost",server="{name}"}}"#);
        let attempts = world.metric(&series).await;
        assert!((1.0..=most).contains(&attempts), "{name} was tried {attempts} times");
        let status = world.server(name).await;
        assert!(status["reason"].as_str().is_some_and(|why| !why.is_empty()), "{status}");
    }
    eprintln!(
        "{calls} calls of servers out of reach; connections to one of them: {first}, then {}",
        closing.accepted()
    );
    assert!(calls > 100);
    closing.weather(|weather| *weather = Weather::default());
    within(INTERVAL * 3, "it is back", async || {
        let answer = client.call("who_mcp_closing", "{}").await;
        (answer["result"]["content"][0]["text"] == "here").then_some(())
    })
    .await;
}
