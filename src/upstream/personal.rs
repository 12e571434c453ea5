//! What single callers have listed of a server that each of them reaches by himself. Kept in memory only, for the caller
//! whose it is, and never mixed with what others see.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use indexmap::IndexMap;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::behalf::Behalf;
use super::lists::{Found, list};
use super::own::Line;
use super::{Hearers, Notice, State, Unavailable, Upstream};
use crate::auth::Handed;
use crate::catalog::Listing;
use crate::config::Values;
use crate::mcp::{Feature, Features};
use crate::session::Session;
use crate::transport::Failure;

/// Most callers whose lists one server keeps; the one that was looked at longest ago goes first.
const MOST: usize = 256;
/// How soon after one look a caller's list is asked for again, whatever for.
const LEAST: Duration = Duration::from_secs(1);

/// The lists of single callers: by their principal, and by what was filled in for them.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<IndexMap<Whose, Arc<List>>>);

type Whose = (Option<Arc<str>>, [u8; 32]);

/// What one caller has listed.
#[derive(Debug)]
struct List {
    listing: ArcSwapOption<Listing>,
    /// How often it was said that there is something else by now, since it was last asked for; 0 where it was not.
    stale: AtomicU64,
    asked: Mutex<Asked>,
    /// Why the last look failed, if it did.
    failed: Mutex<Option<Unavailable>>,
    /// Counts looks that have ended, well or badly.
    looks: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Asked {
    running: bool,
    at: Option<Instant>,
}

impl Lists {
    fn of(&self, whose: Whose) -> Arc<List> {
        let mut all = self.all();
        if let Some(index) = all.get_index_of(&whose) {
            let last = all.len() - 1;
            all.move_index(index, last);
        } else if all.len() >= MOST {
            all.shift_remove_index(0);
        }
        let new = || {
            Arc::new(List {
                listing: ArcSwapOption::empty(),
                stale: AtomicU64::new(0),
                asked: Mutex::default(),
                failed: Mutex::default(),
                looks: watch::Sender::new(0),
            })
        };
        all.entry(whose).or_insert_with(new).clone()
    }

    fn all(&self) -> MutexGuard<'_, IndexMap<Whose, Arc<List>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, Option<Unavailable>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstream {
    /// Whether each caller reaches it by himself.
    pub fn is_personal(&self) -> bool {
        self.server.load().personal.is_some()
    }

    /// What the caller has listed, as far as that is known.
    pub fn listing_of(&self, behalf: Behalf<'_>) -> Option<Arc<Listing>> {
        self.list_of(behalf)?.listing.load_full()
    }

    /// Why nothing is known of what the caller has here, where each reaches it by himself.
    pub fn unlisted_of(&self, behalf: Behalf<'_>) -> Option<Unavailable> {
        let values = match behalf.values(&self.server.load()) {
            Ok(values) => values?,
            Err(why) => return Some(why),
        };
        let list = self.lists.of((behalf.session.principal().cloned(), values.digest()));
        if list.listing.load().is_some() {
            return None;
        }
        let Some(why) = list.failed().clone() else {
            return Some(Unavailable::soon("has not said yet what it has for this caller"));
        };
        let next = list.asked().at.map(|at| at + self.shared.limits.reconnect_interval);
        Some(next.map_or_else(|| why.clone(), |next| why.until(next)))
    }

    /// Whether what [`listing_of`](Self::listing_of) gives is not to be shown yet: nothing is known so far, or it is known to
    /// be another by now. One that is only old is asked for again in the background.
    pub fn is_behind(self: &Arc<Self>, behalf: Behalf<'_>) -> bool {
        let Some(list) = self.list_of(behalf) else { return false };
        let behind = list.listing.load().is_none() || list.stale.load(Ordering::Acquire) > 0;
        if !behind {
            self.look(&list, behalf, self.shared.limits.refresh_interval);
        }
        behind
    }

    /// Asks for what the caller has, if it was not asked for just now, and waits at most `patience` for it.
    pub async fn look_for(self: &Arc<Self>, behalf: Behalf<'_>, patience: Duration) {
        let Some(list) = self.list_of(behalf) else { return };
        let mut looks = list.looks.subscribe();
        let before = *looks.borrow_and_update();
        let failed = list.listing.load().is_none() && before > 0;
        // One that does not answer is asked at the pace of any server.
        let least = if failed { self.shared.limits.reconnect_interval } else { LEAST };
        if self.look(&list, behalf, least) {
            drop(timeout(patience, looks.wait_for(|looks| *looks > before)).await);
        }
    }

    /// The server told in the middle of a call of `behalf` that what it lists changed.
    pub fn changed_for(&self, behalf: Behalf<'_>, features: Features) {
        let server = self.server.load_full();
        match behalf.values(&server) {
            Ok(Some(values)) => {
                let to =
                    behalf.session.principal().map_or(Hearers::All, |text| Hearers::Principal(text.clone()));
                self.changed_of(&values.digest(), features, Some(to));
            }
            Ok(None) => self.changed(features),
            Err(_) => {}
        }
    }

