//! What one caller sees: the shared snapshot, and with it what only he has listed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Fleet, Snapshot};
use crate::catalog::{Listing, Part, View};
use crate::names::ServerName;
use crate::upstream::{Behalf, Upstream};

/// Snapshots of single callers that are kept. Another one is put together when it is wanted: that costs, and nothing is lost.
const MOST: usize = 64;

/// The newest snapshots of single callers. They are told apart by what they are made of, and by nothing of the caller: so
/// nobody gets one in which there is what he did not list.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<VecDeque<Made>>);

#[derive(Debug)]
struct Made {
    shared: Arc<Snapshot>,
    listings: Vec<(ServerName, Arc<Listing>)>,
    snapshot: Arc<Snapshot>,
}

impl Fleet {
    /// What a request on `behalf` sees. Where all callers see the same that is the [snapshot](Self::snapshot).
    pub fn sees(&self, behalf: Behalf<'_>) -> Arc<Snapshot> {
        let shared = self.snapshot();
        if shared.personal.is_empty() {
            return shared;
        }
        let listing =
            |name: &ServerName| Some((name.clone(), shared.upstreams.get(name)?.listing_of(behalf)?));
        let listings: Vec<_> = shared.personal.iter().filter_map(listing).collect();
        if listings.is_empty() { shared } else { self.seen.of(shared, listings) }
    }

    /// Whether a server of `view` has still to be asked what the caller sees of it.
    pub fn is_behind(&self, view: &View, behalf: Behalf<'_>) -> bool {
        let shared = self.snapshot();
        // Each of them: what is only old is asked for again by that.
        let behind = personal(&shared, view).into_iter().filter(|upstream| upstream.is_behind(behalf));
        behind.count() > 0
    }

    /// Asks the servers of `view` that each caller reaches by himself what they have for this one, side by side, and waits for
    /// them as long as for any first list.
    pub async fn look_for(&self, view: &View, behalf: Behalf<'_>) {
        let upstreams = personal(&self.snapshot(), view);
        let patience = self.limits().first_list_wait;
        // The first one's time is that of all: each goes on by itself.
        let until = tokio::time::Instant::now() + patience;
        for upstream in &upstreams {
            upstream.look_for(behalf, std::time::Duration::ZERO).await;
        }
        for upstream in &upstreams {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            upstream.look_for(behalf, left).await;
        }
    }
}

/// The servers of `view` that each caller reaches by himself.
fn personal(shared: &Snapshot, view: &View) -> Vec<Arc<Upstream>> {
    if shared.personal.is_empty() {
        return vec![];
    }
    let all = shared.catalog.servers(view).filter(|name| shared.personal.contains(name));
    all.filter_map(|name| shared.upstreams.get(name).cloned()).collect()
}

impl Seen {
    fn of(&self, shared: Arc<Snapshot>, listings: Vec<(ServerName, Arc<Listing>)>) -> Arc<Snapshot> {
        let same = |made: &Made| {
            let pairs = made.listings.iter().zip(&listings);
            Arc::ptr_eq(&made.shared, &shared)
                && made.listings.len() == listings.len()
                && pairs.into_iter().all(|((_, one), (_, other))| Arc::ptr_eq(one, other))
        };
        let known = self.all().iter().find(|made| same(made)).map(|made| made.snapshot.clone());
        known.unwrap_or_else(|| {
            let parts = listings.iter().filter_map(|(name, listing)| {
                Some(Arc::new(Part::build(shared.config.servers.get(name)?.clone(), listing)))
            });
            let snapshot = Arc::new(Snapshot {
                config: shared.config.clone(),
                catalog: shared.catalog.with(&shared.config, parts),
                upstreams: shared.upstreams.clone(),
                held: shared.held.clone(),
                notices: shared.notices,
                personal: shared.personal.clone(),
            });
            let mut all = self.all();
            all.retain(|made| Arc::ptr_eq(&made.shared, &shared)); // older ones are never wanted again
            if all.len() >= MOST {
                all.pop_front();
            }
            all.push_back(Made { shared, listings, snapshot: snapshot.clone() });
            snapshot
        })
    }

    fn all(&self) -> std::sync::MutexGuard<'_, VecDeque<Made>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
