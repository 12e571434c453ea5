//! What is known of one client's connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memory::Memory;
use crate::metrics::Closed;

/// One client's connection. Whoever works for it counts here, so that nothing has to be asked, locked or timed for a
/// single request.
#[derive(Debug)]
pub struct Peer {
    memory: Arc<Memory>,
    /// Requests that have come.
    taken: AtomicU64,
    /// Requests, pieces of bodies and looks at answers: whatever is more than noise.
    moved: AtomicU64,
    /// Looks at answers.
    looked: AtomicU64,
    /// Requests whose answers have not ended.
    alive: AtomicUsize,
    /// Calls of clients without a session.
    calls: AtomicUsize,
    /// It speaks HTTP/2.
    two: bool,
    /// Something of a request has come that is not there yet.
    begun: AtomicBool,
    /// A head could be read in two ways.
    doubtful: AtomicBool,
    /// It does not take what is written.
    stalled: AtomicBool,
    /// The last look at an answer found something.
    found: AtomicBool,
    /// Why it is closed in its middle.
    fault: OnceLock<Closed>,
}

impl Peer {
    /// A connection whose requests are still to come, over HTTP/2 or not; what is held for it counts in `memory`.
    pub(super) fn new(memory: Arc<Memory>, two: bool) -> Arc<Self> {
        Arc::new(Self {
            memory,
            taken: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            alive: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            two,
            begun: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            found: AtomicBool::new(false),
            fault: OnceLock::new(),
        })
    }

    /// Where what is held for it counts.
    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// A request has come; it is alive until the guard is dropped.
    pub(super) fn take(self: &Arc<Self>) -> Alive {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.alive.fetch_add(1, Ordering::Relaxed);
        self.begun.store(false, Ordering::Relaxed);
        self.stir();
        Alive(self.clone())
    }

    /// How many requests have come.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many requests have not been answered to their end.
    pub(super) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// An answer was looked at for more, and some was `found`, or the end.
    pub(super) fn look(&self, found: bool) {
        self.found.store(found, Ordering::Relaxed);
        self.looked.fetch_add(1, Ordering::Relaxed);
        self.stir();
    }

    /// How often answers were looked at for more.
    pub(super) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    /// Whether the last look found something.
    pub(super) fn has_found(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    /// It is to be closed, for this reason.
    pub(super) fn blame(&self, why: Closed) {
        self.fault.get_or_init(|| why);
    }

    /// Why it is closed by us, if it is.
    pub(super) fn fault(&self) -> Option<Closed> {
        self.fault.get().copied()
    }

    /// Something moved.
    pub(super) fn stir(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something moved.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// A place for a call of a client without a session, of `most`.
    pub(super) fn place(self: &Arc<Self>, most: usize) -> Option<Place> {
        let place = Place(self.clone());
        (self.calls.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }

    /// Something of the next request has come.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Whether something of a request has come that is not there yet.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether it speaks HTTP/2.
    pub(super) fn is_two(&self) -> bool {
        self.two
    }

    /// Whether a head could be read in two ways.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Relaxed)
    }

    /// A head could be read in two ways.
    pub(super) fn set_doubtful(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// Whether something waits to be taken by it.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Whether something waits to be taken by it.
    pub(super) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }
}

/// A request that has not been answered to its end.
#[derive(Debug)]
pub(super) struct Alive(Arc<Peer>);

impl Alive {
    pub(super) fn peer(&self) -> &Peer {
        &self.0
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of a call.
#[derive(Debug)]
pub(super) struct Place(Arc<Peer>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
