mod audiences;
mod pages;
mod resources;
mod views;

use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;

use super::*;
use crate::config::{Config, Reach, Server, Stdio};
use crate::mcp::Feature;
use crate::names::{Naming, ServerName, Style};

fn server(key: &str) -> Server {
    Server::new(key, Reach::Stdio(Stdio { command: "x".into(), args: vec![], env: vec![], cwd: None }))
}

/// A listing of these items, raw.
fn listing(kinds: &[(Feature, &str)]) -> Listing {
    let mut listing = Listing::default();
    for (feature, items) in kinds {
        let mut pages = Pages::new(*feature);
        let page = Bytes::from(format!(r#"{{"{}":{items}}}"#, feature.member()));
        assert_eq!(pages.add(&page, Budget::default()), Ok(Turn::Done));
        listing.take(*feature, pages.finish());
    }
    listing
}

type Kinds<'a> = &'a [(Feature, &'a str)];

/// A configuration of these servers, and their parts.
fn world(servers: Vec<(Server, Kinds<'_>)>) -> (Config, IndexMap<ServerName, Arc<Part>>) {
    let (mut all, mut parts) = (IndexMap::new(), IndexMap::new());
    for (server, kinds) in servers {
        let server = Arc::new(server);
        all.insert(server.name.clone(), server.clone());
        parts.insert(server.name.clone(), Arc::new(Part::build(server, &listing(kinds))));
    }
    (Config { servers: all, ..Config::default() }, parts)
}

fn catalog<const N: usize>(servers: [(Server, &str); N]) -> Catalog {
    let tools = servers.each_ref().map(|(_, tools)| [(Feature::Tool, *tools)]);
    let (config, parts) =
        world(servers.into_iter().zip(&tools).map(|((server, _), tools)| (server, &tools[..])).collect());
    Catalog::build(&config, parts, &Catalog::default())
}

fn list(catalog: &Catalog, view: &View, feature: Feature) -> Bytes {
    catalog.list(view, feature, Audience::default(), Start::default()).unwrap()
}

fn tools(catalog: &Catalog, view: &View) -> Bytes {
    list(catalog, view, Feature::Tool)
}

/// Where a route goes, and under which name there.
fn to(route: Option<Route>) -> String {
    route.map_or("nowhere".into(), |route| {
        let name: String = serde_json::from_slice(&route.name).unwrap();
        at(route.server.as_str(), &name)
    })
}

fn at(server: &str, name: &str) -> String {
    format!("{name} at {server}")
}

fn named(name: &str) -> View {
    View::Named(name.into())
}

fn one(name: &str) -> View {
    View::One(ServerName::expose(name))
}

#[test]
fn only_the_name_changes() {
    let tool = r#"{"z":1e400,"name":"a","inputSchema":{"z":12345678901234567890123,"a":1,"a":2}}"#;
    let catalog =
        catalog([(server("one"), &format!("[{tool},3,{{}},{tool}]")), (server("two"), &format!("[{tool}]"))]);
    let renamed = |name| tool.replace(r#""name":"a""#, &format!(r#""name":"{name}""#));
    let all = format!(r#"{{"tools":[{},{}]}}"#, renamed("a_mcp_one"), renamed("a_mcp_two"));
    assert_eq!(tools(&catalog, &View::All), all);
    assert_eq!(tools(&catalog, &one("two")), format!(r#"{{"tools":[{tool}]}}"#));
    assert_eq!(tools(&catalog, &one("none")), r#"{"tools":[]}"#);
}

#[test]
fn a_name_is_looked_up_never_split() {
    let tools = |name| format!(r#"[{{"name":"{name}"}}]"#);
    let catalog = catalog([(server("a"), &tools("b_mcp_c")), (server("c"), &tools("a_mcp_b"))]);
    let route = catalog.tool(&View::All, "a_mcp_b_mcp_c").unwrap();
    assert_eq!((route.server.as_str(), &route.name[..]), ("c", &b"\"a_mcp_b\""[..]));
    assert_eq!(catalog.tool(&View::All, "b_mcp_c_mcp_a").unwrap().server.as_str(), "a");
    assert!(catalog.tool(&View::All, "a").is_none());
    assert!(catalog.tool(&View::All, "A_mcp_b_mcp_c").is_none());
    assert_eq!(catalog.tool(&one("c"), "a_mcp_b").unwrap().server.as_str(), "c");
    assert!(catalog.tool(&one("c"), "a_mcp_b_mcp_c").is_none());
}

#[test]
fn the_longest_tail_tells_whom_to_ask() {
    let catalog = catalog([(server("b"), "[]"), (server("a_b"), "[]")]);
    assert_eq!(catalog.server_of_unknown(&View::All, "x_mcp_a_b").unwrap().as_str(), "a_b");
    assert!(catalog.server_of_unknown(&View::All, "x_b").is_none());
}

#[test]
fn plain_twins_fall_back_and_filters_hold() {
    let plain =
        |key: &str| Server { naming: Naming { style: Style::Plain, ..Naming::default() }, ..server(key) };
    let mut second = plain("two");
    second.tools.deny = vec!["secret*".into()];
    second.tools.rename.insert("old".into(), "new".into());
    second.tools.describe.insert("old".into(), "Said \"anew\"".into());
    second.title = Some("Two".into());
    let theirs = r#"[{"description":"d","name":"a"},{"name":"old","x":1},{"name":"secret1"}]"#;
    let catalog = catalog([(plain("one"), r#"[{"name":"a"}]"#), (second, theirs)]);
    assert_eq!(catalog.tool(&View::All, "a").unwrap().server.as_str(), "one");
    assert_eq!(catalog.tool(&View::All, "a_mcp_two").unwrap().server.as_str(), "two");
    assert_eq!(&catalog.tool(&View::All, "new").unwrap().name[..], b"\"old\"");
    assert!(catalog.tool(&View::All, "secret1").is_none() && catalog.tool(&one("two"), "secret1").is_none());
    let all = r#"{"tools":[{"name":"a"},{"description":"[Two] d","name":"a_mcp_two"},{"name":"new","description":"[Two] Said \"anew\"","x":1}]}"#;
    assert_eq!(tools(&catalog, &View::All), all);
}

#[test]
fn pages_end_whatever_the_server_does() {
    let budget = Budget { pages: 3, items: 4, bytes: 1000 };
    let page = |cursor: &str, tool: &str| {
        Bytes::from(format!(r#"{{"tools":[{{"name":"{tool}"}}],"nextCursor":{cursor}}}"#))
    };
    let mut pages = Pages::new(Feature::Tool);
    assert_eq!(pages.add(&page("\"\"", "a"), budget), Ok(Turn::Next("\"\"".into())));
    assert_eq!(pages.add(&page("\"\"", "b"), budget), Ok(Turn::Done));
    assert_eq!(pages.finish().cut(), Some("the server repeats a cursor"));
    let mut pages = Pages::new(Feature::Tool);
    for at in 0..2 {
        pages.add(&page(&format!("\"{at}\""), "a"), budget).unwrap();
    }
    assert_eq!(pages.add(&page("\"9\"", "a"), budget), Ok(Turn::Done));
    let listing = pages.finish();
    assert_eq!((listing.of(Feature::Tool).len(), listing.cut()), (1, Some("more pages than the limit")));
    let mut pages = Pages::new(Feature::Tool);
    assert_eq!(pages.add(&page("null", &"x".repeat(2000)), budget), Ok(Turn::Done));
    assert!(pages.finish().cut().is_some());
    assert!(Pages::new(Feature::Tool).add(&"{}".into(), budget).is_err());
}

/// From `cursor` on, for anybody.
fn start(cursor: Option<&str>) -> Start<'_> {
    Start { cursor, principal: None }
}
