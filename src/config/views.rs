//! Views of the operator's making.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;

use super::keys::{VIEW, VIEW_TOOLS};
use super::model::Server;
use super::near::nearest;
use super::node::{Entry, Value};
use super::problem::{Place, shown, shown_all};
use super::reader::{Fields, Reader};
use super::{server, unique};
use crate::names::{Naming, ServerName, Style};

/// A view of the operator's making: what it takes from the servers' own settings and what it changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViewRules {
    /// Which servers are in it, in the order of its lists; all, in the order of the file, where absent.
    pub servers: Option<Vec<ServerName>>,
    /// Globs on the servers' own names of tools, beside those of each server; empty allows all.
    pub allow: Vec<String>,
    /// Globs on the servers' own names of tools; denied even if allowed.
    pub deny: Vec<String>,
    /// In place of every server's own style.
    pub style: Option<Style>,
    /// In place of every server's own delimiter.
    pub delimiter: Option<String>,
    /// In place of the file's [`Config::describe_origin`](super::Config::describe_origin).
    pub describe_origin: Option<bool>,
}

impl ViewRules {
    /// How the view names the things of a server whose own naming is `own`.
    pub fn naming(&self, own: &Naming) -> Naming {
        Naming {
            style: self.style.unwrap_or(own.style),
            delimiter: self.delimiter.clone().unwrap_or_else(|| own.delimiter.clone()),
            max_length: own.max_length,
        }
    }
}

type Known = [(Place, Arc<Server>)];

/// The entries in the order of the file.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    known: &Known,
) -> IndexMap<Arc<str>, ViewRules> {
    let Some(node) = fields.get("views") else { return IndexMap::new() };
    let Value::Map(entries) = &node.value else {
        reader.error(node.place, format!("{} must be a mapping, not {}", fields.name("views"), node.kind()));
        return IndexMap::new();
    };
    let mut taken: HashMap<String, String> = HashMap::new();
    for (_, server) in known {
        taken.insert(folded(server.name.as_str()), format!("server {}", shown(&server.key)));
    }
    let mut views = IndexMap::new();
    for entry in entries {
        let what = format!("view {}", shown(&entry.key));
        name(reader, entry, &what);
        if let Some(other) = taken.insert(folded(&entry.key), what.clone()) {
            reader.error(entry.place, format!("{what} and {other} would have the same path; rename one"));
        }
        if let Some(rules) = rules(reader, entry, &what, fields, known) {
            views.insert(entry.key.as_str().into(), rules);
        }
    }
    views
}

fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// It stands in a path.
fn name(reader: &mut Reader<'_>, entry: &Entry, what: &str) {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=64).contains(&entry.key.len()) || !entry.key.chars().all(is_good) {
        let message = format!("the name of {what} must be 1 to 64 of the characters A-Z a-z 0-9 _ -");
        reader.error(entry.place, message);
    }
}

fn rules(
    reader: &mut Reader<'_>,
    entry: &Entry,
    what: &str,
    all: &Fields<'_>,
    known: &Known,
) -> Option<ViewRules> {
    let fields = reader.fields(&entry.value, VIEW, what, &format!(" of {what}"))?;
    reader.refuse_unknown(&fields, VIEW); // a filter that is not read lets everything through
    let mut rules = ViewRules {
        servers: servers(reader, &fields, all, known),
        style: server::style(reader, &fields),
        delimiter: server::delimiter(reader, &fields),
        describe_origin: reader.flag(&fields, "describeOrigin"),
        ..ViewRules::default()
    };
    if let Some(node) = fields.get("tools") {
        let name = fields.name("tools");
        if let Some(inner) = reader.fields(node, VIEW_TOOLS, &name, &format!(" of {name}")) {
            reader.refuse_unknown(&inner, VIEW_TOOLS);
            rules.allow = server::plain(reader.texts(&inner, "allow"));
            rules.deny = server::plain(reader.texts(&inner, "deny"));
        }
    }
    if rules.style.is_some() || rules.delimiter.is_some() {
        unambiguous(reader, entry.place, what, &rules, known);
    }
    Some(rules)
}

/// Under the view's own naming, too, no two servers may take the same names.
fn unambiguous(reader: &mut Reader<'_>, place: Place, what: &str, rules: &ViewRules, known: &Known) {
    let inside = |server: &Server| rules.servers.as_ref().is_none_or(|names| names.contains(&server.name));
    let inside = known.iter().map(|(_, server)| server).filter(|server| inside(server));
    let named = inside.map(|server| unique::Named { place, server, naming: rules.naming(&server.naming) });
    unique::sides(reader, &named.collect::<Vec<_>>(), &format!(" in {what}"));
}

/// Names of servers: the key as written, or the name as exposed.
fn servers(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    all: &Fields<'_>,
    known: &Known,
) -> Option<Vec<ServerName>> {
    fields.get("servers")?;
    let of = fields.name("servers");
    let mut names = vec![];
    for (place, text) in reader.texts(fields, "servers") {
        match known.iter().find(|(_, server)| server.key == text || server.name.as_str() == text) {
            Some((_, server)) if names.contains(&server.name) => {
                reader.error(place, format!("{} stands in {of} twice", shown(&server.key)));
            }
            Some((_, server)) => names.push(server.name.clone()),
            // Switched off, and so it is here; or wrong, and that is told elsewhere.
            None if all.get("mcpServers").is_some_and(|entries| entries.child(&text).is_some()) => {}
            None => {
                let keys = || known.iter().map(|(_, server)| server.key.as_str());
                let hint = match nearest(&text, keys()) {
                    Some(key) => format!("; did you mean {}?", shown(key)),
                    None => format!("; there are {}", shown_all(keys())),
                };
                reader.error(place, format!("an item of {of} is no server's key{hint}"));
            }
        }
    }
    Some(names)
}
