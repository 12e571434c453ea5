//! All upstreams together: applies a configuration, puts the listings into one catalog and publishes both as one
//! [`Snapshot`], so that a request never sees half a change.
//!
//! The only room that writes the snapshot.

mod cache;
mod personal;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, broadcast, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::Catalog;
use crate::config::{Config, Limits};
use crate::mcp::Features;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::names::ServerName;
use crate::transport::{Dialer, Sizes};
use crate::upstream::{News, Shared, Upstream};
use cache::Cache;
use personal::Seen;
use work::Work;

pub use crate::upstream::{Hearers, Notice};

/// All upstreams.
#[derive(Debug)]
pub struct Fleet {
    snapshot: ArcSwap<Snapshot>,
    work: Mutex<Work>,
    /// Held by whoever changes the configuration, which takes longer than `work` may be held.
    changing: Mutex<()>,
    first_round: watch::Sender<bool>,
    seen: Seen,
    shared: Shared,
    memory: Arc<Memory>,
    stop: CancellationToken,
}

/// What one request sees: which names there are, and who answers to them.
#[derive(Debug)]
pub struct Snapshot {
    /// The configuration behind it.
    pub config: Arc<Config>,
    /// Names and lists.
    pub catalog: Catalog,
    /// Who answers.
    pub upstreams: HashMap<ServerName, Arc<Upstream>>,
    /// Those with newer settings that do not work, while the ones in `upstreams` go on with the old ones.
    pub held: HashMap<ServerName, Arc<Upstream>>,
    /// How many notices there were by then: whoever was away while it grew has missed some.
    pub notices: u64,
    /// The servers that each caller reaches by himself: what is here of them is the same for all, so nothing.
    pub personal: Arc<[ServerName]>,
}

/// Changes within this time are told as one.
const COALESCE: Duration = Duration::from_millis(100);
/// How long the links at the end of the process may take to close, beyond the calls in flight.
const CLOSING: Duration = Duration::from_secs(5);

impl Fleet {
    /// Starts all of `config`'s servers. Returns at once: they connect in the background.
    pub async fn spawn(config: Arc<Config>, metrics: Arc<Metrics>) -> Arc<Self> {
        let limits = config.limits.clone();
        let sizes = Sizes { message: limits.upstream_message, depth: limits.json_depth };
        let memory = Memory::new(limits.buffers);
        let shared = Shared {
            dialer: Arc::new(Dialer::new(sizes).within(memory.clone())),
            news: Arc::new(News::default()),
            limits,
            tasks: TaskTracker::new(),
        };
        let cache = Cache::open(&config).await;
        let stop = CancellationToken::new();
        if let Some(cache) = &cache {
            shared.tasks.spawn(cache.clone().run(stop.clone()));
        }
        let nothing = Arc::new(Config { servers: indexmap::IndexMap::new(), ..(*config).clone() });
        let fleet = Arc::new(Self {
            snapshot: ArcSwap::from_pointee(Snapshot {
                config: nothing,
                catalog: Catalog::default(),
                upstreams: HashMap::new(),
                held: HashMap::new(),
                notices: 0,
                personal: Arc::default(),
            }),
            work: Mutex::new(Work::new(metrics, cache)),
            changing: Mutex::default(),
            first_round: watch::Sender::new(false),
            seen: Seen::default(),
            shared,
            memory,
            stop,
        });
        fleet.apply(config).await; // a start is a reload from nothing
        fleet.shared.tasks.spawn(fleet.clone().publish());
        fleet.shared.tasks.spawn(fleet.clone().end_first_round());
        fleet
    }

