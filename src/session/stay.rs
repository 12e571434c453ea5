//! One session.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::legs::Legs;
use super::load::Load;
use super::ring::Budget;
use super::streams::Streams;
use super::ticket::{Agreed, Ticket, Whose};
use crate::config::KeyHash;
use crate::mcp::{Abilities, Level, Revision};

/// A client's stay under one id. An idle one takes well under 1 KiB.
#[derive(Debug)]
pub struct Session {
    id: Box<str>,
    view: Box<str>,
    principal: Option<Arc<str>>,
    key: Option<KeyHash>,
    pub(super) ticket: Ticket,
    initialized: AtomicBool,
    /// When time began for the registry, and how many microseconds later the client last showed itself.
    origin: Instant,
    touched: AtomicU64,
    /// Where the registry's queue has it; changed under the registry's lock only.
    pub(super) queued: AtomicU64,
    load: Arc<Load>,
    open: Mutex<Open>,
    legs: Legs,
    abilities: Abilities,
    speaks: Revision,
    /// The level of log messages that the client wants, as its number; 0 where it never said.
    level: AtomicU8,
    /// The state of the world that the client was told of last, as its streams count it.
    heard: AtomicU64,
    /// What the streams of all sessions may keep.
    budget: Arc<Budget>,
}

#[derive(Default)]
struct Open {
    calls: Vec<Arc<InFlight>>,
    streams: Streams,
    leases: Vec<(Box<str>, Lease)>,
    closed: bool,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("calls", &self.calls.len())
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// Something that lasts as long as a session does, or until it is given back.
type Lease = Box<dyn Any + Send>;

/// As much as a session may hold.
const LEASES: usize = 1000;

/// Why a call may not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// JSON-RPC: a pending id may not be used again.
    #[error("a request with this id is still in flight")]
    Duplicate,
    /// The client's fair share is used up.
    #[error("too many requests of this session are in flight")]
    TooMany,
    /// All clients together have as many calls as there may be, or so nearly that this one has its share.
    #[error("too many calls are in flight")]
    Overloaded,
}

