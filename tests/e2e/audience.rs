//! PROTOCOL.md §1.4, §1.12, §1.16, §3.2, §3.10 and §3.11: what of lists depends on who reads them, and for how long they
//! hold.

use serde_json::{Value, json};

use crate::support::{Client, Fake, Modern, Reply, Script, World, entries, file, text, tool};

const UI: &str =
    r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;

async fn world(servers: &[(&str, &Fake)]) -> World {
    let servers: Vec<_> = servers.iter().map(|(name, fake)| (*name, fake.entry())).collect();
    World::start(&file("", &entries(&servers))).await.ready().await
}

/// The tools of a `tools/list` answer.
fn tools(answer: &Value) -> Vec<Value> {
    answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no list: {answer}")).clone()
}

fn names(answer: &Value) -> Vec<String> {
    tools(answer).iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A server of 2026-07-28 alone with these tools.
fn modern(tools: Vec<String>) -> Script {
    Script { tools, discovery: Some(r#"{"tools":{"listChanged":true}}"#.into()), ..Script::default() }
}

#[tokio::test]
async fn tools_for_pages_are_for_clients_that_show_pages() {
    let page = r#"{"name":"refresh","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/b","visibility":["app"]}}}"#;
    let one = Fake::http(Script { tools: vec![tool("who"), page.into()], ..Script::default() });
    let world = world(&[("one", &one)]).await;
    let (plain, showing) = (Client::open(&world, "/mcp").await, Client::able(&world, "/mcp", UI).await);
    let (bare, able) = (Modern::new(&world, "/mcp"), Modern::able(&world, "/mcp", UI));
    for answer in [plain.json("tools/list", "{}").await, bare.json("tools/list", "{}").await] {
        assert_eq!(names(&answer), ["who_mcp_one"]);
    }
    for answer in [showing.json("tools/list", "{}").await, able.json("tools/list", "{}").await] {
        assert_eq!(names(&answer), ["who_mcp_one", "refresh_mcp_one"]);
        assert_eq!(tools(&answer)[1]["_meta"]["ui"]["resourceUri"], "ui://a/b");
    }
    for answer in [plain.call("refresh_mcp_one", "{}").await, bare.call("refresh_mcp_one", "{}").await] {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert!(one.seen_of("tools/call").is_empty());
    for answer in [showing.call("refresh_mcp_one", "{}").await, able.call("refresh_mcp_one", "{}").await] {
        assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    }
}

#[tokio::test]
async fn each_era_reads_what_it_knows() {
    let old = r#"{"name":"old","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#;
    let any = r#"{"name":"any","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#;
    let result = r#"{"resultType":"complete","content":[],"structuredContent":[1.50]}"#;
    let one = Fake::http(Script { tools: vec![old.into()], ..Script::default() });
    let two = Fake::http(Script {
        call: std::sync::Arc::new(move |_| Reply::Result(result.into())),
        ..modern(vec![any.into()])
    });
    let world = world(&[("one", &one), ("two", &two)]).await;
    let (client, modern) = (Client::open(&world, "/mcp").await, Modern::new(&world, "/mcp"));
    let (listed, told) = (client.json("tools/list", "{}").await, modern.json("tools/list", "{}").await);
    let ([old, any], [new_old, new_any]) = (&tools(&listed)[..], &tools(&told)[..]) else {
        panic!("{listed} {told}")
    };
    assert_eq!(old["execution"], json!({"taskSupport": "optional"}));
    assert!(new_old.get("execution").is_none(), "{new_old}");
    let wrapped =
        json!({"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]});
    assert_eq!((&any["outputSchema"], &new_any["outputSchema"]), (&wrapped, &json!({"type": "array"})));
    assert!(listed["result"].as_object().unwrap().keys().eq(["tools"]), "nothing of the new era: {listed}");
    assert_eq!(
        client.call("any_mcp_two", "{}").await["result"]["structuredContent"],
        json!({"result": [1.5]})
    );
    assert_eq!(modern.call("any_mcp_two", "{}").await["result"]["structuredContent"], json!([1.5]));
}

/// A tool whose argument `to` a header is to repeat.
fn asking(name: &str, header: &str) -> String {
    format!(
        r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"to":{{"type":"string","x-mcp-header":"{header}"}}}}}}}}"#
    )
}

