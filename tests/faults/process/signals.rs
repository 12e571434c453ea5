//! Row 104: signals, and standard streams that nobody reads any more.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, timeout};

use crate::support::{
    Client, Fake, Mount, Reply, SOON, Script, World, entries, file, process, program, until,
};

/// A call that will never be answered, and its server's child.
async fn busy(world: &World, up: &Fake) -> (Client, u32) {
    let client = Client::open(world, "/mcp").await;
    (client, up.pid().await)
}

#[tokio::test]
async fn fault_104_a_second_signal_ends_it_at_once() {
    for second in [Signal::SIGTERM, Signal::SIGINT] {
        let up = Fake::stdio(Script::answering(|_| Reply::Stall));
        let mut world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        let (client, pid) = busy(&world, &up).await;
        let call = client.try_send(hyper::Method::POST, client.request("who_mcp_up", "{}"));
        let end = async {
            up.saw(|seen| seen.method == "tools/call").await;
            world.signal(Signal::SIGTERM);
            world.logged("ending").await;
            world.signal(second);
            let told = Instant::now();
            assert_eq!(world.ended(SOON).await.code(), Some(0));
            told.elapsed()
        };
        let (_, took) = tokio::join!(call, end);
        assert!(took < Duration::from_secs(1), "{took:?}");
        until("its child is gone", async || (!process::runs(pid)).then_some(())).await;
        eprintln!("ended {took:?} after the second signal, {second}");
    }
}

/// QUIT is left to the system, which dumps the core where that is allowed: a process that hangs can be looked into.
#[tokio::test]
async fn fault_104_quit_dumps_and_leaves_no_child() {
    let up = Fake::stdio(Script::default());
    let mut world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let (_client, pid) = busy(&world, &up).await;
    world.signal(Signal::SIGQUIT);
    assert_eq!(world.ended(SOON).await.signal(), Some(Signal::SIGQUIT as i32));
    until("its child is gone", async || (!process::runs(pid)).then_some(())).await;
}

#[tokio::test]
async fn fault_104_nobody_reads_what_it_says_and_it_goes_on() {
    let up = Fake::http(Script::default());
    let mount = Mount::new(&file("", &entries(&[("up", up.entry())])));
    let mut child = program()
        .arg("--config")
        .arg(mount.file())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pid = child.id().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = loop {
        let line = timeout(SOON, lines.next_line()).await.unwrap().unwrap().expect("a banner");
        if let Some(url) = line.strip_prefix("trunkline  ") {
            break url.to_owned();
        }
    };
    drop((lines, child.stderr.take()));
    let client = Client::greet(url).await;
    for signal in [Signal::SIGPIPE, Signal::SIGHUP] {
        process::signal(pid, signal);
    }
    // Each of these wants to be logged.
    for n in 0..20 {
        mount.save(&format!("{}# {n}\nlisten: nowhere\n", file("", &entries(&[("up", up.entry())]))));
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    }
    process::signal(pid, Signal::SIGTERM);
    let status = timeout(SOON, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
}
