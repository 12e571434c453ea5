//! Issue 3: views of the operator's making, and pages.

use serde_json::Value;

use crate::support::{Client, Fake, Script, World, entries, error, file, hello, tool, until};

fn file_with(top: &str, servers: &[(&str, String)]) -> String {
    format!("{top}\n{}", file("", &entries(servers)))
}

#[tokio::test]
async fn a_view_has_its_own_selection_and_names_and_changes_with_the_file() {
    let of =
        |names: &[&str]| Script { tools: names.iter().map(|name| tool(name)).collect(), ..Script::default() };
    let (one, two) = (Fake::http(of(&["read", "write"])), Fake::http(of(&["read"])));
    let servers = [("one", one.entry()), ("two", two.entry())];
    let views =
        r#"views: {dev: {servers: [two, one], tools: {deny: [write]}, naming: prefix, delimiter: "__"}}"#;
    let world = World::start(&file_with(views, &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp/dev").await;
    assert_eq!(client.tools().await, ["two__read", "one__read"]);
    let called = client.call("one__read", "{}").await;
    assert_eq!(called["result"]["content"][0]["text"], "here");
    assert_eq!(one.seen_of("tools/call")[0].params()["name"], "read");
    for hidden in ["one__write", "read_mcp_one", "read"] {
        assert_eq!(client.call(hidden, "{}").await["error"]["code"], -32602, "{hidden}");
    }
    let id = client.headers["mcp-session-id"].to_str().unwrap();
    let elsewhere = Client::new(world.url("/mcp")).with("mcp-session-id", id);
    assert_eq!(elsewhere.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.status, 404);
    let mut stream = client.listen().await;
    let views = "views: {dev: {servers: [one], naming: plain}}";
    world.mount.save(&file_with(views, &servers));
    let told = stream.next().await.unwrap();
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
    assert_eq!(client.tools().await, ["read", "write"]);
    world.mount.save(&file_with("views: {}", &servers));
    until("the view is gone", async || {
        (Client::new(world.url("/mcp/dev")).post(&hello("2025-11-25")).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(client.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.status, 404);
}

#[tokio::test]
async fn lists_come_in_pages_where_the_file_says_so() {
    let tools = ["a", "b", "c", "d", "e"].map(tool).to_vec();
    let server = Fake::http(Script { tools, ..Script::default() });
    let world = World::start(&file_with("pageSize: 2", &[("one", server.entry())])).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let page = async |cursor: &str| {
        let params =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"cursor":{cursor}}}}}"#);
        client.ask(&params).await
    };
    let (mut cursor, mut names) = ("null".to_owned(), vec![]);
    while cursor != "end" {
        let answer: Value = serde_json::from_str(&page(&cursor).await).unwrap();
        let result = &answer["result"];
        let tools = result["tools"].as_array().unwrap();
        assert!((1..=2).contains(&tools.len()), "{answer}");
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = result.get("nextCursor").map_or("end".into(), Value::to_string);
    }
    assert_eq!(names, ["a_mcp_one", "b_mcp_one", "c_mcp_one", "d_mcp_one", "e_mcp_one"]);
    for bad in [r#""""#, r#""garbage""#, "1", "{}"] {
        assert_eq!(error(&page(bad).await), Some(-32602), "{bad}");
    }
    for (method, member) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let answer = client.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#)).await;
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{member}":[]}}}}"#));
    }
}
