//! Section B: what clients say, as JSON-RPC and MCP. Rows that older tests show are named in `tests/e2e`.

mod form;
mod names;
mod state;

use crate::support::{Client, Fake, Script, World, entries, file};

/// A world of one server, `up`, and a client of it.
async fn one(script: Script) -> (World, Fake, Client) {
    let up = Fake::http(script);
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    (world, up, client)
}

/// Whoever has nothing to do with what the test does: another client, whose call is answered as ever.
async fn others_notice_nothing(world: &World, tool: &str) {
    let other = Client::open(world, "/mcp").await;
    let answer = other.call(tool, "{}").await;
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
}
