//! All views together.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::audience::Audience;
use super::list::{self, BadCursor, Start};
use super::menu::{Found, Menu, Share, Stock};
use super::part::Part;
use crate::config::{Config, Retry, ViewRules};
use crate::mcp::{Feature, ParamHeader, TaskSupport};
use crate::names::{ServerName, uri};
use crate::wire::quoted;

/// Which selection of servers and which naming a path has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum View {
    /// `/mcp`: all servers under exposed names.
    All,
    /// `/mcp/<server>`: one server under its own names.
    One(ServerName),
    /// `/mcp/<view>`: what the operator put together.
    Named(Arc<str>),
}

/// Everything offered at one moment.
#[derive(Debug, Default)]
pub struct Catalog {
    parts: IndexMap<ServerName, Arc<Part>>,
    pub(super) menus: HashMap<View, Arc<Menu>, RandomState>,
    page_size: Option<usize>,
}

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Route {
    /// To which server.
    pub server: ServerName,
    /// The server's own name of the tool or prompt, or its own URI, as JSON.
    pub name: Bytes,
    /// Whether a tool runs as a task.
    pub task_support: TaskSupport,
    /// Whether a call of the tool may come to the server twice, as far as the tool says.
    pub twice: Retry,
    /// The arguments of a tool that headers repeat between clients and servers without a handshake.
    pub headers: Arc<[ParamHeader]>,
    /// It is a tool for pages only: whoever shows none may not call it.
    pub for_pages: bool,
    /// What a tool gives may be no object: clients with a handshake are told, and given, an object with it as its
    /// `result`.
    pub wraps: bool,
}

impl Route {
    /// The way to what `server` knows as `name`, JSON.
    pub fn to(server: ServerName, name: Bytes) -> Self {
        Self {
            server,
            name,
            task_support: TaskSupport::default(),
            twice: Retry::Never,
            headers: Arc::default(),
            for_pages: false,
            wraps: false,
        }
    }
}

impl Catalog {
    /// Puts the parts of `config`'s servers together, in the order of the file. Takes over from `before` what is the same.
    pub fn build(config: &Config, parts: IndexMap<ServerName, Arc<Part>>, before: &Self) -> Self {
        let stock = |rules: Option<ViewRules>, servers: &mut dyn Iterator<Item = &ServerName>| {
            let share = |name| {
                let server = config.servers.get(name)?.clone();
                Some(Share { server, part: parts.get(name).cloned() })
            };
            Stock { rules, shares: servers.filter_map(share).collect() }
        };
        let joined = |rules: &ViewRules| {
            let describe_origin = rules.describe_origin.or(Some(config.describe_origin));
            let rules = ViewRules { describe_origin, ..rules.clone() };
            match rules.servers.clone() {
                Some(servers) => stock(Some(rules), &mut servers.iter()),
                None => stock(Some(rules), &mut config.servers.keys()),
            }
        };
        let all = std::iter::once((View::All, joined(&ViewRules::default())));
        let named = config.views.iter().map(|(name, rules)| (View::Named(name.clone()), joined(rules)));
        let own = config.servers.keys();
        let own = own.map(|name| (View::One(name.clone()), stock(None, &mut std::iter::once(name))));
        let menu = |(view, stock): (View, Stock)| {
            let same = before.menus.get(&view).filter(|menu| menu.is_of(&stock)).cloned();
            let old = before.menus.get(&view).map(Arc::as_ref);
            let menu = same.unwrap_or_else(|| Arc::new(Menu::build(stock, old)));
            (view, menu)
        };
        let menus = all.chain(named).chain(own).map(menu).collect();
        Self { parts, menus, page_size: config.page_size }
    }

    /// As it is, with `more` parts of `config`'s servers in their places.
    #[must_use]
    pub fn with(&self, config: &Config, more: impl Iterator<Item = Arc<Part>>) -> Self {
        let mut parts = self.parts.clone();
        parts.extend(more.map(|part| (part.server().name.clone(), part)));
        Self::build(config, parts, self)
    }

