//! Rows 31 to 33, 40 and 43: names, cursors and URIs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{one, others_notice_nothing};
use crate::support::{
    Client, Fake, Modern, Reply, Script, Seen, World, entries, error, file, join, process, scaled, tool,
};

const UNKNOWN: i64 = -32602;

/// Names that look like `who_mcp_up` to somebody, and such that look like nothing.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        "who",
        "up",
        "_mcp_",
        "who_mcp_",
        "_mcp_up",
        "who_mcp_up_mcp_up",
        "who_mcp_who_mcp_up",
        "a_mcp_b_mcp_c",
        "../who_mcp_up",
        "who_mcp_../up",
        "./who_mcp_up",
        "who%5fmcp_up",
        "%2e%2e/who_mcp_up",
        "who_mcp_up%00",
        "who_mcp_up ",
        " who_mcp_up",
        "who_mcp_up.",
        "WHO_MCP_UP",
        "Who_mcp_up",
        "who_mcp_Up",
        "who_MCP_up",
        "wh\u{43e}_mcp_up",
        "who_mcp_u\u{440}",
        "who\u{200b}_mcp_up",
        "\u{ff57}ho_mcp_up",
        "who_mcp_up\u{0301}",
        "who-mcp-up",
        "who__mcp__up",
        "up_mcp_who",
        "mcp",
        "*",
        "who_mcp_*",
        "'; drop",
        "${HOME}",
        "{{header.x}}",
    ]
    .map(str::to_owned)
    .into();
    names.push("x".repeat(10 << 10));
    names.push(format!("who_mcp_up{}", "_".repeat(10 << 10)));
    names.push("_mcp_".repeat(2000));
    names
}

