//! How a view shows what a server has.

use super::audience::Audience;
use super::filter::passes;
use super::item::Item;
use super::part::base;
use crate::config::{Server, UriMode, ViewRules};
use crate::mcp::Feature;
use crate::names::{Naming, Style, uri};
use crate::wire::{Span, quoted};

/// How a view shows what one server has of one kind.
pub(super) struct Manner<'a> {
    feature: Feature,
    server: &'a Server,
    /// None in a server's own view.
    joined: Option<Joined<'a>>,
}

struct Joined<'a> {
    rules: &'a ViewRules,
    naming: Naming,
    /// What stands before descriptions, as it stands in a JSON string.
    title: Option<String>,
}

impl<'a> Manner<'a> {
    pub(super) fn new(rules: Option<&'a ViewRules>, feature: Feature, server: &'a Server) -> Self {
        let joined = rules.map(|rules| Joined {
            rules,
            naming: rules.naming(&server.naming),
            title: server
                .title
                .as_ref()
                .filter(|_| is_named(feature) && rules.describe_origin == Some(true))
                .map(|title| inner(&format!("[{title}]"))),
        });
        Self { feature, server, joined }
    }

    pub(super) fn shows(&self, item: &Item) -> bool {
        match &self.joined {
            Some(Joined { rules, .. }) if self.feature == Feature::Tool => {
                passes(&rules.allow, &rules.deny, &item.name)
            }
            _ => true,
        }
    }

    /// The name to give, and others for when it is taken.
    pub(super) fn names(&self, item: &Item) -> impl Iterator<Item = String> {
        let (first, second) = match &self.joined {
            Some(Joined { naming, .. }) if is_named(self.feature) => {
                let base = base(self.server, self.feature, item);
                let expose = |naming: &Naming| naming.expose(base, &self.server.name).name;
                let long = || expose(&Naming { style: Style::Suffix, ..naming.clone() });
                (expose(naming), (naming.style == Style::Plain).then(long))
            }
            Some(_) if self.server.uri_mode == UriMode::Prefixed => {
                (uri::prefixed(&self.server.name, &item.name).into_owned(), None)
            }
            _ => (item.name.to_string(), None),
        };
        std::iter::once(first).chain(second)
    }

    /// What makes the server's JSON that of the view for `audience`.
    pub(super) fn edits(&self, item: &Item, name: &str, audience: Audience) -> Vec<(Span, String)> {
        let mut edits = item.projected(audience);
        if name != &*item.name {
            edits.push((item.name_at.clone(), quoted(name)));
        }
        let Some(Joined { title, .. }) = &self.joined else { return edits };
        if let Some(title) = title {
            edits.push(item.titled(title));
        }
        if self.server.uri_mode == UriMode::Prefixed {
            let uris = item.uris_at.iter().filter_map(|at| Some((at.clone(), item.string(at)?)));
            edits.extend(uris.map(|(at, own)| (at, quoted(&uri::prefixed(&self.server.name, &own)))));
        }
        edits
    }
}

/// Whether it goes by names, not by URIs.
fn is_named(feature: Feature) -> bool {
    matches!(feature, Feature::Tool | Feature::Prompt)
}

/// `text` as it stands in a JSON string, without the quotes.
fn inner(text: &str) -> String {
    let quoted = quoted(text);
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}
