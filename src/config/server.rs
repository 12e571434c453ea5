//! One server's entry.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::keys::{PROTOCOLS, SCOPES, SERVER, STYLES, TOOLS, URI_MODES};
use super::model::{Instructions, Protocol, Scope, Server, Tools, UriMode};
use super::node::{Entry, Node, Value};
use super::problem::{Place, shown};
use super::reader::{Fields, Reader};
use super::{care, reach, roots, units};
use crate::names::{Naming, ServerName, Style};

/// Reads an entry. One that is switched off is not looked at further: its secrets may well be missing.
pub(super) fn read(reader: &mut Reader<'_>, entry: &Entry, naming: &Naming) -> Option<Arc<Server>> {
    let what = format!("server {}", shown(&entry.key));
    let of = format!(" of {what}");
    if is_off(reader, &entry.value, &of) {
        return None;
    }
    let fields = reader.fields(&entry.value, SERVER, &what, &of)?;
    reader.warn_unknown(&fields, SERVER);
    reader.custom = custom(&entry.value);
    reader.own.clear();
    reader.secrets.clear();
    oauth(reader, &fields);
    reader.text(&fields, "description"); // ours to accept, but nobody reads it
    let name = ServerName::expose(reader.text(&fields, "alias").as_deref().unwrap_or(&entry.key));
    let title = reader.text(&fields, "title");
    let protocol = protocol(reader, &fields);
    let eager = reader.flag(&fields, "startup").unwrap_or(true);
    let times = ["timeout", "connectTimeout", "maxTotal"].map(|key| time(reader, &fields, key));
    let naming = self::naming(reader, &fields, naming);
    let tools = tools(reader, &fields);
    let (uri_mode, owns) = (uri_mode(reader, &fields), plain(reader.texts(&fields, "owns")));
    let scope = scope(reader, &fields);
    let interactive = reader.flag(&fields, "interactive").unwrap_or(false);
    let replay = reader.flag(&fields, "replay").unwrap_or(false);
    let care = care::read(reader, &fields);
    let roots = roots::read(reader, &fields);
    let instructions = instructions(reader, &fields);
    let updated_at = reader.parsed(&fields, "updatedAt", WHEN, units::time);
    let (reach, personal) = reach::read(reader, &fields, entry)?;
    let secrets = std::mem::take(&mut reader.secrets);
    let mut server = Server { name, title, protocol, eager, naming, tools, ..Server::new(&entry.key, reach) };
    server = Server {
        uri_mode,
        owns,
        scope,
        interactive,
        replay,
        care,
        roots,
        instructions,
        updated_at,
        secrets,
        personal: personal.map(Arc::new),
        ..server
    };
    let [timeout, connect_timeout, max_total] = times;
    server.timeout = timeout.unwrap_or(server.timeout);
    server.connect_timeout = connect_timeout.unwrap_or(server.connect_timeout);
    server.max_total = max_total.unwrap_or(server.max_total.max(server.timeout));
    Some(Arc::new(server))
}

const WHEN: &str = "a time such as 2026-11-30T12:00:00Z or milliseconds since 1970";

fn is_off(reader: &mut Reader<'_>, node: &Node, of: &str) -> bool {
    let fields = Fields::only(node, &["enabled", "disabled"], of);
    let enabled = reader.flag(&fields, "enabled");
    let disabled = reader.flag(&fields, "disabled");
    if let (Some(true), Some(true), Some(entry)) = (enabled, disabled, fields.given("disabled")) {
        reader.error(entry.place, format!("{} contradicts `enabled`", fields.name("disabled")));
    }
    enabled == Some(false) || disabled == Some(true)
}

/// What `LibreChat` would ask its users for.
fn custom(node: &Node) -> HashSet<String> {
    match node.child("customUserVars").map(|node| &node.value) {
        Some(Value::Map(entries)) => entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => HashSet::new(),
    }
}

/// A hint that is fine by itself, but that this version cannot act on.
fn oauth(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    if reader.flag(fields, "requiresOAuth") == Some(true) {
        let place = fields.given("requiresOAuth").map_or(fields.place, |entry| entry.place);
        reader.later(place, "requiresOAuth".into());
    }
}

