//! One server's share of the catalog.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::filter::passes;
use super::item::Item;
use super::listing::Listing;
use crate::config::Server;
use crate::mcp::{BadAnnotation, Feature, ParamHeader};
use crate::names::uri::Template;
use crate::wire::quoted;

/// One server's listing under its own settings, in the server's order. Made anew only when one of the two changes, and
/// shared by all views.
#[derive(Debug)]
pub struct Part {
    server: Arc<Server>,
    kinds: [Vec<Item>; 4],
    /// Of each resource template how to match it; none for one that cannot be.
    templates: Vec<Option<Arc<Template>>>,
    faults: Vec<Fault>,
}

/// A tool that asks for headers in a wrong way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The server's own name of it.
    pub tool: Box<str>,
    /// What is wrong.
    pub why: BadAnnotation,
    /// The tool is left out; else what is wrong is.
    pub dropped: bool,
}

/// Most headers of one tool that are read.
const ASKED: usize = 64;
/// Templates of one server that are matched; more are only found by their own text.
const MATCHED: usize = 1_000;

impl Part {
    /// The share of `server`, which has `listing`.
    pub fn build(server: Arc<Server>, listing: &Listing) -> Self {
        let (tools, mut faults) = (&server.tools, Vec::new());
        let kinds = Feature::ALL.map(|feature| {
            let all = listing.of(feature).iter();
            if feature != Feature::Tool {
                return all.cloned().collect();
            }
            let offered = all.filter(|item| passes(&tools.allow, &tools.deny, &item.name));
            let described = offered.map(|item| described(item, tools.describe.get(&*item.name)));
            described.filter_map(|item| annotated(item, listing.mirrors, &mut faults)).collect()
        });
        let templates = listing.of(Feature::Template).iter().take(MATCHED);
        let templates = templates.map(|item| Template::parse(&item.name).map(Arc::new)).collect();
        Self { server, kinds, templates, faults }
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The tools that ask for headers in a wrong way.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// What it has of one kind.
    pub(super) fn of(&self, feature: Feature) -> &[Item] {
        self.kinds.get(feature.index()).map_or(&[], Vec::as_slice)
    }

    /// How to match the resource template at `index`.
    pub(super) fn template(&self, index: usize) -> Option<&Arc<Template>> {
        self.templates.get(index)?.as_ref()
    }

    /// How much of a kind it offers.
    pub fn count(&self, feature: Feature) -> usize {
        self.of(feature).len()
    }

    /// The tools and prompts whose names have to be altered to fit where all servers are together: the server's own name
    /// as JSON and the exposed one.
    pub fn altered(&self) -> impl Iterator<Item = (Bytes, String)> {
        let items = [Feature::Tool, Feature::Prompt].into_iter().flat_map(move |feature| {
            self.of(feature).iter().map(move |item| (item, base(&self.server, feature, item)))
        });
        items.filter_map(|(item, base)| {
            let exposed = self.server.naming.expose(base, &self.server.name);
            exposed.altered.then(|| (item.raw(), exposed.name))
        })
    }
}

/// The name of a tool or prompt before the server's is added: the operator's, or else its own.
pub(super) fn base<'a>(server: &'a Server, feature: Feature, item: &'a Item) -> &'a str {
    let renamed = if feature == Feature::Tool { server.tools.rename.get(&*item.name) } else { None };
    renamed.map_or(&*item.name, String::as_str)
}

/// The tool with the operator's description, if there is one.
fn described(item: &Item, description: Option<&String>) -> Item {
    let anew = description.and_then(|description| {
        let mut text = BytesMut::with_capacity(item.text.len() + description.len());
        item.write(&mut text, &mut [item.described(&quoted(description))]);
        Item::parse(&text.freeze(), Feature::Tool)
    });
    anew.unwrap_or_else(|| item.clone())
}

/// The tool with the headers that it asks for. One that asks in a wrong way is noted: if its server `mirrors` it is left out
/// (specification of 2026-07-28, `server/tools`, "x-mcp-header"), else what is wrong of it.
fn annotated(mut item: Item, mirrors: bool, faults: &mut Vec<Fault>) -> Option<Item> {
    for _ in 0..ASKED {
        let Some(schema_at) = item.input_at.clone() else { break };
        let why = match ParamHeader::all(item.slice(&schema_at)) {
            Ok(headers) if headers.is_empty() => break,
            Ok(headers) => {
                item.headers = headers.into();
                break;
            }
            Err(why) => why,
        };
        let cut = why.cut.start + schema_at.start..why.cut.end + schema_at.start;
        let mut text = BytesMut::with_capacity(item.text.len());
        item.write(&mut text, &mut [(cut, String::new())]);
        let rest = Item::parse(&text.freeze(), Feature::Tool).filter(|_| !mirrors);
        faults.push(Fault { tool: item.name.clone(), why, dropped: rest.is_none() });
        item = rest?;
    }
    Some(item)
}
