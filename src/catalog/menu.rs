//! One view's share of the catalog: what is in it, how it is called there, and its lists.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::audience::Audience;
use super::filter::any;
use super::item::Item;
use super::list::{BadCursor, List, Place, Rendered, Start};
use super::manner::Manner;
use super::part::Part;
use crate::config::{Server, UriMode, ViewRules};
use crate::mcp::Feature;
use crate::names::ServerName;
use crate::names::uri::{self, Template};

/// What a menu is made of.
#[derive(Debug)]
pub(super) struct Stock {
    /// How names are given; none where a server's own view has its own names.
    pub(super) rules: Option<ViewRules>,
    /// Its servers, in order.
    pub(super) shares: Vec<Share>,
}

/// A server in a view.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) server: Arc<Server>,
    /// What it has, if that is known.
    pub(super) part: Option<Arc<Part>>,
}

/// Everything that a view has at one moment.
#[derive(Debug)]
pub(super) struct Menu {
    stock: Stock,
    lists: [List; 4],
    /// The templates that can be matched and whose they are, those with most literal characters first.
    templates: Vec<(Arc<Template>, usize)>,
    /// Servers whose URIs are prefixed here, by label.
    labels: HashMap<String, usize>,
    /// What names of each server end with, the longest first.
    tails: Vec<(String, usize)>,
}

/// An item that was found, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) server: &'a Server,
    pub(super) item: &'a Item,
}

impl PartialEq for Stock {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.shares == other.shares
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.part.as_ref().map(Arc::as_ptr) == other.part.as_ref().map(Arc::as_ptr)
            && (Arc::ptr_eq(&self.server, &other.server) || self.server == other.server)
    }
}

impl Menu {
    /// The menu of `stock`, in place of the one `before`: what was read of that will be read of this, and is made at once.
    pub(super) fn build(stock: Stock, before: Option<&Self>) -> Self {
        let lists = Feature::ALL.map(|feature| list(&stock, feature));
        let mut menu = Self { stock, lists, templates: vec![], labels: HashMap::new(), tails: vec![] };
        for (before, feature) in before.into_iter().flat_map(|before| Feature::ALL.map(|f| (before, f))) {
            for audience in before.list(feature).readers() {
                menu.rendered(feature, audience);
            }
        }
        menu.templates = menu.matched();
        if let Some(rules) = &menu.stock.rules {
            for (number, Share { server, .. }) in menu.stock.shares.iter().enumerate() {
                menu.tails.extend(rules.naming(&server.naming).tail(&server.name).map(|tail| (tail, number)));
                if server.uri_mode == UriMode::Prefixed {
                    menu.labels.insert(uri::label(&server.name), number);
                }
            }
        }
        menu.tails.sort_by_key(|(tail, _)| Reverse(tail.len()));
        menu
    }

    /// The listed templates that are not found by a prefix.
    fn matched(&self) -> Vec<(Arc<Template>, usize)> {
        let template = |(name, place): (&str, Place)| {
            let part = self.stock.shares.get(place.share)?.part.as_ref()?;
            let is_own = *part.of(Feature::Template).get(place.item)?.name == *name;
            is_own.then_some((part.template(place.item)?.clone(), place.share))
        };
        let mut templates: Vec<_> = self.list(Feature::Template).places().filter_map(template).collect();
        templates.sort_by_key(|(template, _)| Reverse(template.literals()));
        templates
    }

    /// Whether it is made of `stock`.
    pub(super) fn is_of(&self, stock: &Stock) -> bool {
        self.stock == *stock
    }

    /// Whether it reads differently for another reason than that servers came, went or changed.
    pub(super) fn is_rearranged(&self, before: &Self) -> bool {
        let both = |one: &Self, other: &Self| -> Vec<ServerName> {
            one.servers().filter(|name| other.servers().any(|other| other == *name)).cloned().collect()
        };
        let moved = || both(self, before) != both(before, self);
        let all = Audience { ui: true, ..Audience::default() };
        let text = |menu: &Self, feature| menu.rendered(feature, all).text().clone();
        let reads_as = |feature: &Feature| text(self, *feature) == text(before, *feature);
        (self.stock.rules != before.stock.rules || moved()) && !Feature::ALL.iter().all(reads_as)
    }

