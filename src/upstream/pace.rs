//! How often a server may be tried.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// At most one attempt per interval, whatever the reason for it; the first is free.
#[derive(Debug)]
pub(super) struct Pace {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<TokioTime>>,
    interval: Duration,
    next: Instant,
}

impl Pace {
    pub(super) fn new(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1)); // a quota of no time at all is none
        let quota = Quota::with_period(interval).unwrap_or_else(|| Quota::per_second(NonZeroU32::MIN));
        let now = Instant::now();
        let limiter = RateLimiter::direct_with_clock(quota.allow_burst(NonZeroU32::MIN), TokioClock(now));
        Self { limiter, interval, next: now }
    }

    /// Takes the next attempt, or tells when there is one.
    pub(super) fn take(&mut self) -> Result<(), Instant> {
        let now = self.limiter.clock().now();
        match self.limiter.check() {
            Ok(()) => self.next = Instant::now() + self.interval,
            Err(wait) => return Err(Instant::now() + wait.wait_time_from(now)),
        }
        Ok(())
    }

    /// Lets the next attempt be made at once.
    pub(super) fn open(&mut self) {
        *self = Self::new(self.interval);
    }

    /// Puts the next attempt off, because the server asked for it.
    pub(super) fn put_off(&mut self, by: Duration) {
        self.next = self.next.max(Instant::now() + by);
    }

    /// When the next attempt may be made.
    pub(super) fn next(&self) -> Instant {
        self.next
    }
}

/// How much a server may tell all clients at a time: one that floods must not put the notices of others out of everybody's
/// reach.
#[derive(Debug)]
pub(super) struct Allowance(RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<TokioTime>>);

impl Allowance {
    /// So many at once and per second.
    pub(super) fn new(most: NonZeroU32) -> Self {
        Self(RateLimiter::direct_with_clock(Quota::per_second(most), TokioClock(Instant::now())))
    }

    /// Takes one, if there is one left.
    pub(super) fn take(&self) -> bool {
        self.0.check().is_ok()
    }
}

/// tokio's clock for governor, so that tests can pause it.
#[derive(Debug, Clone)]
struct TokioClock(Instant);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TokioTime(Duration);

impl Clock for TokioClock {
    type Instant = TokioTime;
    fn now(&self) -> TokioTime {
        TokioTime(self.0.elapsed())
    }
}

impl Reference for TokioTime {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_sub(earlier.0).into()
    }
    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.saturating_sub(duration.into()))
    }
}

impl std::ops::Add<Nanos> for TokioTime {
    type Output = Self;
    fn add(self, other: Nanos) -> Self {
        Self(self.0 + Duration::from(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_leaves_so_many_per_second() {
        let allowance = Allowance::new(NonZeroU32::new(10).unwrap());
        let mut taken = 0;
        for _ in 0..100 {
            taken += (0..100).filter(|_| allowance.take()).count();
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert!((105..=110).contains(&taken), "{taken}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_attempt_per_interval() {
        let mut pace = Pace::new(Duration::from_secs(10));
        assert_eq!(pace.take(), Ok(()));
        let mut attempts = 0;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3600) {
            match pace.take() {
                Ok(()) => attempts += 1,
                Err(next) => {
                    assert!(next > Instant::now() && next <= Instant::now() + Duration::from_secs(10));
                    tokio::time::sleep_until(next).await;
                }
            }
        }
        // Each sleep ends at the next whole millisecond, so an hour may be one short of 361.
        assert!((359..=361).contains(&attempts), "{attempts}");
    }
}
