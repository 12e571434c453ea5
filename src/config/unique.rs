//! Server names that could be mistaken for one another.

use std::collections::HashMap;
use std::sync::Arc;

use super::model::Server;
use super::problem::{Place, shown};
use super::reader::Reader;
use crate::names::{Naming, Style};

/// What a tool's own name needs at least: eight digits of a hash, `_` and a letter.
const ROOM: usize = 10;

/// A server under the naming of a view.
pub(super) struct Named<'s> {
    pub(super) place: Place,
    pub(super) server: &'s Server,
    pub(super) naming: Naming,
}

/// Refuses what would let two tools of two servers take the same name. Without regard to case, as some clients compare.
pub(super) fn check(reader: &mut Reader<'_>, servers: &[(Place, Arc<Server>)]) {
    let mut names: HashMap<String, (usize, &str)> = HashMap::new();
    for (place, server) in servers {
        if server.key.is_empty() {
            reader.error(*place, "a server's key is empty");
        }
        let first = names.entry(folded(server)).or_insert((place.line, &server.key));
        if first.0 != place.line || first.1 != server.key {
            let (one, other, line) = (shown(&server.key), shown(first.1), first.0);
            let name = shown(server.name.as_str());
            let message =
                format!("servers {one} and {other} (line {line}) are both exposed as {name}; rename one");
            reader.error(*place, message);
        }
    }
    let servers = servers.iter().map(|(place, server)| {
        let naming = server.naming.clone();
        Named { place: *place, server, naming }
    });
    sides(reader, &servers.collect::<Vec<_>>(), "");
}

/// The part of it that depends on the naming. `of` says where, if not everywhere.
pub(super) fn sides(reader: &mut Reader<'_>, servers: &[Named<'_>], of: &str) {
    let mut sides: HashMap<(bool, String), (usize, &str)> = HashMap::new();
    for named in servers {
        length(reader, named, of);
        if let Some(side) = side(named) {
            sides.entry((is_last(named), side)).or_insert((named.place.line, &named.server.key));
        }
    }
    for named in servers {
        let Some(side) = side(named) else { continue };
        for part in parts(is_last(named), &side) {
            let Some((line, other)) = sides.get(&(is_last(named), part.to_owned())) else { continue };
            let (one, other) = (shown(&named.server.key), shown(other));
            let other = if of.is_empty() { format!("{other} (line {line})") } else { other };
            let message =
                format!("tools of server {one} could take names of server {other}{of}; rename one of them");
            reader.error(named.place, message);
        }
    }
}

fn folded(server: &Server) -> String {
    server.name.as_str().to_ascii_lowercase()
}

/// Whether the server stands last in its tools' names.
fn is_last(named: &Named<'_>) -> bool {
    named.naming.style == Style::Suffix
}

/// What stands beside a tool's own name: `_mcp_github`, or `github_mcp_`.
fn side(named: &Named<'_>) -> Option<String> {
    let (name, delimiter) = (folded(named.server), named.naming.delimiter.to_ascii_lowercase());
    match named.naming.style {
        Style::Suffix => Some(delimiter + &name),
        Style::Prefix => Some(name + &delimiter),
        Style::Plain => None,
    }
}

/// Every shorter end (or, of a prefix, beginning).
fn parts(is_last: bool, side: &str) -> impl Iterator<Item = &str> {
    (1..side.len()).filter_map(move |at| if is_last { side.get(at..) } else { side.get(..at) })
}

fn length(reader: &mut Reader<'_>, named: &Named<'_>, of: &str) {
    let (name, naming) = (named.server.name.as_str(), &named.naming);
    if naming.style == Style::Plain {
        return;
    }
    let key = shown(&named.server.key);
    let most = naming.max_length.saturating_sub(naming.delimiter.len() + ROOM);
    if name.len() > most {
        let message = format!(
            "server {key} has a name of {} characters, of which {most} fit{of}; give an `alias`",
            name.len()
        );
        reader.error(named.place, message);
    }
    if folded(named.server).contains(&naming.delimiter.to_ascii_lowercase()) {
        let message = format!("server {key} holds the delimiter `{}`{of}; rename it", naming.delimiter);
        reader.error(named.place, message);
    }
}
