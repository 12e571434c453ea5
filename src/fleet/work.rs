//! What only the holder of the fleet's lock touches.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;

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
    /// Not in use yet: of a change that is being made, or held back because they do not work while their predecessors do.
    coming: HashMap<ServerName, Arc<Upstream>>,
    parts: IndexMap<ServerName, Made>,
    metrics: Arc<Metrics>,
    cache: Option<Arc<Cache>>,
}

/// A change that is prepared: whom it concerns, judged by what runs.
#[derive(Debug)]
pub(super) struct Plan {
    added: Vec<ServerName>,
    removed: Vec<ServerName>,
    replaced: Vec<ServerName>,
    retuned: Vec<ServerName>,
    /// The successors.
    warming: Vec<Arc<Upstream>>,
    /// Those that are of no use any more.
    pub(super) stale: Vec<Arc<Upstream>>,
}

impl Plan {
    /// Waits until each successor has been tried: they warm up side by side.
    pub(super) async fn warm(&self) {
        for successor in &self.warming {
            if !matches!(successor.state(), State::Idle) {
                successor.settled().await;
            }
        }
    }
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
        Self { upstreams: HashMap::new(), coming: HashMap::new(), parts: IndexMap::new(), metrics, cache }
    }

    /// Starts what a change needs, beside what there is: nothing of it is in use before [`commit`](Self::commit).
    pub(super) fn prepare(&mut self, old: &Config, new: &Config, shared: &Shared) -> Plan {
        let Change { added, removed, replaced, mut retuned, .. } = Change::between(old, new);
        let mut plan = Plan {
            added,
            removed,
            replaced: Vec::new(),
            retuned: Vec::new(),
            warming: Vec::new(),
            stale: Vec::new(),
        };
        for server in plan.added.iter().filter_map(|name| new.servers.get(name)) {
            self.coming.insert(server.name.clone(), self.spawn(server, None, shared));
        }
        for name in replaced {
            let (Some(server), Some(before)) = (new.servers.get(&name), self.upstreams.get(&name)) else {
                continue;
            };
            // One that was held back has had its time.
            let held = self.coming.remove(&name).inspect(|held| held.series().held_back(false));
            if server.needs_other_link_than(&before.server()) {
                let successor = self.spawn(server, Some(before), shared);
                self.coming.insert(name.clone(), successor.clone());
                plan.warming.push(successor);
                plan.replaced.push(name);
            } else {
                retuned.push(name); // back to what runs
            }
            plan.stale.extend(held);
        }
        plan.retuned = retuned;
        plan
    }

    /// Puts a change into force. A successor that is not ready takes over only where its predecessor is not either.
    /// Returns those to retire once the snapshot that names them is gone.
    pub(super) fn commit(&mut self, plan: Plan, new: &Config) -> Vec<Arc<Upstream>> {
        let mut retired = Vec::new();
        for name in &plan.removed {
            retired.extend(self.upstreams.remove(name));
            retired.extend(self.coming.remove(name));
            self.metrics.forget(name.as_str());
            self.cache.iter().for_each(|cache| cache.forget(name));
        }
        for server in plan.retuned.iter().filter_map(|name| new.servers.get(name)) {
            if let Some(held) = self.coming.get(&server.name) {
                held.retune(server.clone());
            }
            if let Some(upstream) = self.upstreams.get(&server.name) {
                upstream.retune(Arc::new(server.over_link_of(&upstream.server())));
            }
        }
        for name in plan.added {
            if let Some(upstream) = self.coming.remove(&name) {
                self.upstreams.insert(name, upstream);
            }
        }
        for name in plan.replaced {
            let Some(successor) = self.coming.get(&name) else { continue };
            let before = self.upstreams.get(&name);
            let works = before.is_some_and(|before| matches!(before.state(), State::Ready(_)));
            if works
                && !successor.has_proven()
                && !matches!(successor.state(), State::Idle | State::PerCaller)
            {
                let why = problem(successor);
                tracing::warn!(server = %name, "{why}");
                successor.series().held_back(true);
                if let (Some(server), Some(before)) = (new.servers.get(&name), before) {
                    before.retune(Arc::new(server.over_link_of(&before.server())));
                }
                continue;
            }
            retired.extend(self.take_over(&name));
        }
        retired
    }

    /// Lets those take over that were held back and work now. Returns their predecessors, to retire as above.
    pub(super) fn promote(&mut self) -> Vec<Arc<Upstream>> {
        let held = |name: &&ServerName| self.upstreams.contains_key(*name);
        let proven = |name: &&ServerName| self.coming.get(*name).is_some_and(|up| up.has_proven());
        let ready: Vec<_> = self.coming.keys().filter(held).filter(proven).cloned().collect();
        let tell =
            |name: &ServerName| tracing::info!(server = %name, "the new settings work and are in force");
        ready.iter().inspect(|name| tell(name)).filter_map(|name| self.take_over(name)).collect()
    }

    /// The successor comes in the place of its predecessor, which is returned.
    fn take_over(&mut self, name: &ServerName) -> Option<Arc<Upstream>> {
        let successor = self.coming.remove(name)?;
        successor.series().held_back(false);
        let before = self.upstreams.insert(name.clone(), successor.clone());
        successor.show();
        before
    }

    /// All that there are, in use or not.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values().chain(self.coming.values())
    }

    /// Those that are held back.
    pub(super) fn held(&self) -> HashMap<ServerName, Arc<Upstream>> {
        self.coming.clone()
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
            self.cache.iter().for_each(|cache| cache.keep(&upstream.server(), &listing));
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

/// Why a successor does not take over.
pub(super) fn problem(successor: &Upstream) -> String {
    let why = successor.unavailable().map_or_else(|| "it cannot list what it has".into(), |why| why.what);
    format!("the new settings do not work: the server {why}; the old ones go on")
}

/// The kinds whose counts differ.
fn differing(before: [u64; 4], now: [u64; 4]) -> Features {
    Feature::ALL.into_iter().filter(|kind| before.get(kind.index()) != now.get(kind.index())).collect()
}
