//! The answer to `initialize`: what the servers of a view have and say together.

use std::sync::Arc;

use super::discover::{experimental, extensions_member};
use super::{Refusal, Relay};
use crate::catalog::View;
use crate::config::Instructions;
use crate::fleet::Snapshot;
use crate::mcp::{Asked, Hello, Offers, Revision, initialize_result};
use crate::names::Style;
use crate::session::Agreed;
use crate::upstream::Upstream;
use crate::wire::{self, Message};

use bytes::Bytes;

/// Longest instructions of one server among others', in characters.
const OF_ONE: usize = 2_000;
/// Longest instructions of all servers together, in characters.
const OF_ALL: usize = 16_000;

impl Relay {
    /// The answer to `initialize`, and what it agrees on. No server is asked.
    ///
    /// # Errors
    /// The refusal, where the message's `params` are of no use.
    pub fn initialize(&self, view: &View, message: &Message) -> Result<(Bytes, Agreed), Refusal> {
        let asked = Asked::parse(message.params().unwrap_or("{}")).map_err(Refusal::BadParams)?;
        let revision = Revision::negotiate(&asked.protocol_version);
        let snapshot = self.fleet.snapshot();
        let servers = servers(&snapshot, view);
        let capabilities = capabilities(view, &servers, revision);
        let instructions = instructions(view, &snapshot, &servers);
        let result = initialize_result(revision, &capabilities, &instructions);
        let agreed = Agreed {
            revision: revision.as_str().into(),
            capabilities: asked.capabilities.map_or("{}", |raw| raw.get()).into(),
            client: asked
                .client_info
                .map_or_else(String::new, |client| format!("{}/{}", client.name, client.version)),
        };
        Ok((wire::response(&message.id().unwrap_or_default(), result.as_bytes()), agreed))
    }
}

/// A server, and what it said of itself, if that is known.
pub(super) type Known = (Arc<Upstream>, Option<Arc<Hello>>);

/// The servers of `view` in the order of the file, with what each said of itself.
pub(super) fn servers(snapshot: &Snapshot, view: &View) -> Vec<Known> {
    let upstreams = snapshot.catalog.servers(view).filter_map(|name| snapshot.upstreams.get(name));
    upstreams.map(|upstream| (upstream.clone(), upstream.hello())).collect()
}

/// What the servers have together, and what one that nobody knows yet may have.
pub(super) fn offered(servers: &[Known]) -> Offers {
    let none = Offers { tools: true, ..Offers::default() };
    servers
        .iter()
        .fold(none, |all, (_, hello)| all.and(&hello.as_deref().map_or_else(Offers::unknown, offers)))
}

/// As a raw capabilities object.
fn capabilities(view: &View, servers: &[Known], revision: Revision) -> String {
    let written = offered(servers).write(revision >= Revision::V2025_11_25);
    let extensions = extensions_member(view, servers, revision);
    let experimental = experimental(view, servers).map(|raw| format!(r#","experimental":{raw}"#));
    let experimental = experimental.unwrap_or_default();
    format!("{}{extensions}{experimental}}}", written.strip_suffix('}').unwrap_or_default())
}

/// What a server has. In 2024-11-05 there was no way to tell that it completes.
fn offers(hello: &Hello) -> Offers {
    let old = hello.revision == Revision::V2024_11_05 && (hello.offers.prompts || hello.offers.resources);
    Offers { completions: hello.offers.completions || old, ..hello.offers.clone() }
}

/// What models are told of a server: the operator's words, or its own.
fn text((upstream, hello): &Known) -> Option<String> {
    match &upstream.server().instructions {
        Instructions::Own => hello.as_ref()?.instructions.as_deref().map(str::to_owned),
        Instructions::Text(text) => Some(text.clone()),
        Instructions::None => None,
    }
}

/// What models are told of the servers of `view`.
pub(super) fn instructions(view: &View, snapshot: &Snapshot, servers: &[Known]) -> String {
    match view {
        View::One(_) => servers.iter().find_map(text).unwrap_or_default(),
        View::All | View::Named(_) => joined(view, snapshot, servers),
    }
}

/// How names are made, then each server's own instructions.
fn joined(view: &View, snapshot: &Snapshot, servers: &[Known]) -> String {
    let naming = match view {
        View::Named(name) => {
            snapshot.config.views.get(name).map(|rules| rules.naming(&snapshot.config.naming))
        }
        View::All | View::One(_) => None,
    };
    let naming = naming.as_ref().unwrap_or(&snapshot.config.naming);
    let name = match naming.style {
        Style::Suffix => format!("each is named <name>{}<server>", naming.delimiter),
        Style::Prefix => format!("each is named <server>{}<name>", naming.delimiter),
        Style::Plain => "each has its server's own name".into(),
    };
    let mut all = format!("Tools and prompts of several servers are joined here; {name}.");
    let mut left = OF_ALL;
    for known in servers {
        let Some(text) = text(known) else { continue };
        let server = known.0.server();
        let title = server.title.as_deref().unwrap_or(server.name.as_str());
        let part = format!("\n\n## {title}\n\n{}", cut(&text, OF_ONE));
        left = left.saturating_sub(part.chars().count());
        if left == 0 {
            break;
        }
        all += &part;
    }
    all
}

/// The first `most` characters, and a sign where there are more.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{} …", text.get(..at).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}
