//! Issue 2: how it starts, and how it ends.

use std::fs;
use std::net::TcpListener;
use std::process::Output;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, timeout};

use crate::support::{
    Client, Fake, Mount, Reply, SOON, Script, World, entries, file, process, program, until,
};

#[tokio::test]
async fn calls_in_flight_finish_before_the_end() {
    let servers = entries(&[("demo", r#"{"command": "self", "args": ["demo-server"]}"#.into())]);
    let mut world = World::start(&file("", &servers)).await.ready().await;
    let (client, left) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow_mcp_demo","arguments":{"seconds":1.6},"_meta":{"progressToken":1}}}"#;
    let (mut stream, mut abandoned) = tokio::join!(client.stream(call), left.stream(call));
    assert!(stream.next().await.unwrap().contains("quarter 1"));
    abandoned.next().await.unwrap();
    drop(abandoned);
    world.signal(Signal::SIGTERM);
    until("readiness fails", async || (world.admin("/readyz").await.0 == 503).then_some(())).await;
    until("nobody new is let in", async || {
        Client::new(world.url("/mcp")).try_send(hyper::Method::POST, "{}").await.err()
    })
    .await;
    let mut last = String::new();
    while let Some(event) = stream.next().await {
        last = event;
    }
    assert!(last.contains("That took 1.6 seconds."), "{last}");
    let answered = Instant::now();
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    eprintln!("a call in flight was answered; ended {:?} after that", answered.elapsed());
}

#[tokio::test]
async fn children_end_when_it_is_killed() {
    let up = Fake::stdio(Script::default());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let pid = up.pid().await;
    process::kill(world.pid());
    until("its child is gone", async || (!process::runs(pid)).then_some(())).await;
}

async fn run(text: &str) -> Output {
    let mount = Mount::new(text);
    let mut program = program();
    let run = program.arg("--config").arg(mount.file()).kill_on_drop(true).output();
    timeout(SOON, run).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn a_bad_configuration_ends_it_with_2_and_every_problem() {
    let text = "listen: nowhere\nlimit: {}\nmcpServers:\n  a: {url: 'ftp://x'}\n  b: {}\n  c: {command: x, env: {A: '${TRUNKLINE_NOT_SET}'}}\n";
    let output = run(text).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    for place in ["config.yaml:1:", "config.yaml:2:1:", "config.yaml:4:", "config.yaml:5:", "config.yaml:6:"]
    {
        assert!(told.contains(place), "{place} is missing in\n{told}");
    }
    let checked = program().arg("--config").arg("/no/such/file.yaml").output().await.unwrap();
    assert_eq!(checked.status.code(), Some(2));
    eprintln!("5 problems told at once, exit 2");
}

#[tokio::test]
async fn a_port_in_use_ends_it_with_1_and_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for key in ["listen", "admin.listen"] {
        let servers = entries(&[]);
        let text = match key {
            "listen" => file("", &servers).replacen("127.0.0.1:0", &address, 1),
            _ => file("", &servers).replacen("{listen: 127.0.0.1:0}", &format!("{{listen: '{address}'}}"), 1),
        };
        let output = run(&text).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(&address) && told.contains(key), "{told}");
    }
}
