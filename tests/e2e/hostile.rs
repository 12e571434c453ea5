//! What a hostile trial found: one peer or file must not stop everybody.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Client, Fake, Script, World, entries, file, median, process, until};

/// How quick everything else must stay: far above what a call takes, far below what the faults cost.
const QUICK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn fault_089_children_that_flood_their_streams_slow_nobody_down() {
    let up = Fake::http(Script::default());
    let shell = |script: &str| format!(r#"{{"command": "sh", "args": ["-c", {script:?}]}}"#);
    let servers = [
        ("up", up.entry()),
        ("output", shell("yes")),
        ("errors", shell("yes >&2")),
        ("control", shell(r"yes $(printf '\001') >&2")),
    ];
    let mut world = World::start(&file("firstListWait: 500ms", &entries(&servers))).await;
    let client = Client::open(&world, "/mcp").await;
    until("it is listed", async || client.tools().await.contains(&"who_mcp_up".to_owned()).then_some(()))
        .await;
    let mut times = Vec::new();
    for _ in 0..100 {
        let started = tokio::time::Instant::now();
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
        assert_eq!(world.admin("/livez").await.0, 200);
        times.push(started.elapsed());
    }
    eprintln!(
        "a call and a probe beside three floods: median {:?}, slowest {:?}",
        median(times.clone()),
        times.iter().max()
    );
    assert!(median(times) < QUICK);
    let children = process::children(world.pid());
    world.signal(Signal::SIGTERM);
    assert!(world.ended(Duration::from_secs(10)).await.success());
    assert!(!children.into_iter().any(process::runs), "no flood outlives us");
}

#[tokio::test]
async fn a_pipe_in_place_of_the_file_is_refused_and_stops_nothing() {
    let up = Fake::http(Script::default());
    let mut world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    std::fs::remove_file(world.mount.file()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(world.mount.file()).status().unwrap().success());
    world.logged("not a regular file").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    world.signal(Signal::SIGTERM);
    assert!(world.ended(Duration::from_secs(10)).await.success());
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_comes() {
    let world = World::start(&file("", &entries(&[]))).await;
    let address = world.url("").trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(Duration::from_secs(5), socket.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_connection_that_says_nothing_ends() {
    let world = World::start(&file("", &entries(&[]))).await;
    let address = world.url("").trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let read = timeout(Duration::from_secs(20), socket.read(&mut [0])).await;
    assert_eq!(read.unwrap().unwrap(), 0, "closed by us, after the time that headers may take");
}
