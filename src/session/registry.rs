//! All sessions.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldhash::fast::RandomState;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Keyring;
use super::load::Load;
use super::ring::Budget;
use super::stay::{Session, micros};
use super::ticket::{Agreed, Ticket, Whose};
use super::tombstones::Tombstones;
use crate::config::Limits;
use crate::mcp::Level;
use crate::metrics::Metrics;

/// How long an id is good for, wherever it is taken.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// Ids given back that are remembered at least.
const TOMBSTONES: usize = 65_536;
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// How long we do not look again for an idle session after a look at every one of them found none.
const ALL_ACTIVE: u64 = 100_000; // microseconds

/// Where guests' serials begin: those of sessions are random, so none of them is here but once in 2^64 sessions.
const GUESTS: u128 = u128::MAX << 64;

/// As many sessions as there may be, and every one of them in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many sessions, all of them active")]
pub struct Full;

/// All sessions by their ids. Opening and finding one are a look-up each, whatever their number.
#[derive(Debug)]
pub struct Sessions {
    keys: Arc<Keyring>,
    metrics: Arc<Metrics>,
    most: usize,
    /// Microseconds.
    idle: u64,
    load: Arc<Load>,
    /// Counts requests without a session.
    guests: AtomicU64,
    /// What all streams may keep.
    budget: Arc<Budget>,
    origin: Instant,
    /// `origin` in seconds since 1970: the ends of ids are compared across processes.
    origin_unix: u64,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    /// Ids are sealed by us, so nobody can choose them to collide.
    live: HashSet<ById, RandomState>,
    /// Each one once, under a time when it was in use; it may have been in use since. So the first one that has not is
    /// the longest idle, and being in use costs no more than a store.
    by_age: BTreeMap<(u64, u128), Arc<Session>>,
    gone: Tombstones,
    /// When a look at every session last found all of them active.
    full: Option<u64>,
}

impl Sessions {
    /// No sessions yet.
    pub fn new(limits: &Limits, keys: Arc<Keyring>, metrics: Arc<Metrics>) -> Arc<Self> {
        let table = Table {
            live: HashSet::default(),
            by_age: BTreeMap::new(),
            gone: Tombstones::new(TOMBSTONES, LIFE.as_secs()),
            full: None,
        };
        Arc::new(Self {
            keys,
            metrics,
            most: limits.sessions,
            idle: u64::try_from(limits.session_idle.as_micros()).unwrap_or(u64::MAX),
            load: Arc::new(Load::new(limits.calls_per_session, limits.calls)),
            guests: AtomicU64::new(0),
            budget: Arc::default(),
            origin: Instant::now(),
            origin_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            table: Mutex::new(table),
        })
    }

