//! One server's share of the catalog.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::filter::offers;
use super::listing::{Item, Listing};
use crate::config::Server;
use crate::mcp::Feature;
use crate::names::{Naming, ServerName, Style};
use crate::wire::{Text, quoted};

/// One server's listing under its settings: what it is called and how it reads in each view. Made anew only when one
/// of the two changes.
#[derive(Debug)]
pub struct Part {
    pub(super) server: Arc<Server>,
    pub(super) tools: Vec<Tool>,
    pub(super) by_raw: HashMap<Box<str>, usize>,
    /// The tools as they read in the server's own view, joined by commas.
    pub(super) plain: Bytes,
}

#[derive(Debug)]
pub(super) struct Tool {
    /// The server's own name as JSON: what goes into a call.
    pub(super) raw: Bytes,
    /// The name in aggregating views.
    pub(super) exposed: Box<str>,
    /// The name where another server already has `exposed`.
    pub(super) fallback: Option<Box<str>>,
    /// The tool's JSON before and after its name.
    pub(super) around: (Bytes, Bytes),
    /// Whether `exposed` had to be altered to fit.
    pub(super) altered: bool,
}

impl Part {
    /// The share of `server`, whose tools are `listing`.
    pub fn build(server: Arc<Server>, listing: &Listing, describe_origin: bool) -> Self {
        let mut tools = Vec::new();
        let mut by_raw = HashMap::new();
        let mut plain = BytesMut::new();
        for item in listing.of(Feature::Tool).iter().filter(|item| offers(&server.tools, &item.name)) {
            if !plain.is_empty() {
                plain.put_u8(b',');
            }
            plain.put(described(item, &server, false));
            by_raw.insert(item.name.clone(), tools.len());
            tools.push(Tool::new(item, &server, describe_origin));
        }
        Self { server, tools, by_raw, plain: plain.freeze() }
    }

    /// The server.
    pub fn server(&self) -> &ServerName {
        &self.server.name
    }

    /// How many tools it offers.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether it offers none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tools whose names had to be altered to fit: the server's own name as JSON and the exposed one.
    pub fn altered(&self) -> impl Iterator<Item = (&Bytes, &str)> {
        self.tools.iter().filter(|tool| tool.altered).map(|tool| (&tool.raw, &*tool.exposed))
    }
}

impl Tool {
    fn new(item: &Item, server: &Server, describe_origin: bool) -> Self {
        let base = server.tools.rename.get(&*item.name).map_or(&*item.name, |name| name.as_str());
        let exposed = server.naming.expose(base, &server.name);
        let fallback = (server.naming.style == Style::Plain).then(|| {
            let naming = Naming { style: Style::Suffix, ..server.naming.clone() };
            naming.expose(base, &server.name).name.into()
        });
        let text = described(item, server, describe_origin);
        // The name's place may have moved when the description before it changed.
        let name_at = crate::wire::members(std::str::from_utf8(&text).unwrap_or_default(), ["name"])
            .ok()
            .and_then(|[name]| name)
            .unwrap_or(item.name_at.clone());
        let around = (text.slice(..name_at.start), text.slice(name_at.end..));
        let raw = item.text.slice(item.name_at.clone());
        Self { raw, exposed: exposed.name.into(), fallback, around, altered: exposed.altered }
    }
}

/// The tool's JSON with the description that the operator wants.
fn described(item: &Item, server: &Server, origin: bool) -> Bytes {
    let own = server.tools.describe.get(&*item.name);
    let title = server.title.as_deref().filter(|_| origin);
    if own.is_none() && title.is_none() {
        return item.text.clone();
    }
    let theirs = item.description_at.clone().and_then(|span| item.text.get(span)).unwrap_or_default();
    let theirs = std::str::from_utf8(theirs).ok().and_then(Text::of).unwrap_or_default();
    let text = own.map_or(&*theirs, |text| text.as_str());
    let text = quoted(&title.map_or_else(|| text.to_owned(), |title| format!("[{title}] {text}")));
    let mut out = BytesMut::with_capacity(item.text.len() + text.len() + 16);
    if let Some(at) = &item.description_at {
        out.put(item.text.slice(..at.start));
        out.put_slice(text.as_bytes());
        out.put(item.text.slice(at.end..));
    } else {
        out.put(item.text.slice(..item.name_at.end));
        out.put_slice(b",\"description\":");
        out.put_slice(text.as_bytes());
        out.put(item.text.slice(item.name_at.end..));
    }
    out.freeze()
}
