//! Server names that could be mistaken for one another.

use std::collections::HashMap;
use std::sync::Arc;

use super::model::Server;
use super::problem::{Place, shown};
use super::reader::Reader;
use crate::names::Style;

/// What a tool's own name needs at least: eight digits of a hash, `_` and a letter.
const ROOM: usize = 10;

/// Refuses what would let two tools of two servers take the same name. Without regard to case, as some clients compare.
pub(super) fn check(reader: &mut Reader<'_>, servers: &[(Place, Arc<Server>)]) {
    let mut names: HashMap<String, (usize, &str)> = HashMap::new();
    let mut sides: HashMap<(bool, String), (usize, &str)> = HashMap::new();
    for (place, server) in servers {
        length(reader, *place, server);
        let first = names.entry(folded(server)).or_insert((place.line, &server.key));
        if first.0 != place.line || first.1 != server.key {
            let (one, other, line) = (shown(&server.key), shown(first.1), first.0);
            let name = shown(server.name.as_str());
            let message =
                format!("servers {one} and {other} (line {line}) are both exposed as {name}; rename one");
            reader.error(*place, message);
        }
        if let Some(side) = side(server) {
            sides.entry((is_last(server), side)).or_insert((place.line, &server.key));
        }
    }
    for (place, server) in servers {
        let Some(side) = side(server) else { continue };
        for part in parts(is_last(server), &side) {
            let Some((line, other)) = sides.get(&(is_last(server), part.to_owned())) else { continue };
            let (one, other) = (shown(&server.key), shown(other));
            let message = format!(
                "tools of server {one} could take names of server {other} (line {line}); rename one of them"
            );
            reader.error(*place, message);
        }
    }
}

fn folded(server: &Server) -> String {
    server.name.as_str().to_ascii_lowercase()
}

/// Whether the server stands last in its tools' names.
fn is_last(server: &Server) -> bool {
    server.naming.style == Style::Suffix
}

/// What stands beside a tool's own name: `_mcp_github`, or `github_mcp_`.
fn side(server: &Server) -> Option<String> {
    let (name, delimiter) = (folded(server), server.naming.delimiter.to_ascii_lowercase());
    match server.naming.style {
        Style::Suffix => Some(delimiter + &name),
        Style::Prefix => Some(name + &delimiter),
        Style::Plain => None,
    }
}

/// Every shorter end (or, of a prefix, beginning).
fn parts(is_last: bool, side: &str) -> impl Iterator<Item = &str> {
    (1..side.len()).filter_map(move |at| if is_last { side.get(at..) } else { side.get(..at) })
}

fn length(reader: &mut Reader<'_>, place: Place, server: &Server) {
    let (name, naming) = (server.name.as_str(), &server.naming);
    if server.key.is_empty() {
        reader.error(place, "a server's key is empty");
    }
    if naming.style == Style::Plain {
        return;
    }
    let most = naming.max_length.saturating_sub(naming.delimiter.len() + ROOM);
    if name.len() > most {
        let key = shown(&server.key);
        let message = format!(
            "server {key} has a name of {} characters, of which {most} fit; give an `alias`",
            name.len()
        );
        reader.error(place, message);
    }
    if folded(server).contains(&naming.delimiter.to_ascii_lowercase()) {
        let message =
            format!("server {} holds the delimiter `{}`; rename it", shown(&server.key), naming.delimiter);
        reader.error(place, message);
    }
}
