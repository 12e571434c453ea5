//! Row 97: settings that do not work. The server goes on with the old ones until they do.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{LAST, TAKEN, said, save};
use crate::support::{Client, Fake, Reply, Script, World, entries, file, refused_port, text, until};

const HELD: &str = r#"trunkline_upstream_settings_held_back{server="up"}"#;
const UP: &str = r#"trunkline_upstream_up{server="up"}"#;

/// A server that says who it is.
fn named(name: &'static str) -> Script {
    Script { sessions: true, ..Script::answering(move |_| Reply::Result(text(name))) }
}

fn config(up: &str, beside: &Fake) -> String {
    file(
        "reconnectInterval: 1s, firstListWait: 1s",
        &entries(&[("up", up.into()), ("beside", beside.entry())]),
    )
}

#[tokio::test]
async fn fault_097_settings_that_do_not_work_leave_the_old_ones_in_force() {
    let (old, new, beside) =
        (Fake::http(named("old")), Fake::http(named("new")), Fake::http(named("beside")));
    new.leave().await; // refuses connections
    let mut world = World::start(&config(&old.entry(), &beside)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    save(&world, &config(&new.entry(), &beside)).await;
    world.logged("the new settings do not work").await;
    for _ in 0..20 {
        assert_eq!(said(&client, "who_mcp_up").await, "old");
    }
    let status = world.server("up").await;
    let problem = status["settingsProblem"].as_str().unwrap().to_owned();
    assert!(problem.contains("do not work") && problem.contains("the old ones go on"), "{problem}");
    assert_eq!(
        (&status["state"], world.metric(UP).await, world.metric(HELD).await),
        (&"ready".into(), 1.0, 1.0)
    );
    assert!((world.metric(LAST).await - 1.0).abs() < 0.1, "the file itself is in force");
    // Tried on by itself, and in force once it works.
    let began = Instant::now();
    new.back();
    until("the new one answers", async || (said(&client, "who_mcp_up").await == "new").then_some(())).await;
    eprintln!("in force {:?} after the new place was there", began.elapsed());
    until("the old one is let go", async || (old.sessions() == 0).then_some(())).await;
    let status = world.server("up").await;
    assert!(status["settingsProblem"].is_null() && status["state"] == "ready", "{status}");
    assert!((world.metric(HELD).await, world.metric(UP).await) == (0.0, 1.0));
    assert_eq!(said(&client, "who_mcp_beside").await, "beside");
    assert_eq!(beside.seen_of("initialize").len(), 1 + 1, "the kept link and the session's own, as before");
}

#[tokio::test]
async fn fault_097_back_to_what_runs_needs_no_new_link() {
    let (old, beside) = (Fake::http(Script::default()), Fake::http(Script::default()));
    let (_socket, away) = refused_port();
    let world = World::start(&config(&old.entry(), &beside)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    save(&world, &config(&away, &beside)).await;
    assert!(world.server("up").await["settingsProblem"].is_string());
    // Other texts of settings that are held back: they still are, and the texts are new.
    save(&world, &config(&away.replace('}', r#", "title": "Another"}"#), &beside)).await;
    let status = world.server("up").await;
    assert!(status["settingsProblem"].is_string() && status["title"] == "Another", "{status}");
    assert_eq!(said(&client, "who_mcp_up").await, "here");
    save(&world, &config(&old.entry(), &beside)).await;
    let status = world.server("up").await;
    assert!(status["settingsProblem"].is_null() && status["title"].is_null(), "{status}");
    assert!(world.metric(HELD).await.abs() < 0.1);
    assert_eq!(said(&client, "who_mcp_up").await, "here");
    assert_eq!((old.seen_of("initialize").len(), beside.seen_of("initialize").len()), (1, 1));
}

#[tokio::test]
async fn fault_097_where_neither_works_the_new_settings_are_in_force() {
    let (old, beside) =
        (Fake::http(Script { tells: true, ..Script::default() }), Fake::http(Script::default()));
    let (_socket, away) = refused_port();
    let world = World::start(&config(&old.entry(), &beside)).await.ready().await;
    old.saw(|seen| seen.kind == "GET").await;
    old.leave().await;
    until("it is noticed", async || (world.server("up").await["state"] == "down").then_some(())).await;
    save(&world, &config(&away, &beside)).await;
    assert!(world.server("up").await["settingsProblem"].is_null());
    old.back();
    let new = Fake::http(named("new"));
    save(&world, &config(&new.entry(), &beside)).await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(said(&client, "who_mcp_up").await, "new");
}

#[tokio::test]
async fn fault_097_a_slow_successor_holds_up_nobody() {
    let gate = CancellationToken::new();
    let (old, beside) = (Fake::http(named("old")), Fake::http(Script { tells: true, ..Script::default() }));
    let new = Fake::http(Script { greets_after: Some(gate.clone()), ..named("new") });
    let wait = |up: &Fake, rest: &str| {
        let servers = [("up", up.entry()), ("beside", beside.entry())];
        file("reconnectInterval: 1s, firstListWait: 5s", &(entries(&servers) + rest))
    };
    let world = World::start(&wait(&old, "")).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    beside.saw(|seen| seen.kind == "GET").await;
    let before = world.metric(TAKEN).await;
    world.mount.save(&wait(&new, ""));
    new.saw(|seen| seen.method == "initialize").await;
    let mut stream = client.listen().await;
    let began = Instant::now();
    beside.change(|script| script.tools.push(crate::support::tool("more")));
    beside.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert!(stream.next().await.unwrap().contains("list_changed"));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "what others have is listed while one is waited for: {took:?}");
    assert!(client.tools().await.contains(&"more_mcp_beside".to_owned()));
    assert_eq!(said(&client, "who_mcp_up").await, "old");
    assert!((world.metric(TAKEN).await - before).abs() < 0.1, "it still waits");
    gate.cancel();
    until("the new one answers", async || (said(&client, "who_mcp_up").await == "new").then_some(())).await;
}