    /// The server told on a caller's own link that what it lists changed.
    pub(super) fn changed_on(&self, line: &Line, features: Features) {
        match line.values.as_ref().map(Values::digest) {
            Some(digest) => self.changed_of(&digest, features, line.hearers()),
            None => self.changed(features), // what is listed is the shared link's
        }
    }

    fn changed_of(&self, digest: &[u8; 32], features: Features, to: Option<Hearers>) {
        for ((_, of), list) in self.lists.all().iter() {
            if of == digest {
                list.stale.fetch_add(1, Ordering::AcqRel);
            }
        }
        if let Some(to) = to {
            let servers = Arc::new([self.server.load().name.clone()]);
            self.shared.news.send(Notice::Changed { servers, features, to });
        }
    }

    fn list_of(&self, behalf: Behalf<'_>) -> Option<Arc<List>> {
        let values = behalf.values(&self.server.load()).ok()??;
        Some(self.lists.of((behalf.session.principal().cloned(), values.digest())))
    }

    /// Asks for the list unless that was done within `least`, or is being done. Whether it is.
    fn look(self: &Arc<Self>, list: &Arc<List>, behalf: Behalf<'_>, least: Duration) -> bool {
        let mut asked = list.asked();
        if asked.running {
            return true;
        }
        if asked.at.is_some_and(|at| at.elapsed() < least) || matches!(self.state(), State::Stopped) {
            return false;
        }
        (asked.running, asked.at) = (true, Some(Instant::now()));
        drop(asked);
        let (session, handed) = (behalf.session.clone(), behalf.handed.cloned());
        let (stale, known) = (list.stale.load(Ordering::Acquire), list.listing.load_full());
        let (upstream, list) = (self.clone(), list.clone());
        let looking = async move {
            let limit = upstream.server.load().connect_timeout;
            let looked = tokio::select! {
                looked = timeout(limit, upstream.listed(&session, handed.as_ref(), known)) => {
                    looked.unwrap_or_else(|_| {
                        Err(Unavailable::soon(format!("did not list what it has within {limit:?}")))
                    })
                }
                () = upstream.stop.cancelled() => Err(Unavailable::soon("is no longer configured")),
            };
            upstream.take_in(&list, looked, &session);
            // What was said in the meantime stands.
            list.stale.compare_exchange(stale, 0, Ordering::AcqRel, Ordering::Relaxed).ok();
            list.asked().running = false;
            list.looks.send_modify(|looks| *looks += 1);
        };
        drop(self.shared.tasks.spawn_on(looking, &self.home));
        true
    }

    /// What the caller gets listed, over his own link. A kind that cannot be listed stays as it is `known`.
    async fn listed(
        self: &Arc<Self>,
        session: &Arc<Session>,
        handed: Option<&Arc<Handed>>,
        known: Option<Arc<Listing>>,
    ) -> Result<Listing, Unavailable> {
        let mut after = 0;
        loop {
            let linked = self.personal_link(Behalf { session, handed }, after).await?;
            let ready = linked.ready.clone();
            let _open = ready.calls.token();
            let limit = self.server.load().connect_timeout;
            let before = known.as_deref().cloned().unwrap_or_default();
            match list(ready.clone(), Features::ALL, before, limit).await {
                Ok(Found { listing, failed: None }) => return Ok(listing),
                Ok(Found { listing, failed: Some(failure) }) => {
                    // The first time, what there is of it is all that there is.
                    if Feature::ALL.into_iter().all(|kind| listing.of(kind).is_empty()) {
                        return Err(self.unavailable_after(&failure));
                    }
                    let server = &self.server.load().name;
                    tracing::warn!(%server, "not all that it has for a caller could be listed: it {failure}");
                    return Ok(listing);
                }
                Err(failure) => {
                    self.doubt(ready.generation, &failure);
                    if failure != Failure::SessionGone || after > 0 {
                        return Err(self.unavailable_after(&failure));
                    }
                    after = ready.generation;
                }
            }
        }
    }

    /// An incomplete list never replaces a good one.
    fn take_in(&self, list: &List, looked: Result<Listing, Unavailable>, session: &Session) {
        let name = self.server.load().name.clone();
        match looked {
            Ok(listing) => {
                if let Some(cut) = listing.cut() {
                    self.series.listing_truncated();
                    tracing::warn!(server = %name, "only a part of what it has is listed for a caller: {cut}");
                }
                *list.failed() = None;
                let before = list.listing.load_full();
                if before.as_deref() != Some(&listing) {
                    list.listing.store(Some(Arc::new(listing)));
                    if before.is_some() {
                        let to =
                            session.principal().map_or(Hearers::All, |text| Hearers::Principal(text.clone()));
                        let (servers, features) = (Arc::new([name]), Features::ALL);
                        self.shared.news.send(Notice::Changed { servers, features, to });
                    }
                }
            }
            Err(why) => {
                tracing::warn!(server = %name, "what it has for a caller could not be listed: it {}", why.what);
                *list.failed() = Some(why);
            }
        }
    }
}