    /// The result of listing `feature` to `audience`: at most `size` items from there on.
    pub(super) fn page(
        &self,
        feature: Feature,
        audience: Audience,
        start: Start<'_>,
        size: usize,
    ) -> Result<Bytes, BadCursor> {
        self.list(feature).page(self.rendered(feature, audience), start, size)
    }

    fn rendered(&self, feature: Feature, audience: Audience) -> &Rendered {
        self.list(feature).rendered(audience).unwrap_or_else(|| self.render(feature, audience))
    }

    fn render(&self, feature: Feature, audience: Audience) -> &Rendered {
        let rules = self.stock.rules.as_ref();
        let shares = self.stock.shares.iter();
        let manners: Vec<_> = shares.map(|share| Manner::new(rules, feature, &share.server)).collect();
        self.list(feature).render(audience, |name, place, out| {
            let found = manners.get(place.share).zip(self.at(feature, place));
            let Some((manner, Found { item, .. })) = found.filter(|(_, found)| found.item.is_for(audience))
            else {
                return false;
            };
            item.write(out, &mut manner.edits(item, name, audience));
            true
        })
    }

    pub(super) fn list(&self, feature: Feature) -> &List {
        let [tools, prompts, resources, templates] = &self.lists;
        match feature {
            Feature::Tool => tools,
            Feature::Prompt => prompts,
            Feature::Resource => resources,
            Feature::Template => templates,
        }
    }

    /// The item called `name` here.
    pub(super) fn find(&self, feature: Feature, name: &str) -> Option<Found<'_>> {
        self.at(feature, self.list(feature).find(name)?)
    }

    fn at(&self, feature: Feature, place: Place) -> Option<Found<'_>> {
        let share = self.stock.shares.get(place.share)?;
        Some(Found { server: &share.server, item: share.part.as_ref()?.of(feature).get(place.item)? })
    }

    /// Whose a URI is that is not listed here, and its own form.
    pub(super) fn owner<'u>(&self, uri: &'u str) -> Option<(&ServerName, Cow<'u, str>)> {
        if self.stock.rules.is_none() {
            // A server knows its own URIs best.
            return Some((self.servers().next()?, Cow::Borrowed(uri)));
        }
        if let Some((label, own)) = uri::split(uri)
            && let Some(share) = self.labels.get(&label)
        {
            return Some((self.server(*share)?, own));
        }
        let name = self.templated(uri).or_else(|| {
            let owner = self.stock.shares.iter().find(|share| any(&share.server.owns, uri));
            owner.map(|share| &share.server.name)
        });
        Some((name?, Cow::Borrowed(uri)))
    }

    /// Whose template `uri` comes of: as the RFC expands it, or else as servers read it.
    fn templated(&self, uri: &str) -> Option<&ServerName> {
        let first = |fits: fn(&Template, &str) -> bool| self.templates.iter().find(|(t, _)| fits(t, uri));
        let (_, share) = first(Template::expands_to).or_else(|| first(Template::resembles))?;
        self.server(*share)
    }

    fn server(&self, share: usize) -> Option<&ServerName> {
        self.stock.shares.get(share).map(|share| &share.server.name)
    }

    /// The server whose names end as `name` does.
    pub(super) fn by_tail(&self, name: &str) -> Option<&ServerName> {
        let (_, number) = self.tails.iter().find(|(tail, _)| name.ends_with(tail))?;
        self.server(*number)
    }

    /// All of its servers.
    pub(super) fn servers(&self) -> impl Iterator<Item = &ServerName> {
        self.stock.shares.iter().map(|share| &share.server.name)
    }

    /// Whether URIs of `server` are prefixed here.
    pub(super) fn prefixes(&self, server: &ServerName) -> bool {
        self.labels.contains_key(&uri::label(server))
    }
}

/// All of one kind. Whoever comes first keeps a name.
fn list(stock: &Stock, feature: Feature) -> List {
    let mut list = List::new(feature);
    for (share, Share { server, part }) in stock.shares.iter().enumerate() {
        let Some(part) = part else { continue };
        let manner = Manner::new(stock.rules.as_ref(), feature, server);
        for (item, listed) in part.of(feature).iter().enumerate() {
            if !manner.shows(listed) {
                continue;
            }
            let Some(name) = manner.names(listed).find(|name| list.is_free(name)) else { continue };
            let place = Place { share, item };
            list.add(name.into(), place, listed.varies());
        }
    }
    list
}
