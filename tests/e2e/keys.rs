//! `sessionKeys`: what clients carry outlives the process, and keys change without losing anybody.

use std::fs;

use hyper::Method;

use crate::support::{Client, Fake, Mount, Script, World, entries, file, until};

fn key(letter: &str) -> String {
    letter.repeat(64)
}

/// A folder with a configuration and a file of these keys.
fn mount(up: &Fake, keys: &[&str]) -> Mount {
    let mount = Mount::new(&format!("sessionKeys: keys\n{}", file("", &entries(&[("up", up.entry())]))));
    save(&mount, keys);
    mount
}

fn save(mount: &Mount, keys: &[&str]) {
    let text: String = keys.iter().map(|letter| key(letter) + "\n").collect();
    fs::write(mount.path().join("keys"), text).unwrap();
}

/// A client of `world` in the session that `client` has elsewhere.
fn moved(client: &Client, world: &World) -> Client {
    let new = Client::new(world.url("/mcp"));
    let id = client.headers["mcp-session-id"].to_str().unwrap();
    new.with("mcp-session-id", id).with("mcp-protocol-version", "2025-11-25")
}

async fn status(client: &Client) -> u16 {
    client.post(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#).await.status
}

#[tokio::test]
async fn sessions_move_between_processes_that_share_a_key() {
    let up = Fake::http(Script::default());
    let start = async |keys: &[&str]| World::start_in(mount(&up, keys)).await.ready().await;
    let (one, other, stranger) = (start(&["a"]).await, start(&["b", "a"]).await, start(&["c"]).await);
    let client = Client::open(&one, "/mcp").await;
    assert_eq!((status(&moved(&client, &other)).await, status(&moved(&client, &stranger)).await), (200, 404));
    // `one` does not know the key yet that `other` seals with.
    let newer = Client::open(&other, "/mcp").await;
    assert_eq!(status(&moved(&newer, &one)).await, 404);
    save(&one.mount, &["a", "b"]);
    until("the other key is known", async || (status(&moved(&newer, &one)).await == 200).then_some(())).await;
    assert_eq!(moved(&newer, &one).whole(Method::DELETE, "").await.status, 204);
    // A session that nobody has in memory ends with its key.
    let third = Client::open(&one, "/mcp").await;
    save(&other.mount, &["b"]);
    let forgotten = async || {
        let fourth = Client::open(&one, "/mcp").await;
        (status(&moved(&fourth, &other)).await == 404).then_some(())
    };
    until("the key is gone", forgotten).await;
    assert_eq!(status(&third).await, 200);
}

#[tokio::test]
async fn a_file_without_keys_changes_nothing() {
    let up = Fake::http(Script::default());
    let mut world = World::start_in(mount(&up, &["a"])).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    fs::write(world.mount.path().join("keys"), "s3cret\n").unwrap();
    world.logged("the configuration is not taken over").await;
    assert!(!format!("{:?}", world.log()).contains("s3cret"));
    let other = World::start_in(mount(&up, &["a"])).await.ready().await;
    assert_eq!(status(&moved(&client, &other)).await, 200);
}