    /// A new session. Where there are as many as there may be, the one idle longest makes room (its id stays good).
    ///
    /// # Errors
    /// Where all of them are active.
    pub fn open<'w>(&self, whose: impl Into<Whose<'w>>, agreed: Agreed) -> Result<Arc<Session>, Full> {
        let whose = whose.into();
        let ticket = Ticket::new(self.now_unix().saturating_add(LIFE.as_secs()), agreed);
        let id = ticket.seal(&self.keys, whose);
        let session = self.session(id, whose, ticket);
        self.insert(self.table(), session)
    }

    /// What a request brings with it that belongs to no session: as a session it is in no table, has no id and no stream,
    /// and ends with the last who holds it.
    pub fn guest<'w>(
        &self,
        whose: impl Into<Whose<'w>>,
        agreed: Agreed,
        level: Option<Level>,
    ) -> Arc<Session> {
        let serial = GUESTS | u128::from(self.guests.fetch_add(1, Ordering::Relaxed));
        let ticket = Ticket { serial, end: u64::MAX, agreed };
        let session = self.session(String::new(), whose.into(), ticket);
        if let Some(level) = level {
            session.set_level(level);
        }
        session
    }

    /// The session `id`, if it is theirs: of that view, and that principal's. One that is not in memory, since it was idle, or comes from another
    /// process with the same key, is taken over as it was at `initialize`.
    pub fn find<'w>(&self, id: &str, whose: impl Into<Whose<'w>>) -> Option<Arc<Session>> {
        let whose = whose.into();
        if let Some(known) = self.table().live.get(id) {
            return known.0.is_of(whose).then(|| {
                known.0.touch();
                Arc::clone(&known.0)
            });
        }
        let ticket = Ticket::open(&self.keys, whose, id)?;
        if self.now_unix() >= ticket.end {
            return None;
        }
        let session = self.session(id.to_owned(), whose, ticket);
        session.set_initialized();
        let table = self.table();
        if table.gone.has(session.ticket.serial) {
            return None;
        }
        self.insert(table, session).ok()
    }

    /// Ends the session `id` for good: its stream ends and its id opens no more, here. `false` where it is not in memory;
    /// [`find`](Self::find) brings it there, and checks its view.
    pub fn close(&self, id: &str) -> bool {
        let mut table = self.table();
        let Some(ById(session)) = table.live.take(id) else { return false };
        table.by_age.remove(&(session.queued.load(Ordering::Relaxed), session.ticket.serial));
        if self.now_unix() < session.ticket.end {
            table.gone.add(session.ticket.serial, self.now_unix());
        }
        self.count(&table);
        drop(table);
        session.close();
        true
    }

    /// Lets go of sessions that have been idle too long, and of streams that nobody came back for. The sessions' ids stay
    /// good until their end.
    pub fn sweep(&self) {
        if self.budget.used() > 0 {
            self.all().iter().for_each(|session| session.tidy());
        }
        let now = micros(self.origin);
        let Some(limit) = now.checked_sub(self.idle) else { return };
        loop {
            let mut table = self.table();
            let Some(session) = table.take_idle(limit, now) else { break };
            self.count(&table);
            drop(table);
            session.close();
        }
    }

    /// Sweeps now and then until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(SWEEP)).await.is_some() {
            self.sweep();
        }
    }

    /// All that are in memory now, for what concerns each of them.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.table().by_age.values().cloned().collect()
    }

    /// Ends every open stream and lets go of all sessions, but keeps their ids good: a successor takes them over.
    pub fn end_all(&self) {
        let mut table = self.table();
        let all = std::mem::take(&mut table.by_age);
        table.live.clear();
        self.count(&table);
        drop(table);
        for session in all.values() {
            session.close();
        }
    }

    /// Places in the queue: one for each session in memory.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.table().by_age.len()
    }

    /// Bytes that all streams keep.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.budget.used()
    }

    fn session(&self, id: String, whose: Whose<'_>, ticket: Ticket) -> Arc<Session> {
        let (load, budget) = (Arc::clone(&self.load), Arc::clone(&self.budget));
        Arc::new(Session::new(id, whose, ticket, self.origin, load, budget))
    }

    fn insert(&self, mut table: MutexGuard<'_, Table>, session: Arc<Session>) -> Result<Arc<Session>, Full> {
        if let Some(known) = table.live.get(session.id()) {
            return Ok(Arc::clone(&known.0)); // another request of the same client adopted it meanwhile
        }
        let now = micros(self.origin);
        let evicted = if table.live.len() < self.most { None } else { Some(table.make_room(now)?) };
        table.enqueue(now, Arc::clone(&session));
        table.live.insert(ById(Arc::clone(&session)));
        self.count(&table);
        drop(table);
        if let Some(evicted) = evicted {
            evicted.close();
        }
        Ok(session)
    }

    fn count(&self, table: &Table) {
        self.metrics.sessions(table.live.len());
    }

    fn now_unix(&self) -> u64 {
        self.origin_unix.saturating_add(self.origin.elapsed().as_secs())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn enqueue(&mut self, used: u64, session: Arc<Session>) {
        session.queued.store(used, Ordering::Relaxed);
        self.by_age.insert((used, session.ticket.serial), session);
    }

    /// Takes out the longest idle session, if it has not been in use since `limit`. One that was in use since it was
    /// queued is queued again: each use costs at most one such turn.
    fn take_idle(&mut self, limit: u64, now: u64) -> Option<Arc<Session>> {
        for _ in 0..self.by_age.len() {
            let first = self.by_age.first_entry().filter(|first| first.key().0 <= limit)?;
            let queued = first.key().0;
            let session = first.remove();
            match session.idle_since() {
                Some(used) if used <= queued => {
                    self.live.remove(session.id());
                    return Some(session);
                }
                used => self.enqueue(used.unwrap_or(now), session),
            }
        }
        None
    }

    /// Takes out the longest idle session, or tells that there is none without looking at all of them each time.
    fn make_room(&mut self, now: u64) -> Result<Arc<Session>, Full> {
        if self.full.is_some_and(|since| now < since + ALL_ACTIVE) {
            return Err(Full);
        }
        self.full = None;
        self.take_idle(u64::MAX, now).ok_or_else(|| {
            self.full = Some(now);
            Full
        })
    }
}

/// A session, found by its id without a second copy of it.
#[derive(Debug)]
struct ById(Arc<Session>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        self.0.id()
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Eq for ById {}