fn scope(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Scope {
    let place = fields.given("scope").map_or(fields.place, |entry| entry.place);
    let scope = match reader.choice(fields, "scope", SCOPES) {
        None | Some("auto") => return Scope::Auto,
        Some("session") => return Scope::Session,
        Some("principal") => Scope::Principal,
        Some("request") => Scope::Request,
        Some(_) => Scope::Shared,
    };
    if reader.flag(fields, "interactive") == Some(true) {
        reader.error(place, format!("{} contradicts `interactive`", fields.name("scope")));
    }
    scope
}

fn uri_mode(reader: &mut Reader<'_>, fields: &Fields<'_>) -> UriMode {
    match reader.choice(fields, "uriMode", URI_MODES) {
        Some("prefixed") => UriMode::Prefixed,
        _ => UriMode::Passthrough,
    }
}

/// A text, or a flag for the server's own.
fn instructions(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Instructions {
    match reader.text(fields, "instructions") {
        None => Instructions::Own,
        Some(text) => match text.trim() {
            "true" => Instructions::Own,
            "false" | "" => Instructions::None,
            _ => Instructions::Text(text),
        },
    }
}

/// A time limit. A bare number that small was hardly meant as milliseconds.
fn time(reader: &mut Reader<'_>, fields: &Fields<'_>, key: &str) -> Option<Duration> {
    let time = reader.duration(fields, key)?;
    if let Some(Node { place, value: Value::Scalar { text, .. } }) = fields.get(key)
        && time < Duration::from_secs(1)
        && text.bytes().all(|b| b.is_ascii_digit())
    {
        let message = format!("{} is {text} milliseconds; write `{text}s` for seconds", fields.name(key));
        reader.warn(*place, message);
    }
    Some(time)
}

fn protocol(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Protocol {
    let word = reader.choice(fields, "protocol", PROTOCOLS);
    match word {
        None | Some("auto") => Protocol::Auto,
        Some("legacy") => Protocol::Legacy,
        Some("modern") => Protocol::Modern,
        Some(revision) => Protocol::Revision(revision.into()),
    }
}

/// The file's naming, or what an entry says in its place.
pub(super) fn naming(reader: &mut Reader<'_>, fields: &Fields<'_>, above: &Naming) -> Naming {
    Naming {
        style: style(reader, fields).unwrap_or(above.style),
        delimiter: delimiter(reader, fields).unwrap_or_else(|| above.delimiter.clone()),
        max_length: above.max_length,
    }
}

pub(super) fn style(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Style> {
    Some(match reader.choice(fields, "naming", STYLES)? {
        "suffix" => Style::Suffix,
        "prefix" => Style::Prefix,
        _ => Style::Plain,
    })
}

pub(super) fn delimiter(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<String> {
    let what = "1 to 16 of the characters A-Z a-z 0-9 _ -";
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    reader.parsed(fields, "delimiter", what, |text| {
        ((1..=16).contains(&text.len()) && text.chars().all(is_good)).then(|| text.to_owned())
    })
}

fn tools(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Tools {
    let mut tools = Tools::default();
    if let Some(node) = fields.get("tools") {
        let name = fields.name("tools");
        if let Some(inner) = reader.fields(node, TOOLS, &name, &format!(" of {name}")) {
            reader.refuse_unknown(&inner, TOOLS); // a filter that is not read lets everything through
            tools.allow = plain(reader.texts(&inner, "allow"));
            tools.deny = plain(reader.texts(&inner, "deny"));
            let renamed = reader.map(&inner, "rename");
            refuse_twins(reader, &renamed, &inner.name("rename"));
            tools.rename = renamed.into_iter().map(|(entry, name)| (entry.key.clone(), name)).collect();
            let described = reader.map(&inner, "describe");
            tools.describe = described.into_iter().map(|(entry, text)| (entry.key.clone(), text)).collect();
        }
    }
    tools.deny.extend(plain(reader.texts(fields, "disabledTools")));
    tools
}

pub(super) fn plain(texts: Vec<(Place, String)>) -> Vec<String> {
    texts.into_iter().map(|(_, text)| text).collect()
}

/// Two tools of one server cannot take the same name.
fn refuse_twins(reader: &mut Reader<'_>, renamed: &[(&Entry, String)], name: &str) {
    let mut places = HashMap::new();
    for (entry, to) in renamed {
        let first = *places.entry(to).or_insert(entry.place);
        if first != entry.place {
            let (key, line) = (shown(&entry.key), first.line);
            reader
                .error(entry.place, format!("{key} in {name} takes the same name as the one in line {line}"));
        }
    }
}
