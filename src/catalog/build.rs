//! All parts together.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use indexmap::IndexMap;

use super::part::{Part, Tool};
use crate::config::{Config, Server};
use crate::names::ServerName;

/// Which selection of servers and which naming a path has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum View {
    /// `/mcp`: all servers under exposed names.
    All,
    /// `/mcp/<server>`: one server under its own names.
    One(ServerName),
}

/// Everything offered at one moment.
#[derive(Debug, Default)]
pub struct Catalog {
    parts: IndexMap<ServerName, Arc<Part>>,
    /// Exposed name → part and tool in it.
    exposed: HashMap<Box<str>, (usize, usize)>,
    all: Bytes,
    one: HashMap<ServerName, Bytes>,
    tails: Vec<(String, ServerName)>,
}

/// Where a call goes.
#[derive(Debug, Clone)]
pub struct Route {
    /// To which server.
    pub server: ServerName,
    /// The tool's name there, as JSON.
    pub name: Bytes,
}

impl Catalog {
    /// Puts the parts of `config`'s servers together, in the order of the file.
    pub fn build(config: &Config, parts: IndexMap<ServerName, Arc<Part>>) -> Self {
        let mut exposed = HashMap::with_capacity(parts.values().map(|part| part.len()).sum());
        let mut all = BytesMut::from(&OPEN[..]);
        let mut one = HashMap::with_capacity(parts.len());
        for (at, part) in parts.values().enumerate() {
            for (index, tool) in part.tools.iter().enumerate() {
                let Some(name) = claim(&mut exposed, tool, (at, index)) else { continue };
                if all.len() > OPEN.len() {
                    all.put_u8(b',');
                }
                all.put_slice(&tool.around.0);
                all.put_u8(b'"'); // exposed names hold nothing that JSON escapes
                all.put_slice(name.as_bytes());
                all.put_u8(b'"');
                all.put_slice(&tool.around.1);
            }
            let mut plain = BytesMut::with_capacity(part.plain.len() + OPEN.len() + CLOSE.len());
            plain.put_slice(OPEN);
            plain.put_slice(&part.plain);
            plain.put_slice(CLOSE);
            one.insert(part.server().clone(), plain.freeze());
        }
        all.put_slice(CLOSE);
        let mut tails: Vec<_> = config.servers.values().filter_map(|server| tail(server)).collect();
        tails.sort_by_key(|(tail, _)| std::cmp::Reverse(tail.len()));
        Self { parts, exposed, all: all.freeze(), one, tails }
    }

    /// The result of `tools/list` in `view`.
    pub fn tools(&self, view: &View) -> Bytes {
        let empty = Bytes::from_static(br#"{"tools":[]}"#);
        match view {
            View::All if self.all.is_empty() => empty,
            View::All => self.all.clone(),
            View::One(server) => self.one.get(server).cloned().unwrap_or(empty),
        }
    }

    /// Where a call of the tool `name` in `view` goes.
    pub fn tool(&self, view: &View, name: &str) -> Option<Route> {
        let (part, index) = match view {
            View::All => {
                let (at, index) = self.exposed.get(name)?;
                (self.parts.get_index(*at)?.1, *index)
            }
            View::One(server) => {
                let part = self.parts.get(server)?;
                (part, *part.by_raw.get(name)?)
            }
        };
        Some(Route { server: part.server().clone(), name: part.tools.get(index)?.raw.clone() })
    }

    /// Which server to ask again for an unknown `name`: the longest configured tail tells. Never a route.
    pub fn server_of_unknown(&self, view: &View, name: &str) -> Option<ServerName> {
        match view {
            View::All => self.tails.iter().find(|(tail, _)| name.ends_with(tail)).map(|(_, server)| server.clone()),
            View::One(server) => Some(server.clone()),
        }
    }

    /// The part of one server.
    pub fn part(&self, server: &str) -> Option<&Arc<Part>> {
        self.parts.get(server)
    }
}

fn tail(server: &Server) -> Option<(String, ServerName)> {
    Some((server.naming.tail(&server.name)?, server.name.clone()))
}

/// The name under which `tool` is offered: its own, or where another server was first, its fallback, or none.
fn claim<'t>(
    exposed: &mut HashMap<Box<str>, (usize, usize)>,
    tool: &'t Tool,
    place: (usize, usize),
) -> Option<&'t str> {
    let names = [Some(&tool.exposed), tool.fallback.as_ref()];
    let name = names.into_iter().flatten().find(|name| !exposed.contains_key(*name))?;
    exposed.insert(name.clone(), place);
    Some(name)
}

const OPEN: &[u8] = br#"{"tools":["#;
const CLOSE: &[u8] = b"]}";