impl Session {
    pub(super) fn new(
        id: String,
        whose: Whose<'_>,
        ticket: Ticket,
        origin: Instant,
        load: Arc<Load>,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            id: id.into(),
            view: whose.view.into(),
            principal: whose.principal.cloned(),
            key: whose.key,
            initialized: AtomicBool::new(false),
            origin,
            touched: AtomicU64::new(micros(origin)),
            queued: AtomicU64::new(0),
            load,
            open: Mutex::default(),
            legs: Legs::default(),
            abilities: Abilities::parse(&ticket.agreed.capabilities),
            speaks: Revision::of(&ticket.agreed.revision).unwrap_or(Revision::LATEST_LEGACY),
            level: AtomicU8::new(0),
            ticket,
            heard: AtomicU64::new(NOTHING),
            budget,
        }
    }

    /// The id as the client sends it: visible ASCII, at most 1 KiB.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The view that it belongs to.
    pub fn view(&self) -> &str {
        &self.view
    }

    /// Whose it is, if callers prove who they are.
    pub fn principal(&self) -> Option<&Arc<str>> {
        self.principal.as_ref()
    }

    /// Of the key by whose leave it is here: that of who opened it, or took it over from another process.
    pub fn key(&self) -> Option<KeyHash> {
        self.key
    }

    /// Whether it is this one's.
    pub(super) fn is_of(&self, whose: Whose<'_>) -> bool {
        *self.view == *whose.view && self.principal.as_ref() == whose.principal
    }

    /// What was agreed at `initialize`.
    pub fn agreed(&self) -> &Agreed {
        &self.ticket.agreed
    }

    /// The negotiated revision.
    pub fn revision(&self) -> &str {
        &self.ticket.agreed.revision
    }

    /// The revision that its client speaks: the same as [`revision`](Self::revision), read once.
    pub fn speaks(&self) -> Revision {
        self.speaks
    }

    /// What the client can do for servers.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// The level from which on the client wants log messages, if it ever said.
    pub fn level(&self) -> Option<Level> {
        Level::from_number(self.level.load(Ordering::Relaxed))
    }

    /// From which level on the client hears log messages, if it hears any. A client with a session that never said gets no
    /// debugging: a server's is nobody's default, and where several share a connection another client's wish is not its.
    /// A request without a session names its level, or wants none (specification, `server/utilities/logging`).
    pub fn threshold(&self) -> Option<Level> {
        if self.is_guest() { self.level() } else { Some(self.level().unwrap_or(Level::Info)) }
    }

    /// Whether this is no stay but one request of a client without sessions, and what follows from it.
    pub fn is_guest(&self) -> bool {
        self.id.is_empty()
    }

    /// The client wants log messages from `level` on.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// What tells this stay from all others, and can be used where the id itself must not be seen.
    pub fn serial(&self) -> u128 {
        self.ticket.serial
    }

    /// Keeps `lease` under `key` until it is [given back](Self::give_back) or the session ends. `false` where the session
    /// holds `key` already, holds too much, or has ended: then the lease is dropped at once.
    pub fn hold(&self, key: &str, lease: impl Any + Send) -> bool {
        let mut open = self.open();
        let takes =
            !open.closed && open.leases.len() < LEASES && !open.leases.iter().any(|(held, _)| **held == *key);
        if takes {
            open.leases.push((key.into(), Box::new(lease)));
        }
        takes
    }

    /// Whether something is held under `key`.
    pub fn holds(&self, key: &str) -> bool {
        self.open().leases.iter().any(|(held, _)| **held == *key)
    }

    /// What is held under `key`, if it is such a thing.
    pub fn held<T: Any + Clone>(&self, key: &str) -> Option<T> {
        let open = self.open();
        let (_, lease) = open.leases.iter().find(|(held, _)| **held == *key)?;
        (**lease).downcast_ref().cloned()
    }

    /// Whether something is held under a key that `fits`.
    pub fn holds_any(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.open().leases.iter().any(|(held, _)| fits(held))
    }

    /// Drops what is held under `key`. `false` where nothing is.
    pub fn give_back(&self, key: &str) -> bool {
        let mut open = self.open();
        let Some(place) = open.leases.iter().position(|(held, _)| **held == *key) else { return false };
        let lease = open.leases.swap_remove(place);
        drop(open); // a lease's end may look at the session
        drop(lease);
        true
    }

    /// Whether `notifications/initialized` has come. An adopted session counts as initialized.
    pub fn initialized(&self) -> bool {
        self.initialized.load(Ordering::Relaxed)
    }

    /// `notifications/initialized` has come.
    pub fn set_initialized(&self) {
        self.initialized.store(true, Ordering::Relaxed);
    }

    /// Registers a call by its id as written in the request, with its JSON type: `1` and `"1"` differ. It is in flight
    /// until the guard is dropped.
    ///
    /// # Errors
    /// Where the id is in flight already, or too many are.
    pub fn begin(self: &Arc<Self>, id: &[u8]) -> Result<CallGuard, BeginError> {
        let mut open = self.open();
        if open.calls.iter().any(|other| *other.id == *id) {
            return Err(BeginError::Duplicate);
        }
        self.load.take(open.calls.len())?;
        let call = Arc::new(InFlight { id: id.into(), cancelled: Mutex::default() });
        open.calls.push(Arc::clone(&call));
        Ok(CallGuard { session: Arc::clone(self), call })
    }

    /// The client no longer wants the call `id`. `false` where it is not in flight: too late, or never was.
    pub fn cancel(&self, id: &[u8]) -> bool {
        let open = self.open();
        let Some(call) = open.calls.iter().find(|other| *other.id == *id).cloned() else { return false };
        drop(open); // whoever is woken may look at the session
        call.cancel();
        true
    }

    /// Notes the state of the world that the client is told of, as a count, and gives the one before, if it was told any.
    pub fn hear(&self, count: u64) -> Option<u64> {
        Some(self.heard.swap(count, Ordering::Relaxed)).filter(|before| *before != NOTHING)
    }

    /// Ends the stream of what no request asked for, and all that the session holds.
    pub(super) fn close(&self) {
        let (own, leases) = {
            let mut open = self.open();
            open.closed = true;
            (open.streams.close(), std::mem::take(&mut open.leases))
        };
        if let Some(own) = own {
            own.end(None);
        }
        drop(leases);
        self.legs.close();
    }

    /// The client has shown itself, or something of it has ended, just now.
    pub(super) fn touch(&self) {
        self.touched.store(micros(self.origin), Ordering::Relaxed);
    }

    /// When it was last in use, in microseconds from the origin; `None` while it is.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let open = self.open();
        let busy = !open.calls.is_empty() || open.streams.attached();
        (!busy).then(|| self.touched.load(Ordering::Relaxed))
    }

    pub(super) fn with_streams<T>(&self, work: impl FnOnce(&mut Streams, Instant, &Arc<Budget>) -> T) -> T {
        work(&mut self.open().streams, self.origin, &self.budget)
    }

    pub(super) fn legs(&self) -> &Legs {
        &self.legs
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its client was never told of anything.
const NOTHING: u64 = u64::MAX;

/// Microseconds since `origin`.
pub(super) fn micros(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A call in flight; dropped, it is over.
#[derive(Debug)]
#[must_use = "a call whose guard is dropped is over"]
pub struct CallGuard {
    session: Arc<Session>,
    call: Arc<InFlight>,
}

/// What the session and the call itself know of a call. A token that any number could wait for costs several times as
/// much, and each call pays for it.
#[derive(Debug)]
struct InFlight {
    /// As written in the request.
    id: Box<[u8]>,
    cancelled: Mutex<Cancelled>,
}

/// Whether a call is cancelled, and who waits for that.
#[derive(Debug, Default)]
struct Cancelled(bool, Option<Waker>);

impl InFlight {
    fn cancel(&self) {
        let mut cancelled = self.cancelled();
        cancelled.0 = true;
        let waiting = cancelled.1.take();
        drop(cancelled);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut cancelled = self.cancelled();
        if cancelled.0 {
            return Poll::Ready(());
        }
        match &mut cancelled.1 {
            Some(waiting) => waiting.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn cancelled(&self) -> MutexGuard<'_, Cancelled> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallGuard {
    /// Whether the client has cancelled this call.
    pub fn is_cancelled(&self) -> bool {
        self.call.cancelled().0
    }

    /// Resolves once the client has cancelled this call, however often it is asked and dropped. Only the last one who
    /// asks is woken: a call is polled by one task.
    pub async fn cancelled(&self) {
        poll_fn(|cx| self.call.poll_cancelled(cx)).await;
    }

    /// The session that it belongs to.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut open = self.session.open();
        if let Some(place) = open.calls.iter().position(|call| Arc::ptr_eq(call, &self.call)) {
            open.calls.swap_remove(place);
        }
        // What a burst took is given back; the few places of everyday use stay.
        if open.calls.is_empty() && open.calls.capacity() > 8 {
            open.calls.shrink_to(0);
        }
        drop(open);
        self.session.load.give();
        self.session.touch();
    }
}
