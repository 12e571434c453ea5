//! What a link dropped.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a link dropped so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers and progress that no call waits for.
    pub stray: u64,
    /// Lines, or events of the older transport, that are no message.
    pub skipped: u64,
    /// Messages that nobody read in time.
    pub overflowed: u64,
    /// Bytes of standard error that were not logged.
    pub hushed: u64,
}

/// [`Counts`] in the making.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stray: Counter,
    pub(super) skipped: Counter,
    pub(super) overflowed: Counter,
    pub(super) hushed: Counter,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            stray: self.stray.get(),
            skipped: self.skipped.get(),
            overflowed: self.overflowed.get(),
            hushed: self.hushed.get(),
        }
    }
}