#[tokio::test]
async fn fault_031_names_are_looked_up_and_never_guessed() {
    let (world, up, client) = one(Script::default()).await;
    let modern = Modern::new(&world, "/mcp");
    let names = odd_names();
    // Side by side: for those that could be the server's, it is asked, and they wait for that.
    let asked = names.iter().map(async |name| {
        let params = json!({"name": name, "arguments": {}}).to_string();
        for answer in [client.json("tools/call", &params).await, modern.json("tools/call", &params).await] {
            assert_eq!(answer["error"]["code"], UNKNOWN, "{name:.80}: {answer:.300}");
        }
    });
    join(asked).await;
    for params in
        ["{}", r#"{"name":null}"#, r#"{"name":7}"#, r#"{"name":["who_mcp_up"]}"#, r#"{"Name":"who_mcp_up"}"#]
    {
        let answer = client.json("tools/call", params).await;
        assert_eq!(answer["error"]["code"], UNKNOWN, "{params}: {answer}");
    }
    assert!(up.seen_of("tools/call").is_empty());
    // Spelt otherwise in JSON it is the same name.
    assert!(client.json("tools/call", r#"{"name":"wh\u006f_mcp_up"}"#).await["result"].is_object());
    others_notice_nothing(&world, "who_mcp_up").await;
    eprintln!("{} names that nobody has", names.len());
}

/// An answer with the name that was asked for taken out.
fn nameless(answer: &Value, name: &str) -> String {
    answer["error"].to_string().replace(name, "NAME")
}

#[tokio::test]
async fn fault_032_what_is_not_for_this_view_reads_like_what_does_not_exist() {
    // In its own view a server is asked for whatever it does not list.
    let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no such prompt"}}"#;
    let other = Arc::new(|_: &Seen| Reply::Text(unknown.into()));
    let tools = vec![tool("who"), tool("hidden")];
    let two = || Fake::http(Script { tools: tools.clone(), other: other.clone(), ..Script::default() });
    let (one, other) = (two(), two());
    let servers =
        entries(&[("one", one.entry_with(r#", "tools": {"deny": ["hidden"]}"#)), ("other", other.entry())]);
    let text = format!("{}views: {{mine: {{servers: [one]}}}}\n", file("", &servers));
    let world = World::start(&text).await.ready().await;
    for path in ["/mcp/mine", "/mcp/one"] {
        let client = Client::open(&world, path).await;
        let modern = Modern::new(&world, path);
        let name = |tool: &str, server: &str| {
            if path == "/mcp/one" { tool.to_owned() } else { format!("{tool}_mcp_{server}") }
        };
        let made_up = name("nosuchtool", "one");
        for forbidden in [name("hidden", "one"), "who_mcp_other".into(), "hidden_mcp_other".into()] {
            for (method, key) in [("tools/call", "name"), ("prompts/get", "name")] {
                let params = |name: &str| json!({key: name, "arguments": {}}).to_string();
                let (told, unknown) = (
                    client.json(method, &params(&forbidden)).await,
                    client.json(method, &params(&made_up)).await,
                );
                assert_eq!(nameless(&told, &forbidden), nameless(&unknown, &made_up), "{path} {method}");
                assert!(told["error"].is_object(), "{told}");
            }
            let told = modern.call(&forbidden, "{}").await;
            let unknown = modern.call(&made_up, "{}").await;
            assert_eq!(nameless(&told, &forbidden), nameless(&unknown, &made_up), "{path}");
        }
        assert_eq!(client.tools().await, [name("who", "one")]);
    }
    assert!(other.seen_of("tools/call").is_empty() && one.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn fault_033_cursors_that_we_did_not_write_are_refused() {
    let tools = (0..250).map(|n| tool(&format!("t{n}"))).collect();
    let up = Fake::http(Script { tools, ..Script::default() });
    let text = format!("{}pageSize: 100\n", file("", &entries(&[("up", up.entry())])));
    let world = World::start(&text).await.ready().await;
    let (client, other) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let list = |cursor: Value| {
        let params = json!({"cursor": cursor}).to_string();
        let client = &client;
        async move { client.json("tools/list", &params).await }
    };
    let first = client.json("tools/list", "{}").await;
    let cursor = first["result"]["nextCursor"].as_str().expect("more than a page").to_owned();
    let mut forged: Vec<String> =
        ["", "made-up", "0", "-1", "1e9", "AAAA", "../../etc/passwd", "\u{1f600}", "null"]
            .map(str::to_owned)
            .into();
    forged.push(cursor.chars().skip(1).collect());
    forged.push(cursor.chars().take(cursor.len() / 4).collect());
    forged.push("x".repeat(1 << 20));
    for cursor in &forged {
        let answer = list(json!(cursor)).await;
        assert_eq!(answer["error"]["code"], UNKNOWN, "{cursor:.80}: {answer:.300}");
    }
    for cursor in [json!(7), json!({}), json!([])] {
        assert_eq!(list(cursor.clone()).await["error"]["code"], UNKNOWN, "{cursor}");
    }
    let changed = format!("{}{}", if cursor.starts_with('A') { "B" } else { "A" }, cursor.get(1..).unwrap());
    assert_eq!(list(json!(changed)).await["error"]["code"], UNKNOWN, "a changed one");
    // One that names what is no longer there, or was made by hand, is a place in this list all the same, and no more.
    for cursor in [format!("{cursor}AA"), cursor.chars().take(cursor.len() - 4).collect()] {
        let answer = list(json!(cursor)).await;
        let tools = answer["result"]["tools"].as_array().map_or(0, Vec::len);
        assert!(answer["error"]["code"] == UNKNOWN || tools > 0 && tools <= 100, "{answer:.300}");
    }
    // It carries no authority: another client comes to the same place.
    let params = json!({"cursor": cursor}).to_string();
    let (mine, theirs) = (client.json("tools/list", &params).await, other.json("tools/list", &params).await);
    assert_eq!(mine["result"], theirs["result"]);
    assert_eq!(mine["result"]["tools"].as_array().unwrap().len(), 100);
    // In another view it leads to nothing of this one.
    let own = Client::open(&world, "/mcp/up").await;
    let there = own.json("tools/list", &params).await;
    assert!(there["error"].is_object() || !there.to_string().contains("_mcp_up"), "{there:.300}");
}

#[tokio::test]
async fn fault_040_resources_are_read_of_their_owner_and_never_fetched() {
    let full = |name: &'static str| Script {
        capabilities: Some(r#"{"tools":{},"resources":{}}"#.into()),
        resources: vec![format!(r#"{{"uri":"file:///{name}/a.txt","name":"a"}}"#)],
        templates: vec![format!(r#"{{"uriTemplate":"{name}://x/{{id}}","name":"t"}}"#)],
        other: Arc::new(|seen| {
            Reply::Result(format!(r#"{{"contents":[{{"uri":{},"text":"t"}}]}}"#, seen.params()["uri"]))
        }),
        ..Script::default()
    };
    let (one, two) = (Fake::http(full("one")), Fake::stdio(full("two")));
    // Whom nobody may ask: it is on this machine, and would see a connection.
    let secret = Fake::http(Script::default());
    let at = secret.entry().split('"').nth(3).unwrap().to_owned();
    let servers = entries(&[("one", one.entry()), ("two", two.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let (client, modern) = (Client::open(&world, "/mcp").await, Modern::new(&world, "/mcp"));
    for uri in [
        "file:///etc/passwd",
        "file:///one/../../etc/passwd",
        "file:///one/a.txt/../../etc/passwd",
        "file:///one/A.txt",
        "../a.txt",
        "/etc/passwd",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        &at,
        "one://x/../y/z",
        "two:one://x/1",
        "",
    ] {
        let params = json!({"uri": uri}).to_string();
        let answer = client.json("resources/read", &params).await;
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
        let answer = modern.json("resources/read", &params).await;
        assert!(answer["error"]["code"].is_i64(), "{uri}: {answer}");
    }
    assert!(one.seen_of("resources/read").is_empty() && two.seen_of("resources/read").is_empty());
    assert_eq!(secret.connections(), 0);
    assert!(secret.seen().is_empty());
    for (uri, owner, others) in [("file:///two/a.txt", &two, &one), ("one://x/..%2f..", &one, &two)] {
        let before = others.seen_of("resources/read").len();
        let answer = client.json("resources/read", &json!({"uri": uri}).to_string()).await;
        assert_eq!(answer["result"]["contents"][0]["uri"], uri, "{answer}");
        assert_eq!(
            owner.seen_of("resources/read").last().unwrap().params()["uri"],
            uri,
            "as it was asked for"
        );
        assert_eq!(others.seen_of("resources/read").len(), before);
    }
}

async fn call(client: &Client, n: usize) -> Value {
    client.call(&format!("unknown{n}_mcp_up"), "{}").await
}

#[tokio::test]
async fn fault_043_unknown_names_leave_no_series_and_no_memory() {
    const AT_ONCE: usize = 50;
    let (world, up, client) = one(Script::default()).await;
    let series = async || {
        let (_, text) = world.admin("/metrics").await;
        let names: std::collections::BTreeSet<_> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' ').map(|(name, _)| name.to_owned()))
            .collect();
        names
    };
    let ask = async |from: usize, count: usize| {
        // Of a server that is not there, and of any form at all.
        let name = |n| if n % 2 == 0 { format!("unknown_mcp_server{n}") } else { format!("unknown{n}") };
        for start in (from..from + count).step_by(AT_ONCE) {
            let calls = (start..start + AT_ONCE).map(|n| client.request(&name(n), "{}"));
            let calls: Vec<_> = calls.collect();
            let told = join(calls.iter().map(|call| client.post(call))).await;
            assert!(told.iter().all(|told| told.status == 200 && error(&told.text) == Some(UNKNOWN)));
        }
        // Of the server's own form: it may have the tool by now, so it is asked, and the client waits for that.
        let own = (from..from + AT_ONCE).map(|n| call(&client, n));
        assert!(join(own).await.iter().all(|answer| answer["error"]["code"] == UNKNOWN));
    };
    others_notice_nothing(&world, "who_mcp_up").await;
    ask(0, 2000).await;
    let (before, memory) = (series().await, process::rss(world.pid()));
    let count = scaled(5_000, 100_000);
    ask(2000, count).await;
    let (after, grown) = (series().await, process::rss(world.pid()).saturating_sub(memory));
    assert_eq!(before, after, "no name becomes a series");
    eprintln!("{count} more unknown names: {} series as before, {grown} KiB more", after.len());
    assert!(grown < 4 << 10, "{grown} KiB more after {count} names");
    assert!(up.seen_of("tools/list").len() < 10 + count / 100, "the server is not asked for each");
    others_notice_nothing(&world, "who_mcp_up").await;
}
