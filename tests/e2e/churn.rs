//! Issue 2: nothing is left behind, however often things come and go.

use hyper::Method;

use crate::support::{
    Client, Fake, Inside, Reply, Script, Seen, Step, World, entries, file, process, scaled, standing, until,
};

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    fds: usize,
    children: usize,
    threads: usize,
}

fn held(world: &World) -> Held {
    let pid = world.pid();
    Held { fds: process::fds(pid), children: process::children(pid).len(), threads: process::threads(pid) }
}

/// Opens a session, uses it and ends it, `times` times.
async fn sessions(url: &str, times: usize) {
    let first = Client::greet(url.to_owned()).await; // its connection serves them all
    for _ in 0..times {
        let hello = crate::support::hello("2025-11-25");
        let answer = first.with("mcp-session-id", "").with("mcp-protocol-version", "").post(&hello).await;
        let client = first.with("mcp-session-id", answer.headers["mcp-session-id"].to_str().unwrap());
        drop(client.listen().await);
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
        assert_eq!(client.whole(Method::DELETE, "").await.status, 204);
    }
    assert_eq!(first.whole(Method::DELETE, "").await.status, 204);
}

#[tokio::test]
async fn sessions_leave_nothing_behind() {
    let times = scaled(1_000, 10_000);
    let up = Fake::http(Script::default());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let url = world.url("/mcp");
    sessions(&url, times).await;
    // How many connections to `up` wait in a pool depends on what happened at the same time.
    let held = |world: &World| Held { fds: held(world).fds - up.connections(), ..held(world) };
    let before = standing("what it holds", || held(&world)).await;
    let first = process::rss(world.pid());
    sessions(&url, times).await;
    until("what it held is given back", async || (held(&world) == before).then_some(())).await;
    let second = process::rss(world.pid());
    assert!(world.metric("trunkline_sessions").await < 0.5);
    eprintln!("{times} sessions a batch: {before:?} before and after; RSS {first}, then {second} KiB");
    assert!(ratio(first, second) <= 1.05, "{first} KiB, then {second} KiB");
}

#[tokio::test]
async fn restarts_of_a_child_leave_nothing_behind() {
    restarts_leave_nothing_behind(mortal(), "", 1).await;
}

#[tokio::test]
async fn restarts_of_the_older_transports_stream_leave_nothing_behind() {
    restarts_leave_nothing_behind(Fake::sse(dying()), r#", "scope": "shared""#, 0).await;
}

async fn restarts_leave_nothing_behind(up: Fake, more: &str, children: usize) {
    let times = scaled(100, 1_000);
    let limits = "reconnectInterval: 1ms";
    let world = World::start(&file(limits, &entries(&[("up", up.entry_with(more))]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    restarts(&client, &up, times).await;
    // How many connections wait in a pool depends on what happened at the same time.
    let held = |world: &World| Held { fds: held(world).fds - up.connections(), ..held(world) };
    let before = standing("what it holds", || held(&world)).await;
    let first = process::rss(world.pid());
    restarts(&client, &up, times).await;
    until("what it held is given back", async || (held(&world) == before).then_some(())).await;
    let second = process::rss(world.pid());
    assert_eq!(before.children, children);
    eprintln!("{times} restarts a batch: {before:?} before and after; RSS {first}, then {second} KiB");
    assert!(ratio(first, second) <= 1.05, "{first} KiB, then {second} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_end_with_what_they_were_for() {
    let (up, child) = (Fake::http(Script { tells: true, sessions: true, ..Script::default() }), mortal());
    let servers = entries(&[("up", up.entry()), ("child", child.entry())]);
    // Idle connections of clients are tasks, too, for six times as long as a head may take.
    let inside = Inside::start(&file("reconnectInterval: 1ms, headerTimeout: 500ms", &servers));
    let client = Client::greet(inside.url("/mcp")).await;
    up.saw(|seen| seen.kind == "GET").await;
    let work = async |times: usize| {
        sessions(&inside.url("/mcp"), times).await;
        restarts_named(&client, &child, times / 10 + 1, "die_mcp_child").await;
        up.forget(); // and a session of ours
        client.call("who_mcp_up", "{}").await;
    };
    work(20).await;
    // Each connection in a pool is a task.
    let now = || inside.tasks() - up.connections();
    let before = standing("the number of tasks", now).await;
    work(scaled(200, 2_000)).await;
    // While a link has unused connections, one more task waits to close them.
    let after = until("tasks end", async || Some(now()).filter(|now| *now <= before + 1)).await;
    eprintln!(
        "{before} tasks before, {after} after {} sessions and {} restarts",
        scaled(200, 2_000),
        scaled(21, 201)
    );
}

/// A child that dies at every call.
fn mortal() -> Fake {
    Fake::stdio(dying())
}

fn dying() -> Script {
    let tools = vec![crate::support::tool("die")];
    Script { tools, ..Script::answering(|_| Reply::Steps(vec![Step::Cut])) }
}

async fn restarts(client: &Client, up: &Fake, times: usize) {
    restarts_named(client, up, times, "die_mcp_up").await;
}

/// Calls until the child, or a server's stream, has been started `times` times more and is ready again.
async fn restarts_named(client: &Client, up: &Fake, times: usize, tool: &str) {
    let is_start = |seen: &Seen| seen.kind == "START" || seen.kind == "GET";
    let starts = || up.seen().into_iter().filter(is_start).count();
    let until_started = starts() + times;
    while starts() < until_started {
        let answer = client.call(tool, "{}").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    until("it is ready again", async || {
        let seen = up.seen();
        let last = |what: &dyn Fn(&Seen) -> bool| seen.iter().rposition(what);
        (last(&|seen| seen.method == "tools/list") > last(&is_start)).then_some(())
    })
    .await;
}

fn ratio(first: usize, second: usize) -> f64 {
    let kib = |n: usize| f64::from(u32::try_from(n).unwrap());
    kib(second) / kib(first)
}
