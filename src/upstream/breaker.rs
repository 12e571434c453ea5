//! Gives a server a rest that takes calls and fails them.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::state::{Remedy, Unavailable};
use crate::config;
use crate::metrics::{BreakerState, ServerSeries};
use crate::names::ServerName;

/// The longest rest, unless the file says more.
const LONGEST: Duration = Duration::from_secs(300);

/// Something is held against the server, so that a success matters.
const DOUBTED: u64 = 1;
/// Calls are stopped.
const OPEN: u64 = 2;
/// What one round adds.
const ROUND: u64 = 4;

/// Stops calls to a server that fails them: some rounds of calls in a row, where calls that fail side by side are one
/// round. After a rest one call is let through as a probe; each time that one fails, the next rest is twice as long.
///
/// A call looks at one number when it begins and when it ends; whatever costs more is done only while something is wrong.
#[derive(Debug)]
pub(super) struct Breaker {
    server: ServerName,
    /// The two flags, and above them the number of rounds so far.
    word: AtomicU64,
    inner: Mutex<Inner>,
    series: Arc<ServerSeries>,
    /// Told when it opens.
    pub(super) opened: Notify,
}

#[derive(Debug)]
struct Inner {
    /// None where it is switched off.
    settings: Option<config::Breaker>,
    /// When rounds failed.
    failures: VecDeque<Instant>,
    /// What the last failure was, as a predicate.
    what: String,
    /// How often it was opened in a row.
    times: u32,
    until: Instant,
    probing: bool,
}

/// What a call was let in with; told back with what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    round: u64,
    pub(super) probe: bool,
}

/// A breaker that stops calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Why, as a predicate.
    pub what: String,
    /// When a call is let through as a probe.
    pub until: Instant,
    /// How often it was opened since a call last succeeded.
    pub times: u32,
    /// A probe is under way.
    pub probing: bool,
}

impl Breaker {
    pub(super) fn new(
        server: ServerName,
        settings: Option<config::Breaker>,
        series: Arc<ServerSeries>,
    ) -> Self {
        series.breaker(BreakerState::Closed);
        let inner = Inner {
            settings,
            failures: VecDeque::new(),
            what: String::new(),
            times: 0,
            until: Instant::now(),
            probing: false,
        };
        Self { server, word: AtomicU64::new(0), inner: Mutex::new(inner), series, opened: Notify::new() }
    }

    /// Lets a call through, or says why not.
    pub(super) fn ask(&self) -> Result<Pass, Unavailable> {
        let word = self.word.load(Ordering::Acquire);
        if word & OPEN == 0 {
            return Ok(Pass { round: word / ROUND, probe: false });
        }
        let mut inner = self.inner();
        let round = self.word.load(Ordering::Acquire) / ROUND;
        if !self.is_open() {
            return Ok(Pass { round, probe: false });
        }
        let now = Instant::now();
        if inner.until > now || inner.probing {
            let retry_after = inner.until.saturating_duration_since(now).max(Duration::from_secs(1));
            return Err(Unavailable { what: inner.told(), retry_after, remedy: Remedy::Time });
        }
        inner.probing = true;
        self.series.breaker(BreakerState::HalfOpen);
        Ok(Pass { round, probe: true })
    }

    /// What a call is let in with, whatever the state is.
    pub(super) fn pass(&self) -> Pass {
        Pass { round: self.word.load(Ordering::Acquire) / ROUND, probe: false }
    }

    /// The server has answered a call.
    pub(super) fn succeeded(&self, pass: Pass) {
        if self.word.load(Ordering::Acquire) & (OPEN | DOUBTED) == 0 {
            return;
        }
        let mut inner = self.inner();
        if self.is_open() && !(pass.probe && self.is_of_now(pass)) {
            return; // it began before, and tells nothing of what comes
        }
        let was_open = self.close(&mut inner);
        drop(inner);
        if was_open {
            tracing::info!(server = %self.server, "answers calls again, so it gets all of them");
        }
    }

    /// The server has failed a call in the way that `what` says.
    pub(super) fn failed(&self, pass: Pass, what: &str) {
        let mut inner = self.inner();
        let Some(settings) = inner.settings else { return };
        if !self.is_of_now(pass) || (self.is_open() && !pass.probe) {
            return; // side by side with one that was counted
        }
        self.word.fetch_add(ROUND, Ordering::AcqRel);
        self.word.fetch_or(DOUBTED, Ordering::AcqRel);
        what.clone_into(&mut inner.what);
        let now = Instant::now();
        inner.failures.retain(|at| now - *at < settings.window);
        inner.failures.push_back(now);
        if pass.probe || inner.failures.len() >= settings.failures {
            let rest = self.open(&mut inner, settings);
            let (why, times) = (inner.what.clone(), inner.times);
            drop(inner);
            tracing::warn!(server = %self.server, why, times, "has failed the last calls and gets none for {rest:.1?}; then it is tried with one");
        }
    }

    /// Of a call with this pass nothing is known.
    pub(super) fn abandoned(&self, pass: Pass) {
        if pass.probe {
            let mut inner = self.inner();
            if self.is_of_now(pass) {
                inner.probing = false;
            }
        }
    }

    /// There is another connection: the next call is a probe.
    pub(super) fn renew(&self) {
        let mut inner = self.inner();
        if self.is_open() {
            (inner.until, inner.probing) = (Instant::now(), false);
            self.word.fetch_add(ROUND, Ordering::AcqRel); // calls on the last one are of no account
        }
    }

