//! Names as clients see them: each leads to one tool, and back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use trunkline::catalog::{Audience, Budget, Catalog, Listing, Pages, Part, Start, View};
use trunkline::config::{Config, Reach, Server, Stdio};
use trunkline::mcp::Feature;
use trunkline::names::uri::{self, Template};
use trunkline::names::{Naming, ServerName, Style};
use trunkline::wire::Text;

use crate::messages::must;

/// A line each: of servers, which begin with `@`, and of tools of the last one. The first byte tells the naming.
pub(crate) fn names(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let naming = naming(input.first().copied().unwrap_or_default());
    let mut servers: Vec<(Server, Vec<&str>)> = Vec::new();
    for line in text.lines().take(64) {
        if let Some(key) = line.strip_prefix('@') {
            let taken = servers.iter().any(|(server, _)| server.name == ServerName::expose(key));
            if !taken && servers.len() < 8 {
                servers.push((server(key, naming.clone()), vec![]));
            }
        } else if let Some((_, tools)) = servers.last_mut() {
            tools.push(line);
        }
    }
    for (server, tools) in &servers {
        alone(server, tools)?;
    }
    together(servers)?;
    uris(&text)
}

fn naming(byte: u8) -> Naming {
    let style = match byte % 4 {
        0 | 1 => Style::Suffix,
        2 => Style::Prefix,
        _ => Style::Plain,
    };
    let delimiter = ["_mcp_", "__", "-", "_"].get(usize::from(byte >> 2) % 4).copied().unwrap_or("_mcp_");
    let max_length = if byte >= 128 { 64 } else { 24 };
    Naming { style, delimiter: delimiter.into(), max_length }
}

fn server(key: &str, naming: Naming) -> Server {
    let stdio = Stdio { command: "x".into(), args: vec![], env: vec![], cwd: None };
    Server { naming, ..Server::new(key, Reach::Stdio(stdio)) }
}

/// Of one server no two names read alike, and none has what may not stand in one.
fn alone(server: &Server, tools: &[&str]) -> Result<(), String> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for tool in tools {
        let exposed = server.naming.expose(tool, &server.name);
        must(exposed == server.naming.expose(tool, &server.name), "a name is not stable")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        must(exposed.name.chars().all(plain), "a name has what may not stand there")?;
        if let Some(tail) = server.naming.tail(&server.name) {
            must(exposed.name.ends_with(&tail), "a name lost its server")?;
        }
        let other = seen.insert(exposed.name.clone(), tool);
        must(other.is_none_or(|other| other == *tool), "two tools have one name")?;
    }
    Ok(())
}

/// In a view of all of them each listed name leads to the one tool that it was made of.
fn together(servers: Vec<(Server, Vec<&str>)>) -> Result<(), String> {
    let (mut all, mut parts) = (IndexMap::new(), IndexMap::new());
    for (server, tools) in servers {
        let server = Arc::new(server);
        let listing = listing(&tools)?;
        parts.insert(server.name.clone(), Arc::new(Part::build(server.clone(), &listing)));
        all.insert(server.name.clone(), server);
    }
    let config = Config { servers: all, ..Config::default() };
    let catalog = Catalog::build(&config, parts, &Catalog::default());
    let list = catalog.list(&View::All, Feature::Tool, Audience::default(), Start::default());
    let list = list.map_err(|_| "there is no list")?;
    let list: serde_json::Value = serde_json::from_slice(&list).map_err(|why| format!("the list: {why}"))?;
    let mut routes = HashSet::new();
    for tool in list.get("tools").and_then(|tools| tools.as_array()).into_iter().flatten() {
        let name = tool.get("name").and_then(|name| name.as_str()).ok_or("a tool without a name")?;
        let route = catalog.tool(&View::All, name).ok_or("a listed name leads nowhere")?;
        let own = std::str::from_utf8(&route.name).ok().and_then(Text::of).ok_or("a name is no string")?;
        let server = config.servers.get(&route.server).ok_or("a route to nobody")?;
        // A plain name that is taken already gives way to a long one.
        let long = Naming { style: Style::Suffix, ..server.naming.clone() };
        let is_its = |naming: &Naming| naming.expose(&own, &server.name).name == name;
        let its = is_its(&server.naming) || (server.naming.style == Style::Plain && is_its(&long));
        must(its, "a name leads to another tool")?;
        must(routes.insert((route.server.clone(), own.into_owned())), "two names lead to one tool")?;
    }
    Ok(())
}

fn listing(tools: &[&str]) -> Result<Listing, String> {
    let items: Vec<_> = tools
        .iter()
        .map(|tool| serde_json::json!({"name": tool, "inputSchema": {"type": "object"}}).to_string())
        .collect();
    let mut pages = Pages::new(Feature::Tool);
    let page = Bytes::from(format!(r#"{{"tools":[{}]}}"#, items.join(",")));
    pages.add(&page, Budget::default()).map_err(|why| format!("a list is refused: {why:?}"))?;
    let mut listing = Listing::default();
    listing.take(Feature::Tool, pages.finish());
    Ok(listing)
}

/// Prefixes of URIs come off again; templates are matched without end or panic.
fn uris(text: &str) -> Result<(), String> {
    let (key, own) = text.split_once('\n').unwrap_or(("k", text));
    let server = ServerName::expose(key);
    let with = uri::prefixed(&server, own);
    if *with != *own {
        let (label, again) = uri::split(&with).ok_or("a prefix does not come off")?;
        must(label == uri::label(&server), "a prefix names another server")?;
        let same = again == own || again.len() == own.len() && again.eq_ignore_ascii_case(own);
        must(same, "a URI does not come back")?;
    }
    drop(uri::split(own));
    if let Some(template) = Template::parse(key) {
        // What the RFC's own expansion gives is recognised by the wider reading, too.
        let strict = template.expands_to(own);
        must(!strict || template.resembles(own), "a match is lost")?;
    }
    Ok(())
}
