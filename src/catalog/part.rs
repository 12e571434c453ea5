//! One server's share of the catalog.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::filter::passes;
use super::item::Item;
use super::listing::Listing;
use crate::config::Server;
use crate::mcp::Feature;
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
}

/// Templates of one server that are matched; more are only found by their own text.
const MATCHED: usize = 1_000;

impl Part {
    /// The share of `server`, which has `listing`.
    pub fn build(server: Arc<Server>, listing: &Listing) -> Self {
        let tools = &server.tools;
        let kinds = Feature::ALL.map(|feature| {
            let all = listing.of(feature).iter();
            if feature != Feature::Tool {
                return all.cloned().collect();
            }
            let offered = all.filter(|item| passes(&tools.allow, &tools.deny, &item.name));
            offered.map(|item| described(item, tools.describe.get(&*item.name))).collect()
        });
        let templates = listing.of(Feature::Template).iter().take(MATCHED);
        let templates = templates.map(|item| Template::parse(&item.name).map(Arc::new)).collect();
        Self { server, kinds, templates }
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
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