#[tokio::test]
async fn headers_repeat_what_tools_ask_for() {
    let tools = vec![asking("good", "To"), asking("bad", "T o")];
    let new = Fake::http(modern(tools.clone()));
    let old = Fake::http(Script { tools, ..Script::default() });
    let mut world = world(&[("new", &new), ("old", &old)]).await;
    let modern = Modern::new(&world, "/mcp");
    let listed = modern.json("tools/list", "{}").await;
    assert_eq!(names(&listed), ["good_mcp_new", "good_mcp_old", "bad_mcp_old"]);
    let properties = |n: usize| self::tools(&listed)[n]["inputSchema"]["properties"]["to"].clone();
    assert_eq!(properties(1)["x-mcp-header"], "To");
    assert_eq!(properties(2), json!({"type": "string"}), "the tool stays, without what is wrong");
    let dropped = world.metric(r#"trunkline_upstream_tools_dropped_total{server="new"}"#).await;
    assert!((dropped - 1.0).abs() < f64::EPSILON, "{dropped}");
    world.logged("x-mcp-header").await;
    let warned = |server: &str| {
        let of = |line: &&Value| line["level"] == "WARN" && line["server"] == server && line["tool"] == "bad";
        world.log().iter().filter(of).count()
    };
    assert_eq!((warned("new"), warned("old")), (1, 1), "{:?}", world.log());
    for (tool, server) in [("good_mcp_new", &new), ("good_mcp_old", &old)] {
        let call = modern.calling(tool, r#"{"to":"Zürich"}"#);
        for (said, code) in [("", -32020), ("Bern", -32020), ("=?base64?WsO8cmljaA==?=", 0)] {
            let client = modern.with("mcp-param-to", said);
            let answer = client.post(&call).await;
            let told: Value = serde_json::from_str(&answer.text).unwrap();
            assert_eq!(told["error"]["code"].as_i64().unwrap_or_default(), code, "{tool} {said}: {told}");
            assert_eq!(answer.status, if code == 0 { 200 } else { 400 });
        }
        assert_eq!(server.seen_of("tools/call").len(), 1);
    }
    assert_eq!(new.seen_of("tools/call")[0].header("mcp-param-to"), "=?base64?WsO8cmljaA==?=");
    assert_eq!(old.seen_of("tools/call")[0].header("mcp-param-to"), "");
    // A client with a session sends none, and the server gets them all the same.
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.call("good_mcp_new", r#"{"to":"a"}"#).await["result"]["content"][0]["text"], "here");
    assert_eq!(new.seen_of("tools/call")[1].header("mcp-param-to"), "a");
}

#[tokio::test]
async fn lists_hold_as_long_as_every_server_lets_them() {
    let kept = |more: &str| {
        let page = format!(r#"{{"resultType":"complete","tools":[{}]{more}}}"#, tool("who"));
        Script { list: Some(std::sync::Arc::new(move |_| page.clone())), ..modern(vec![]) }
    };
    let tells = Fake::http(Script { tells: true, ..Script::default() });
    let silent = Fake::http(Script::answering(|_| Reply::Result(text("here"))));
    let open = Fake::http(kept(r#","ttlMs":30000,"cacheScope":"public""#));
    let own = Fake::http(kept(r#","ttlMs":3600000,"cacheScope":"private""#));
    let servers = [("tells", &tells), ("silent", &silent), ("open", &open), ("own", &own)];
    let rest = "\nviews:\n  quick: {servers: [tells, open]}\n  mine: {servers: [tells, own]}\n";
    let all: Vec<_> = servers.iter().map(|(name, fake)| (*name, fake.entry())).collect();
    let world = World::start(&format!("{}{rest}", file("", &entries(&all)))).await.ready().await;
    let kept = async |path: &str| {
        let answer = Modern::new(&world, path).json("tools/list", "{}").await;
        let result = &answer["result"];
        assert_eq!(result["resultType"], "complete", "{answer}");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "trunkline", "{answer}");
        (result["ttlMs"].as_u64().unwrap(), result["cacheScope"].as_str().unwrap().to_owned())
    };
    assert_eq!(kept("/mcp/tells").await, (60_000, "public".into()), "it tells of changes");
    assert_eq!(kept("/mcp/silent").await, (0, "public".into()), "nobody tells of changes");
    let (ttl, scope) = kept("/mcp/open").await;
    assert!((1..=30_000).contains(&ttl) && scope == "public", "what is left of it: {ttl} {scope}");
    let (ttl, scope) = kept("/mcp/quick").await;
    assert!((1..=30_000).contains(&ttl) && scope == "public", "the shortest: {ttl} {scope}");
    let (ttl, scope) = kept("/mcp/mine").await;
    assert_eq!((ttl, &*scope), (60_000, "private"), "the shortest, and the narrowest");
    assert_eq!(kept("/mcp").await, (0, "private".into()));
    open.leave().await;
    Modern::new(&world, "/mcp").call("who_mcp_open", "{}").await; // it shows in the next call
    world.is("open", "down").await;
    assert_eq!(kept("/mcp/quick").await, (5_000, "public".into()), "it may be back soon");
}
