//! One server's entry.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::keys::{PROTOCOLS, SCOPES, SERVER, STYLES, TOOLS};
use super::model::{Protocol, Server, Tools};
use super::node::{Entry, Node, Value};
use super::problem::{Place, shown};
use super::reach;
use super::reader::{Fields, Reader};
use super::units;
use crate::names::{Naming, ServerName, Style};

const TIMEOUT: Duration = Duration::from_secs(60); // as the official SDKs
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30); // npx may have to download the server
const MAX_TOTAL: Duration = Duration::from_secs(30 * 60);

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
    not_yet(reader, &fields);
    reader.text(&fields, "description"); // ours to accept, but nobody reads it
    let timeout = time(reader, &fields, "timeout").unwrap_or(TIMEOUT);
    let mut server = Server {
        name: ServerName::expose(reader.text(&fields, "alias").as_deref().unwrap_or(&entry.key)),
        key: entry.key.clone(),
        title: reader.text(&fields, "title"),
        protocol: protocol(reader, &fields),
        eager: reader.flag(&fields, "startup").unwrap_or(true),
        timeout,
        connect_timeout: time(reader, &fields, "connectTimeout").unwrap_or(CONNECT_TIMEOUT),
        max_total: time(reader, &fields, "maxTotal").unwrap_or(MAX_TOTAL.max(timeout)),
        naming: self::naming(reader, &fields, naming),
        tools: tools(reader, &fields),
        updated_at: reader.parsed(&fields, "updatedAt", WHEN, units::time),
        reach: reach::read(reader, &fields, entry)?,
        secrets: Vec::new(),
    };
    server.secrets = std::mem::take(&mut reader.secrets);
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

/// Values that are fine by themselves, but that this version cannot act on.
fn not_yet(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    let place = |key: &str| fields.given(key).map_or(fields.place, |entry| entry.place);
    match reader.choice(fields, "scope", SCOPES) {
        None => {}
        Some("auto" | "shared") => reader.later(place("scope"), "scope".into()),
        Some(_) => reader.error(
            place("scope"),
            format!(
                "{} is not supported yet, and sharing the connection would be unsafe",
                fields.name("scope")
            ),
        ),
    }
    if reader.flag(fields, "requiresOAuth") == Some(true) {
        reader.later(place("requiresOAuth"), "requiresOAuth".into());
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
    if let (Some("modern" | "2026-07-28"), Some(entry)) = (word, fields.given("protocol")) {
        reader.later(entry.place, "protocol".into());
        return Protocol::Auto;
    }
    match word {
        None | Some("auto") => Protocol::Auto,
        Some("legacy") => Protocol::Legacy,
        Some(revision) => Protocol::Revision(revision.into()),
    }
}

/// The file's naming, or what an entry says in its place.
pub(super) fn naming(reader: &mut Reader<'_>, fields: &Fields<'_>, above: &Naming) -> Naming {
    let style = match reader.choice(fields, "naming", STYLES) {
        Some("suffix") => Style::Suffix,
        Some("prefix") => Style::Prefix,
        Some(_) => Style::Plain,
        None => above.style,
    };
    let what = "1 to 16 of the characters A-Z a-z 0-9 _ -";
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let delimiter = reader.parsed(fields, "delimiter", what, |text| {
        ((1..=16).contains(&text.len()) && text.chars().all(is_good)).then(|| text.to_owned())
    });
    Naming {
        style,
        delimiter: delimiter.unwrap_or_else(|| above.delimiter.clone()),
        max_length: above.max_length,
    }
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

fn plain(texts: Vec<(Place, String)>) -> Vec<String> {
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
