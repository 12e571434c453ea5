//! `catalogCache`: what was last known outlives the process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use super::keys_auth::{ALICE, open};
use crate::support::{Client, Fake, Mount, SOON, Script, World, entries, file, tool, until};

fn configured(up: &Fake, more: &str) -> String {
    format!(
        "catalogCache: kept\n{}",
        file("reconnectInterval: 300ms", &entries(&[("up", up.entry_with(more))]))
    )
}

fn kept(mount: &Mount) -> PathBuf {
    mount.path().join("kept/up.catalog")
}

/// Ends it, and starts another one in its place.
async fn again(mut world: World, text: &str) -> World {
    world.signal(Signal::SIGTERM);
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    let mount = Mount::new(text);
    for name in ["up.catalog", "session.key"] {
        fs::create_dir_all(mount.path().join("kept")).unwrap();
        drop(fs::copy(world.mount.path().join("kept").join(name), mount.path().join("kept").join(name)));
    }
    World::start_in(mount).await
}

fn server() -> Fake {
    Fake::http(Script {
        prompts: vec![r#"{"name":"p"}"#.into()],
        resources: vec![r#"{"uri":"a:b","name":"r"}"#.into()],
        templates: vec![r#"{"uriTemplate":"a:{b}","name":"t"}"#.into()],
        capabilities: Some(r#"{"tools":{},"prompts":{},"resources":{}}"#.into()),
        ..Script::default()
    })
}

#[tokio::test]
async fn tools_of_a_server_that_is_away_are_listed_after_a_restart() {
    let up = server();
    let text = configured(&up, "");
    let world = World::start(&text).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let lists = async |client: &Client| {
        let mut all = Vec::new();
        for (method, key) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            all.push(client.json(method, "{}").await["result"][key].to_string());
        }
        all
    };
    let before = lists(&client).await;
    assert!(before.iter().all(|list| list.len() > 2), "{before:?}");
    until("it is kept", async || kept(&world.mount).exists().then_some(())).await;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(kept(&world.mount)), 0o600);
    assert_eq!(mode(world.mount.path().join("kept/session.key")), 0o600);
    up.leave().await;
    let world = again(world, &text).await;
    let moved = Client::new(world.url("/mcp"))
        .with("mcp-session-id", client.headers["mcp-session-id"].to_str().unwrap())
        .with("mcp-protocol-version", "2025-11-25");
    assert_eq!(lists(&moved).await, before, "at once, and in the same session");
    let answer = moved.call("who_mcp_up", "{}").await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(world.server("up").await["tools"], 1);
    // It comes back with something else.
    up.change(|script| script.tools = vec![tool("who"), tool("more")]);
    let written = fs::read(kept(&world.mount)).unwrap();
    up.back();
    until("the new list is there", async || (moved.tools().await.len() == 2).then_some(())).await;
    until("and kept", async || (fs::read(kept(&world.mount)).unwrap() != written).then_some(())).await;
    // A server that is no longer configured leaves nothing behind.
    world.mount.save(&format!("catalogCache: kept\n{}", file("", "  {}")));
    until("its file is gone", async || (!kept(&world.mount).exists()).then_some(())).await;
}

#[tokio::test]
async fn fault_cache_that_is_damaged_is_set_aside_and_never_used() {
    let up = server();
    let text = configured(&up, "");
    let world = World::start(&text).await.ready().await;
    until("it is kept", async || kept(&world.mount).exists().then_some(())).await;
    let good = fs::read_to_string(kept(&world.mount)).unwrap();
    drop(world);
    up.leave().await;
    for bad in [
        good.replace("who", "why"),
        good.replace("-catalog-1", "-catalog-2"),
        good.chars().take(good.len() / 2).collect(),
        String::new(),
        "\u{0}\n".to_owned(),
    ] {
        let mount = Mount::new(&text);
        fs::create_dir(mount.path().join("kept")).unwrap();
        fs::write(kept(&mount), &bad).unwrap();
        let mut world = World::start_in(mount).await.ready().await;
        world.logged("set aside").await;
        assert!(Client::open(&world, "/mcp").await.tools().await.is_empty());
        assert_eq!(fs::read_to_string(world.mount.path().join("kept/up.damaged")).unwrap(), bad);
    }
    // Of another server under the same name nothing is taken.
    let other = server();
    other.leave().await;
    let mount = Mount::new(&configured(&other, ""));
    fs::create_dir(mount.path().join("kept")).unwrap();
    fs::write(kept(&mount), &good).unwrap();
    let world = World::start_in(mount).await.ready().await;
    assert!(Client::open(&world, "/mcp").await.tools().await.is_empty());
    // A folder that cannot be had is told and costs nothing else.
    let mut world = World::start(&text.replace("kept", "/dev/null/kept")).await.ready().await;
    world.logged("`catalogCache` cannot be used").await;
    up.back();
    let client = Client::open(&world, "/mcp").await;
    until("it works", async || (client.tools().await.len() == 1).then_some(())).await;
}

#[tokio::test]
async fn what_one_caller_has_listed_is_not_kept() {
    let up = server();
    let more = r#", "headers": {"x-user": "{{principal.sub}}"}"#;
    let text = format!("auth: {{keys: {{alice: {ALICE}}}}}\n{}", configured(&up, more));
    let mut world = World::start(&text).await.ready().await;
    let alice = open(&world, "/mcp", ALICE).await;
    assert_eq!(alice.tools().await, ["who_mcp_up"]);
    world.signal(Signal::SIGTERM);
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    let names: Vec<_> = fs::read_dir(world.mount.path().join("kept")).unwrap().collect();
    let names: Vec<_> = names.into_iter().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["session.key"]);
}
