//! Coarse deadlines: any number of waiting calls for the price of one timer.
//!
//! A timer of its own for every call costs more than reading its message, and at low load it wakes another thread. Calls
//! wait for milliseconds with deadlines of seconds, so a deadline here may be late by [`TICK`], and by as much again.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How late a deadline may be.
pub const TICK: Duration = Duration::from_millis(100);

/// The tick after which there is none. Every deadline is at it or before.
const OVER: u64 = u64::MAX;

/// Counts ticks while anybody waits.
#[derive(Debug, Default)]
pub struct Clock {
    ticks: AtomicU64,
    waiting: Mutex<Waiting>,
    woken: Notify,
}

/// The time was over first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late;

#[derive(Debug, Default)]
struct Waiting {
    seats: Vec<Option<(u64, Waker)>>,
    free: Vec<usize>,
    /// Somebody has come since the last tick.
    busy: bool,
    /// Nobody has for a while, so nothing ticks.
    asleep: bool,
}

impl Clock {
    /// Ticks until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(self.tick()).await.is_some() {}
    }

    async fn tick(&self) {
        sleep(TICK).await;
        let before = self.ticks.fetch_update(Ordering::AcqRel, Ordering::Acquire, |tick| tick.checked_add(1));
        let now = before.map_or(OVER, |before| before + 1);
        let mut due = Vec::new();
        let asleep = {
            let mut waiting = self.waiting();
            due.extend(
                waiting
                    .seats
                    .iter()
                    .flatten()
                    .filter(|(tick, _)| *tick <= now)
                    .map(|(_, waker)| waker.clone()),
            );
            let nobody = waiting.free.len() == waiting.seats.len();
            waiting.asleep = nobody && !std::mem::take(&mut waiting.busy);
            waiting.asleep
        };
        due.into_iter().for_each(Waker::wake);
        if asleep {
            self.woken.notified().await;
        }
    }

    /// All time is over: whoever waits is late within a [`TICK`], and so is whoever comes later.
    pub fn end(&self) {
        self.ticks.store(OVER, Ordering::Release);
    }

    /// Whether all time is over. Who was late then need not have waited for long.
    pub fn is_over(&self) -> bool {
        self.ticks.load(Ordering::Acquire) == OVER
    }

    /// Runs `future` for `limit` at the most, give or take a [`TICK`].
    ///
    /// # Errors
    /// [`Late`] where it has not ended by then.
    pub async fn within<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Late> {
        let ticks = u64::try_from(limit.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX);
        // One more, since the first may come at any moment.
        let due = self.ticks.load(Ordering::Acquire).saturating_add(ticks).saturating_add(1);
        let mut future = pin!(future);
        let mut seat = Seat { clock: self, place: None };
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            if self.ticks.load(Ordering::Acquire) >= due {
                return Poll::Ready(Err(Late));
            }
            seat.take(due, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Runs `future` for as long as there is time at all.
    ///
    /// # Errors
    /// [`Late`] where it has not ended by [the end](Self::end).
    pub async fn to_the_end<F: Future>(&self, future: F) -> Result<F::Output, Late> {
        self.within(Duration::MAX, future).await
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who wait, given up when dropped.
struct Seat<'c> {
    clock: &'c Clock,
    place: Option<usize>,
}

impl Seat<'_> {
    fn take(&mut self, due: u64, waker: &Waker) {
        let mut waiting = self.clock.waiting();
        let place = *self.place.get_or_insert_with(|| waiting.seat());
        if let Some(seat) = waiting.seats.get_mut(place) {
            match seat {
                Some((_, seated)) => seated.clone_from(waker),
                None => *seat = Some((due, waker.clone())),
            }
        }
        if std::mem::take(&mut waiting.asleep) {
            drop(waiting);
            self.clock.woken.notify_one();
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut waiting = self.clock.waiting();
        if let Some(seat) = waiting.seats.get_mut(place) {
            *seat = None;
        }
        waiting.free.push(place);
    }
}

impl Waiting {
    fn seat(&mut self) -> usize {
        self.busy = true;
        self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        })
    }
}

#[cfg(test)]
mod tests;