    /// What is held of large messages, servers' and clients'.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// What there is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Tells of changes, and of what servers say to all, from now on.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.shared.news.listen()
    }

    /// Waits until every server has been tried once after the start, for `firstListWait` at most.
    pub async fn first_round(&self) {
        if *self.first_round.borrow() {
            return;
        }
        // The sender lives in `self`, so waiting cannot fail.
        drop(self.first_round.subscribe().wait_for(|done| *done).await);
    }

    /// Whether every server has been tried once.
    pub fn first_round_done(&self) -> bool {
        *self.first_round.borrow()
    }

    /// Goes over to another configuration: servers that it leaves alone keep their links; changed ones are replaced once
    /// their successors are ready, or after a deadline; gone ones finish their calls.
    ///
    /// Nothing of it is seen before all of it is: until the successors are warm everything goes on as it was. One that is
    /// not ready then does not take the place of one that is: it is held back, and takes over once it works.
    pub async fn apply(&self, config: Arc<Config>) {
        let _alone = self.changing.lock().await;
        let mut plan = {
            let old = self.snapshot().config.clone();
            self.work.lock().await.prepare(&old, &config, &self.shared)
        };
        drop(timeout(self.shared.limits.first_list_wait, plan.warm()).await);
        let mut retired = std::mem::take(&mut plan.stale);
        let mut work = self.work.lock().await;
        retired.extend(work.commit(plan, &config));
        retired.extend(work.promote()); // what was held back before may have come to work meanwhile
        self.store(&mut work, config, true);
        retire(retired);
    }

    /// Puts fresh listings into the catalog now, and those upstreams into use that were held back and work now.
    pub async fn rebuild(&self) {
        let mut work = self.work.lock().await;
        let config = self.snapshot().config.clone();
        let retired = if self.changing.try_lock().is_ok() { work.promote() } else { Vec::new() };
        self.store(&mut work, config, !retired.is_empty());
        retire(retired);
    }

    /// Ends all upstreams; calls in flight have been drained before.
    pub async fn close(&self) {
        self.stop.cancel();
        for upstream in self.work.lock().await.all() {
            upstream.close();
        }
        self.shared.tasks.close();
        let limit = self.shared.limits.drain_timeout.min(CLOSING);
        if timeout(limit, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("some servers did not end in time");
        }
    }

    /// The limits that hold until a restart.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Publishes what there is now, if anything differs; the upstreams have `moved` if they are not those of before.
    fn store(&self, work: &mut Work, config: Arc<Config>, moved: bool) {
        let same_config = Arc::ptr_eq(&config, &self.snapshot.load().config);
        let (mut changed, mut features) = work.refresh_parts(&config);
        if changed.is_empty() && same_config && !moved {
            return;
        }
        let before = self.snapshot();
        let (catalog, upstreams) = work.put_together(&config, &before.catalog);
        if !same_config {
            let rearranged = catalog.rearranged(&before.catalog);
            if !rearranged.is_empty() {
                features = Features::ALL; // the same under other rules, or in another order
            }
            changed.extend(rearranged);
        }
        let notices = self.snapshot.load().notices + u64::from(!changed.is_empty());
        let is_personal = |name: &&ServerName| upstreams.get(*name).is_some_and(|up| up.is_personal());
        let personal = config.servers.keys().filter(is_personal).cloned().collect();
        let held = work.held();
        self.snapshot.store(Arc::new(Snapshot { config, catalog, upstreams, held, notices, personal }));
        if !changed.is_empty() {
            self.shared.news.send(Notice::Changed { servers: changed.into(), features, to: Hearers::All });
        }
    }

    async fn publish(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.shared.news.wait() => {}
            }
            tokio::time::sleep(COALESCE).await;
            self.rebuild().await;
        }
    }

    async fn end_first_round(self: Arc<Self>) {
        let upstreams: Vec<_> = self.snapshot().upstreams.values().cloned().collect();
        let all = async {
            // Of one whose list is known from before nobody waits for another.
            let unknown = |upstream: &&Arc<Upstream>| upstream.server().eager && upstream.listing().is_none();
            for upstream in upstreams.iter().filter(unknown) {
                upstream.settled().await;
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => return,
            settled = timeout(self.shared.limits.first_list_wait, all) => drop(settled),
        }
        self.rebuild().await;
        self.first_round.send_replace(true);
    }
}

impl Snapshot {
    /// Why `server` goes on with its old settings, if it does.
    pub fn held_back(&self, server: &ServerName) -> Option<String> {
        self.held.get(server).map(|successor| work::problem(successor))
    }
}

fn retire(upstreams: Vec<Arc<Upstream>>) {
    for upstream in upstreams {
        upstream.retire();
    }
}
