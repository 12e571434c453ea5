//! What only the holder of the fleet's lock touches.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use tokio::time::timeout;

use super::cache::Cache;
use crate::catalog::{Catalog, Fault, Listing, Part};
use crate::config::{Change, Config, Server};
use crate::mcp::{Feature, Features};
use crate::metrics::Metrics;
use crate::names::ServerName;
use crate::upstream::{Shared, State, Upstream};

/// The upstreams and the parts made of their listings.
#[derive(Debug)]
pub(super) struct Work {
    upstreams: HashMap<ServerName, Arc<Upstream>>,
    parts: IndexMap<ServerName, Made>,
    metrics: Arc<Metrics>,
    cache: Option<Arc<Cache>>,
}

/// A part and what it was made of.
#[derive(Debug)]
struct Made {
    part: Arc<Part>,
    listing: Arc<Listing>,
    server: Arc<Server>,
    changes: [u64; 4],
}

impl Work {
    pub(super) fn new(metrics: Arc<Metrics>, cache: Option<Arc<Cache>>) -> Self {
        Self { upstreams: HashMap::new(), parts: IndexMap::new(), metrics, cache }
    }

    /// Starts, retunes and replaces upstreams. Returns those to retire once the snapshot that names them is gone.
    pub(super) async fn apply(&mut self, old: &Config, new: &Config, shared: &Shared) -> Vec<Arc<Upstream>> {
        let change = Change::between(old, new);
        for server in change.retuned.iter().filter_map(|name| new.servers.get(name)) {
            if let Some(upstream) = self.upstreams.get(&server.name) {
                upstream.retune(server.clone());
            }
        }
        let mut retired = Vec::new();
        for name in &change.removed {
            retired.extend(self.upstreams.remove(name));
            self.metrics.forget(name.as_str());
            self.cache.iter().for_each(|cache| cache.forget(name));
        }
        for server in change.added.iter().filter_map(|name| new.servers.get(name)) {
            self.upstreams.insert(server.name.clone(), self.spawn(server, None, shared));
        }
        let successors: Vec<_> = change
            .replaced
            .iter()
            .filter_map(|name| {
                let before = self.upstreams.get(name).map(Arc::as_ref);
                new.servers.get(name).map(|server| self.spawn(server, before, shared))
            })
            .collect();
        // One deadline for all: they warm up side by side.
        let warm = async {
            for successor in &successors {
                if !matches!(successor.state(), State::Idle) {
                    successor.settled().await;
                }
            }
        };
        drop(timeout(shared.limits.first_list_wait, warm).await);
        for successor in successors {
            retired.extend(self.upstreams.insert(successor.server().name.clone(), successor));
        }
        retired
    }

    fn spawn(&self, server: &Arc<Server>, before: Option<&Upstream>, shared: &Shared) -> Arc<Upstream> {
        let series = self.metrics.server(server.name.as_str());
        let known = self.cache.as_ref().and_then(|cache| cache.recall(&server.name));
        let known = before.and_then(Upstream::listing).or(known);
        Upstream::spawn(server.clone(), before, known, series, shared)
    }

    /// Makes the parts anew whose listing or settings changed; returns whose, and which kinds of theirs.
    pub(super) fn refresh_parts(&mut self, config: &Config) -> (Vec<ServerName>, Features) {
        let mut changed: Vec<_> =
            self.parts.keys().filter(|name| !config.servers.contains_key(*name)).cloned().collect();
        let mut features = if changed.is_empty() { Features::NONE } else { Features::ALL };
        self.parts.retain(|name, _| config.servers.contains_key(name));
        for server in config.servers.values() {
            let Some(upstream) = self.upstreams.get(&server.name) else { continue };
            let stamp = upstream.changes(); // before the listing, so that none is missed
            let Some(listing) = upstream.listing() else { continue };
            let known = self.parts.get(&server.name);
            let settled = known.is_some_and(|made| *made.server == **server);
            let fits = settled && known.is_some_and(|made| Arc::ptr_eq(&made.listing, &listing));
            features = features.and(match known {
                Some(made) if settled => differing(made.changes, stamp),
                Some(_) | None => Features::ALL,
            });
            if fits && known.is_some_and(|made| made.changes == stamp) {
                continue;
            }
            let part = match known {
                Some(made) if fits => made.part.clone(),
                Some(_) | None => Arc::new(Part::build(server.clone(), &listing)),
            };
            if known.is_none() {
                for (raw, exposed) in part.altered() {
                    tracing::info!(server = %server.name, "{} is offered as {exposed}", String::from_utf8_lossy(&raw));
                }
            }
            if !fits {
                self.tell_faults(&part);
            }
            self.cache.iter().for_each(|cache| cache.keep(server, &listing));
            changed.push(server.name.clone());
            self.parts
                .insert(server.name.clone(), Made { part, listing, server: server.clone(), changes: stamp });
        }
        (changed, features)
    }

    /// Logs and counts the tools that ask for headers in a wrong way.
    fn tell_faults(&self, part: &Part) {
        let server = &part.server().name;
        for Fault { tool, why, dropped } in part.faults() {
            let what = if *dropped { "the tool is left out" } else { "that is left out" };
            tracing::warn!(%server, %tool, "{why}; {what}");
            if *dropped {
                self.metrics.server(server.as_str()).tool_dropped();
            }
        }
    }

    /// The catalog and the upstreams of the next snapshot, in the order of the file.
    pub(super) fn put_together(
        &self,
        config: &Config,
        before: &Catalog,
    ) -> (Catalog, HashMap<ServerName, Arc<Upstream>>) {
        let parts = config
            .servers
            .keys()
            .filter_map(|name| self.parts.get(name).map(|made| (name.clone(), made.part.clone())))
            .collect();
        (Catalog::build(config, parts, before), self.upstreams.clone())
    }
}

/// The kinds whose counts differ.
fn differing(before: [u64; 4], now: [u64; 4]) -> Features {
    Feature::ALL.into_iter().filter(|kind| before.get(kind.index()) != now.get(kind.index())).collect()
}
