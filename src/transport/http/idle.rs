//! Unused connections.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lease::Lease;

/// Unused connections and when each was put back, in shards, one for each thread.
///
/// A connection goes back to the shard of the thread that made it, and a thread looks into its own shard only: with a
/// runtime per core, threads use connections that they drive themselves. One that another thread drives costs two
/// wake-ups across cores a call, more than half of the call itself at low load.
#[derive(Debug)]
pub(super) struct Idle(Box<[Shard]>);

/// On cache lines of its own, so that cores do not wait for each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Vec<(Lease, u32)>>);

impl Idle {
    pub(super) fn new() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self(std::iter::repeat_with(Shard::default).take(workers + 1).collect()) // and the one that starts them
    }

    /// The shard of this thread.
    pub(super) fn home(&self) -> usize {
        thread() % self.0.len()
    }

    pub(super) fn put(&self, lease: Lease, now: u32) {
        if let Some(shard) = self.0.get(lease.home) {
            shard.lock().push((lease, now));
        }
    }

    /// The one that this thread used last.
    pub(super) fn take(&self) -> Option<Lease> {
        self.0.get(self.home())?.take()
    }

    /// Any.
    pub(super) fn take_any(&self) -> Option<Lease> {
        self.0.iter().find_map(Shard::take)
    }

    /// Drops those put back before `then`, and those that their server has closed. Whether there are others.
    pub(super) fn trim(&self, then: impl Fn(u32) -> bool) -> bool {
        let mut rest = false;
        for shard in &self.0 {
            let mut leases = shard.lock();
            leases.retain_mut(|(lease, put)| !then(*put) && lease.is_ready());
            rest |= !leases.is_empty();
        }
        rest
    }
}

#[cfg(test)]
impl Idle {
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl Shard {
    fn take(&self) -> Option<Lease> {
        let mut leases = self.lock();
        std::iter::from_fn(|| leases.pop()).find_map(|(mut lease, _)| lease.is_ready().then_some(lease))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Lease, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of this thread, in the order in which threads came here.
fn thread() -> usize {
    const NONE: usize = usize::MAX;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    }
    NUMBER.with(|number| {
        if number.get() == NONE {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