    /// Nothing is held against the server any more.
    pub(super) fn clear(&self, settings: Option<config::Breaker>) {
        let mut inner = self.inner();
        inner.settings = settings;
        let was_open = self.close(&mut inner);
        drop(inner);
        if was_open {
            tracing::info!(server = %self.server, "has other settings, so it gets calls again");
        }
    }

    /// How it is, where it stops calls.
    pub(super) fn shown(&self) -> Option<Open> {
        if !self.is_open() {
            return None;
        }
        let inner = self.inner();
        let Inner { until, times, probing, .. } = *inner;
        Some(Open { what: inner.told(), until, times, probing })
    }

    pub(super) fn is_open(&self) -> bool {
        self.word.load(Ordering::Acquire) & OPEN != 0
    }

    fn is_of_now(&self, pass: Pass) -> bool {
        self.word.load(Ordering::Acquire) / ROUND == pass.round
    }

    /// Begins a rest, and says how long it is.
    fn open(&self, inner: &mut Inner, settings: config::Breaker) -> Duration {
        let (doubled, most) = (2_u32.pow(inner.times.min(9)), LONGEST.max(settings.open));
        inner.times = inner.times.saturating_add(1);
        let rest = jittered(settings.open.saturating_mul(doubled).min(most)).min(most);
        inner.until = Instant::now() + rest;
        (inner.probing, inner.failures) = (false, VecDeque::new());
        self.word.fetch_or(OPEN, Ordering::AcqRel);
        self.series.breaker(BreakerState::Open);
        self.opened.notify_one();
        rest
    }

    /// Holds nothing against the server any more; whether calls were stopped.
    fn close(&self, inner: &mut Inner) -> bool {
        let was_open = self.is_open();
        (inner.times, inner.probing, inner.failures) = (0, false, VecDeque::new());
        self.word.fetch_add(ROUND, Ordering::AcqRel);
        self.word.fetch_and(!(OPEN | DOUBTED), Ordering::AcqRel);
        self.series.breaker(BreakerState::Closed);
        was_open
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn told(&self) -> String {
        let rest = if self.probing { "is tried with one call" } else { "is given a rest" };
        format!("has failed the last calls and {rest} (it {})", self.what)
    }
}

/// Up to a tenth more or less, so that not everybody comes back at once.
fn jittered(time: Duration) -> Duration {
    let thousandths = RandomState::new().hash_one(()) % 200;
    time * (900 + u32::try_from(thousandths).unwrap_or_default()) / 1000
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::metrics::Metrics;

    const SETTINGS: config::Breaker = config::Breaker::USUAL;

    fn breaker() -> Breaker {
        Breaker::new(ServerName::expose("up"), Some(SETTINGS), Metrics::new("test").server("up"))
    }

    fn fail(breaker: &Breaker) {
        let pass = breaker.ask().unwrap();
        breaker.failed(pass, "is silent");
    }

    /// How long the rest is that it has just begun.
    fn rest(breaker: &Breaker) -> u64 {
        breaker.ask().unwrap_err().retry_after.as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn rests_double_up_to_five_minutes_and_a_success_ends_them() {
        let breaker = breaker();
        for _ in 0..2 {
            fail(&breaker);
        }
        assert!(!breaker.is_open());
        fail(&breaker);
        assert!(breaker.ask().unwrap_err().what.contains("is silent"));
        for usual in [30, 60, 120, 240, 300, 300] {
            let found = rest(&breaker);
            assert!((usual * 89 / 100..=usual * 11 / 10).contains(&found), "{usual}: {found}");
            advance(Duration::from_secs(usual * 11 / 10 + 1)).await;
            let probe = breaker.ask().unwrap();
            assert!(probe.probe && breaker.ask().is_err(), "one at a time");
            breaker.failed(probe, "is silent");
        }
        advance(Duration::from_secs(301)).await;
        let probe = breaker.ask().unwrap();
        breaker.succeeded(probe);
        assert!(!breaker.is_open() && breaker.ask() == Ok(breaker.pass()));
        for _ in 0..3 {
            fail(&breaker);
        }
        assert!(rest(&breaker) <= 33, "it begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_count_and_not_calls() {
        let breaker = breaker();
        for _ in 0..2 {
            let side_by_side: Vec<_> = (0..100).map(|_| breaker.ask().unwrap()).collect();
            for pass in side_by_side {
                breaker.failed(pass, "is silent");
            }
            assert!(!breaker.is_open());
        }
        breaker.succeeded(breaker.pass());
        for _ in 0..2 {
            fail(&breaker);
        }
        assert!(!breaker.is_open(), "only those in a row");
        advance(SETTINGS.window).await;
        fail(&breaker);
        assert!(!breaker.is_open(), "only those of late");
        fail(&breaker);
        fail(&breaker);
        assert!(breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn another_connection_is_tried_at_once_and_settings_forgive() {
        let breaker = breaker();
        for _ in 0..3 {
            fail(&breaker);
        }
        breaker.succeeded(breaker.pass());
        assert!(breaker.is_open(), "a call of before tells nothing");
        breaker.renew();
        let probe = breaker.ask().unwrap();
        assert!(probe.probe);
        breaker.renew();
        breaker.failed(probe, "that was the last one");
        let probe = breaker.ask().unwrap();
        breaker.abandoned(probe);
        let probe = breaker.ask().unwrap();
        breaker.failed(probe, "again");
        assert!(breaker.ask().is_err());
        breaker.clear(Some(SETTINGS));
        assert!(breaker.shown().is_none() && breaker.ask().is_ok());
        breaker.clear(None);
        for _ in 0..9 {
            fail(&breaker);
        }
        assert!(!breaker.is_open(), "it is switched off");
    }
}