    /// The result of listing `feature` in `view` to such an audience, from `start` on: without what the revision asks of
    /// every result.
    ///
    /// # Errors
    /// Where the cursor is none of ours, or of another list.
    pub fn list(
        &self,
        view: &View,
        feature: Feature,
        audience: Audience,
        start: Start<'_>,
    ) -> Result<Bytes, BadCursor> {
        match self.menus.get(view) {
            Some(menu) => menu.page(feature, audience, start, self.page_size.unwrap_or(usize::MAX)),
            None if start.cursor.is_some() => Err(BadCursor),
            None => Ok(list::empty(feature)),
        }
    }

    /// Where a call of the tool `name` in `view` goes.
    pub fn tool(&self, view: &View, name: &str) -> Option<Route> {
        self.listed(view, Feature::Tool, name)
    }

    /// Where a request for the prompt `name` in `view` goes.
    pub fn prompt(&self, view: &View, name: &str) -> Option<Route> {
        self.listed(view, Feature::Prompt, name)
    }

    /// Where a request for the resource at `uri` in `view` goes: to whom lists it, to whom its prefix names, to whom a
    /// template of it is, or to whom the file says it belongs. A server's own view sends it every URI.
    pub fn resource(&self, view: &View, uri: &str) -> Option<Route> {
        self.listed(view, Feature::Resource, uri).or_else(|| {
            let (server, own) = self.menus.get(view)?.owner(uri)?;
            Some(Route::to(server.clone(), quoted(&own).into()))
        })
    }

    /// Whether a server of `view` lists the resource at `uri`.
    pub fn lists_resource(&self, view: &View, uri: &str) -> bool {
        self.listed(view, Feature::Resource, uri).is_some()
    }

    /// Where a request about a resource template in `view` goes; one about a resource (completion takes either) goes as
    /// [`resource`](Self::resource) says.
    pub fn template(&self, view: &View, uri_template: &str) -> Option<Route> {
        self.listed(view, Feature::Template, uri_template).or_else(|| self.resource(view, uri_template))
    }

    fn listed(&self, view: &View, feature: Feature, name: &str) -> Option<Route> {
        let found = self.menus.get(view)?.find(feature, name)?;
        let Found { server, item } = found;
        let (task_support, for_pages, wraps) = (item.task_support, item.for_pages, item.output_at.is_some());
        let (headers, twice) = (item.headers.clone(), item.twice);
        Some(Route {
            task_support,
            twice,
            headers,
            for_pages,
            wraps,
            ..Route::to(server.name.clone(), item.raw())
        })
    }

    /// Whether the tool `name` in `view` runs as a task.
    pub fn task_support(&self, view: &View, name: &str) -> TaskSupport {
        let found = self.menus.get(view).and_then(|menu| menu.find(Feature::Tool, name));
        found.map_or(TaskSupport::default(), |found| found.item.task_support)
    }

    /// How `own`, a URI of `server`, reads in `view`.
    pub fn uri<'u>(&self, view: &View, server: &ServerName, own: &'u str) -> Cow<'u, str> {
        if self.menus.get(view).is_some_and(|menu| menu.prefixes(server)) {
            uri::prefixed(server, own)
        } else {
            Cow::Borrowed(own)
        }
    }

    /// Which server to ask again for an unknown tool or prompt: the longest configured tail tells. Never a route.
    pub fn server_of_unknown(&self, view: &View, name: &str) -> Option<ServerName> {
        match view {
            View::All | View::Named(_) => self.menus.get(view)?.by_tail(name).cloned(),
            View::One(server) => Some(server.clone()),
        }
    }

    /// The servers of `view`, in order, whether or not they have anything.
    pub fn servers(&self, view: &View) -> impl Iterator<Item = &ServerName> {
        self.menus.get(view).into_iter().flat_map(|menu| menu.servers())
    }

    /// The part of one server.
    pub fn part(&self, server: &str) -> Option<&Arc<Part>> {
        self.parts.get(server)
    }

    /// The servers of views that show the same as in `before` in another way: by other rules, or in another order. Nothing
    /// of theirs changed, but their clients see a change.
    pub fn rearranged(&self, before: &Self) -> Vec<ServerName> {
        let mut servers = vec![];
        for (view, menu) in &self.menus {
            if before.menus.get(view).is_some_and(|before| menu.is_rearranged(before)) {
                servers.extend(menu.servers().cloned());
            }
        }
        servers
    }
}
