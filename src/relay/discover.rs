//! `server/discover`: what the servers of a view have together, for clients without a session.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Relay;
use super::initialize::{Known, instructions, offered, servers};
use crate::catalog::View;
use crate::mcp::{Caching, Offers, Revision, Scope, TASKS_EXTENSION, discover_result, method};
use crate::wire::{self, members};

/// A server that comes later can bring something new.
const KEPT: Caching = Caching { ttl_ms: 60_000, scope: Scope::Public };
/// Extensions that need nothing of us where several servers are joined, or that we do our part for.
const JOINED: [&str; 2] = ["io.modelcontextprotocol/ui", TASKS_EXTENSION];

impl Relay {
    /// The answer to `server/discover` under the raw id `id`. No server is asked.
    pub(super) fn discover(&self, view: &View, id: &[u8]) -> Bytes {
        let snapshot = self.fleet.snapshot();
        let servers = servers(&snapshot, view);
        let capabilities = capabilities(view, &servers);
        let instructions = instructions(view, &snapshot, &servers);
        wire::response(id, discover_result(&capabilities, &instructions, KEPT).as_bytes())
    }

    /// Whether `view` has the method `name` for clients without a session: their revision has it, and
    /// `server/discover` offers it.
    pub fn serves(&self, view: &View, name: &str) -> bool {
        let has = |what: fn(&Offers) -> bool| {
            let snapshot = self.fleet.snapshot();
            what(&offered(&servers(&snapshot, view)))
        };
        match name {
            method::DISCOVER | method::LISTEN | method::TOOLS_LIST | method::TOOLS_CALL => true,
            method::PROMPTS_LIST | method::PROMPTS_GET => has(|offers| offers.prompts),
            method::RESOURCES_LIST | method::TEMPLATES_LIST | method::RESOURCES_READ => {
                has(|offers| offers.resources)
            }
            method::COMPLETE => has(|offers| offers.completions),
            method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => {
                let snapshot = self.fleet.snapshot();
                extensions(view, &servers(&snapshot, view), Revision::LATEST).contains_key(TASKS_EXTENSION)
            }
            method::INITIALIZE
            | method::PING
            | method::SET_LEVEL
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
            | method::TASKS_RESULT
            | method::TASKS_LIST => false,
            // Its server may know it.
            _ => matches!(view, View::One(_)),
        }
    }
}

/// What the servers have together, as a raw capabilities object.
fn capabilities(view: &View, servers: &[Known]) -> String {
    let offered = offered(servers).write(false);
    let extensions = extensions_member(view, servers, Revision::LATEST);
    let experimental = experimental(view, servers).map(|raw| format!(r#","experimental":{raw}"#));
    let offered = offered.strip_suffix('}').unwrap_or_default(); // not empty: there are always tools
    format!("{offered}{extensions}{}}}", experimental.unwrap_or_default())
}

/// What only its client and the server itself understand is between the two.
pub(super) fn experimental<'s>(view: &View, servers: &'s [Known]) -> Option<&'s str> {
    let (View::One(_), [(_, Some(hello))]) = (view, servers) else { return None };
    let [at] = members(&hello.capabilities, ["experimental"]).ok()?;
    hello.capabilities.get(at?)
}

/// The extensions of the servers by their names, for clients of `revision`: in a server's own view all that it has, since
/// everything passes there; where several are joined those that we know how to join, as the first server has them.
pub(super) fn extensions(
    view: &View,
    servers: &[Known],
    revision: Revision,
) -> BTreeMap<String, Box<RawValue>> {
    let mut all: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
    for hello in servers.iter().filter_map(|(_, hello)| hello.as_ref()) {
        for (name, settings) in declared(&hello.capabilities) {
            if matches!(view, View::One(_)) || JOINED.contains(&&*name) {
                all.entry(name).or_insert(settings);
            }
        }
    }
    // Older clients have tasks of another kind, which are no extension; those of older servers are told as one.
    if !revision.is_modern() {
        all.remove(TASKS_EXTENSION);
    } else if servers.iter().filter_map(|(_, hello)| hello.as_ref()).any(|hello| hello.offers.tasks)
        && let Ok(settings) = RawValue::from_string("{}".into())
    {
        all.entry(TASKS_EXTENSION.into()).or_insert(settings);
    }
    all
}

/// Those as a further member of raw capabilities.
pub(super) fn extensions_member(view: &View, servers: &[Known], revision: Revision) -> String {
    let all = extensions(view, servers, revision);
    let raw = (!all.is_empty()).then(|| serde_json::to_string(&all).unwrap_or_default());
    raw.map(|raw| format!(r#","extensions":{raw}"#)).unwrap_or_default()
}

/// The extensions in a raw capabilities object.
fn declared(capabilities: &str) -> BTreeMap<String, Box<RawValue>> {
    let Ok([Some(at)]) = members(capabilities, ["extensions"]) else { return BTreeMap::new() };
    capabilities.get(at).and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
}
