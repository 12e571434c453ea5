//! The answer to `initialize`: what the servers of a view have and say together.

use std::sync::Arc;

use super::{Refusal, Relay};
use crate::catalog::View;
use crate::fleet::Snapshot;
use crate::mcp::{Asked, Hello, Offers, Revision, initialize_result};
use crate::names::Style;
use crate::session::Agreed;
use crate::upstream::Upstream;
use crate::wire::{self, Message, members};

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
        let instructions = match view {
            View::One(_) => {
                servers.iter().find_map(|(_, hello)| text(hello.as_deref()?)).unwrap_or_default().into()
            }
            View::All | View::Named(_) => joined(&snapshot, &servers),
        };
        let result = initialize_result(revision, &capabilities, &instructions);
        let agreed = Agreed {
            revision: revision.as_str().into(),
            capabilities: asked.capabilities.map_or("{}", |raw| raw.get()).into(),
            client: asked.client_info.unwrap_or_default().name,
        };
        Ok((wire::response(&message.id().unwrap_or_default(), result.as_bytes()), agreed))
    }
}

type Known = (Arc<Upstream>, Option<Arc<Hello>>);

/// The servers of `view` in the order of the file, with what each said of itself.
fn servers(snapshot: &Snapshot, view: &View) -> Vec<Known> {
    let upstreams = snapshot.catalog.servers(view).filter_map(|name| snapshot.upstreams.get(name));
    upstreams.map(|upstream| (upstream.clone(), upstream.hello())).collect()
}

/// What the servers have together, and what one that nobody knows yet may have.
fn capabilities(view: &View, servers: &[Known], revision: Revision) -> String {
    let none = Offers { tools: true, ..Offers::default() };
    let offers = servers
        .iter()
        .fold(none, |all, (_, hello)| all.and(&hello.as_deref().map_or_else(Offers::unknown, offers)));
    let mut written = offers.write(revision >= Revision::V2025_11_25);
    // What only its client and the server itself understand is between the two.
    if let (View::One(_), [(_, Some(hello))]) = (view, servers) {
        let raw = &*hello.capabilities;
        for (key, span) in ["experimental", "extensions"]
            .iter()
            .zip(members(raw, ["experimental", "extensions"]).into_iter().flatten())
        {
            if let Some(value) = span.and_then(|span| raw.get(span)) {
                written.truncate(written.len() - 1);
                written += &format!(r#","{key}":{value}}}"#);
            }
        }
    }
    written
}

/// What a server has. In 2024-11-05 there was no way to tell that it completes.
fn offers(hello: &Hello) -> Offers {
    let old = hello.revision == Revision::V2024_11_05 && (hello.offers.prompts || hello.offers.resources);
    Offers { completions: hello.offers.completions || old, ..hello.offers.clone() }
}

fn text(hello: &Hello) -> Option<&str> {
    hello.instructions.as_deref()
}

/// How names are made, then each server's own instructions.
fn joined(snapshot: &Snapshot, servers: &[Known]) -> String {
    let naming = &snapshot.config.naming;
    let name = match naming.style {
        Style::Suffix => format!("each is named <name>{}<server>", naming.delimiter),
        Style::Prefix => format!("each is named <server>{}<name>", naming.delimiter),
        Style::Plain => "each has its server's own name".into(),
    };
    let mut all = format!("Tools and prompts of several servers are joined here; {name}.");
    for (upstream, hello) in servers {
        let Some(text) = hello.as_deref().and_then(text) else { continue };
        let server = upstream.server();
        let part = format!(
            "\n\n## {}\n\n{}",
            server.title.as_deref().unwrap_or(server.name.as_str()),
            cut(text, OF_ONE)
        );
        if all.chars().count() + part.chars().count() > OF_ALL {
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
