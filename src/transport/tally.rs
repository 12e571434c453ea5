//! What a link dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::metrics::{Dropped, ServerSeries};

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
    stray: Counter,
    skipped: Counter,
    overflowed: Counter,
    pub(super) hushed: Counter,
    /// Where it is counted for all to see.
    series: OnceLock<Arc<ServerSeries>>,
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
    /// Counts in `series` as well, from now on.
    pub(super) fn show(&self, series: &Arc<ServerSeries>) {
        self.series.get_or_init(|| Arc::clone(series));
    }

    /// Counts where `other` does.
    pub(super) fn show_with(&self, other: &Self) {
        if let Some(series) = other.series.get() {
            self.show(series);
        }
    }

    /// An answer or progress that no call waits for.
    pub(super) fn stray(&self) {
        self.stray.add(1);
        self.tell(Dropped::Stray);
    }

    /// Something that is no message.
    pub(super) fn skip(&self) {
        self.skipped.add(1);
        self.tell(Dropped::Unreadable);
    }

    /// A message that nobody read in time.
    pub(super) fn overflow(&self) {
        self.overflowed.add(1);
        self.tell(Dropped::Overflow);
    }

    fn tell(&self, what: Dropped) {
        if let Some(series) = self.series.get() {
            series.dropped(what);
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            stray: self.stray.get(),
            skipped: self.skipped.get(),
            overflowed: self.overflowed.get(),
            hushed: self.hushed.get(),
        }
    }
}
