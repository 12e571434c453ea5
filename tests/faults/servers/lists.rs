//! Lists without end, with twins, and with what nobody can read.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Beside, said};
use crate::support::{Fake, Reply, Script, tool, until};

/// A result of `tools/list`.
fn page(tools: &str, next: Option<&str>) -> String {
    let next = next.map(|next| format!(r#","nextCursor":"{next}""#)).unwrap_or_default();
    format!(r#"{{"tools":[{tools}]{next}}}"#)
}

#[tokio::test]
async fn fault_083_a_million_tools_are_cut_and_it_is_told() {
    let mut many = String::new();
    for n in 0..50_000 {
        write!(many, "{}{}", if n == 0 { "" } else { "," }, tool(&format!("t{n}"))).unwrap();
    }
    let huge =
        Fake::http(Script { list: Some(Arc::new(move |_| page(&many, Some("more")))), ..Script::default() });
    let endless = Fake::http(Script {
        list: Some(Arc::new(|cursor| {
            let n: u64 = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            page(&tool(&format!("p{n}")), Some(&(n + 1).to_string()))
        })),
        ..Script::default()
    });
    let beside = Beside::start("", &[("huge", huge.entry()), ("endless", endless.entry())]).await;
    for (name, count, why) in [("huge", 5000, "more items"), ("endless", 100, "more pages")] {
        let status = beside.world.server(name).await;
        assert_eq!(status["tools"], count, "{status}");
        assert!(status["toolsCut"].as_str().unwrap().contains(why), "{status}");
        let series = format!(r#"trunkline_upstream_listings_truncated_total{{server="{name}"}}"#);
        assert!(beside.world.metric(&series).await > 0.5);
    }
    assert_eq!(endless.seen_of("tools/list").len(), 100);
    beside.others_are_well().await;
    assert_eq!(said(&beside.client.call("p99_mcp_endless", "{}").await), "here");
}

#[tokio::test]
async fn fault_083_pages_that_come_too_slowly_are_cut_and_never_shrink_a_list() {
    let up = Fake::http(Script {
        overrule: Some(Arc::new(|seen| match (seen.method.as_str(), seen.params()["cursor"].as_str()) {
            ("tools/list", None) => Some(Reply::Result(page(&tool("first"), Some("2")))),
            ("tools/list", Some(_)) => Some(Reply::Stall),
            _ => None,
        })),
        ..Script::default()
    });
    let limits = "reconnectInterval: 300ms, refreshInterval: 300ms";
    let started = Instant::now();
    let beside = Beside::start(limits, &[("up", up.entry_with(r#", "connectTimeout": "500ms""#))]).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    until("the part is listed", async || (beside.world.server("up").await["tools"] == 1).then_some(())).await;
    let status = beside.world.server("up").await;
    assert!(status["toolsCut"].as_str().unwrap().contains("time"), "{status}");
    assert_eq!(said(&beside.client.call("first_mcp_up", "{}").await), "here");
    // All of it comes once, then a part again.
    let whole = |script: &mut Script| {
        script.overrule = Some(Arc::new(|seen| {
            let both = format!("{},{}", tool("first"), tool("second"));
            (seen.method == "tools/list").then(|| Reply::Result(page(&both, None)))
        }));
    };
    let mut part = None;
    up.change(|script| part = script.overrule.clone());
    up.change(whole);
    until("all is listed", async || (beside.world.server("up").await["tools"] == 2).then_some(())).await;
    assert!(beside.world.server("up").await["toolsCut"].is_null());
    up.change(|script| script.overrule = part);
    until("it has failed", async || beside.world.server("up").await["toolsProblem"].as_str().map(drop)).await;
    assert_eq!(beside.world.server("up").await["tools"], 2, "a part does not replace all");
    beside.others_are_well().await;
}

#[tokio::test]
async fn fault_083_twins_and_tools_that_nobody_can_read_are_left_out_with_a_reason() {
    let tools = [
        tool("good"),
        tool("good"),
        r#"{"name":"schema","inputSchema":"none"}"#.into(),
        r#"{"name":"list","inputSchema":[]}"#.into(),
        r#"{"description":"nameless"}"#.into(),
        r#"{"name":7,"inputSchema":{"type":"object"}}"#.into(),
        "null".into(),
    ];
    let up = Fake::http(Script { tools: tools.to_vec(), ..Script::default() });
    let mut beside = Beside::start("", &[("up", up.entry())]).await;
    let status = beside.world.server("up").await;
    assert_eq!((&status["tools"], &status["leftOut"]), (&1.into(), &6.into()), "{status}");
    beside.world.logged("left out of its lists").await;
    assert_eq!(said(&beside.client.call("good_mcp_up", "{}").await), "here");
}

#[tokio::test]
async fn fault_088_a_server_that_claims_what_it_lacks_keeps_what_it_has() {
    let claims = r#"{"tools":{},"prompts":{},"resources":{}}"#;
    let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#;
    let up = Fake::http(Script {
        capabilities: Some(claims.into()),
        overrule: Some(Arc::new(move |seen| match seen.method.as_str() {
            "prompts/list" => Some(Reply::Text(unknown.into())),
            "resources/list" => Some(Reply::Status(500, vec![])),
            _ => None,
        })),
        ..Script::default()
    });
    let beside = Beside::start("", &[("up", up.entry())]).await;
    assert_eq!(said(&beside.client.call("who_mcp_up", "{}").await), "here");
    assert!(beside.client.tools().await.contains(&"who_mcp_up".into()));
    let status = beside.world.server("up").await;
    assert_eq!(status["state"], "ready", "{status}");
    assert!(status["toolsProblem"].as_str().unwrap().contains("HTTP 500"), "{status}");
    let prompts = beside.client.json("prompts/list", "{}").await;
    assert_eq!(prompts["result"]["prompts"], serde_json::json!([]), "{prompts}");
}
