//! Row 114: nobody is there at the start.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::{Client, Fake, Script, World, entries, file, refused_port, until};

#[tokio::test]
async fn fault_114_with_all_servers_down_it_is_ready_and_recovers() {
    let ups = [Fake::http(Script::default()), Fake::http(Script::default())];
    ups[0].leave().await;
    ups[1].leave().await;
    ups[1].fall_silent();
    let (_socket, refused) = refused_port();
    let crashes = r#"{"command": "false"}"#.to_owned();
    let servers = [
        ("refuses", ups[0].entry()),
        ("silent", ups[1].entry_with(r#", "connectTimeout": "1s""#)),
        ("gone", refused),
        ("crashes", crashes),
    ];
    let began = Instant::now();
    let world = World::start(&file("reconnectInterval: 1s", &entries(&servers))).await;
    assert_eq!(world.admin("/readyz").await.0, 200, "not the servers' health");
    let world = world.ready().await;
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(5), "{took:?}");
    let client = Client::open(&world, "/mcp").await;
    assert!(client.tools().await.is_empty());
    for name in ["refuses", "silent", "gone", "crashes"] {
        let answer = client.call(&format!("who_mcp_{name}"), "{}").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains(name), "{answer}");
    }
    ups[0].back();
    ups[1].back();
    for name in ["refuses", "silent"] {
        until(name, async || {
            let answer = client.call(&format!("who_mcp_{name}"), "{}").await;
            (answer["result"]["content"][0]["text"] == "here").then_some(())
        })
        .await;
    }
    assert_eq!(client.tools().await, ["who_mcp_refuses", "who_mcp_silent"]);
    eprintln!("started after {took:?} with every server down");
}
