//! What all workers of one run have seen together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies above this are told as this.
const LONGEST: Duration = Duration::from_mins(1);

/// Counts of one run, shared by its workers. They run on one thread, so its lock is never waited for.
#[derive(Debug)]
pub struct Tally(Mutex<Counts>);

/// The counts themselves.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Right answers by latency in nanoseconds, to three digits.
    latencies: Histogram<u64>,
    /// Wrong answers, broken connections and refused sessions.
    pub errors: u64,
    /// What the first of them was.
    pub first_error: Option<String>,
}

impl Default for Tally {
    fn default() -> Self {
        let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        let latencies = Histogram::new_with_bounds(1, longest, 3).expect("the bounds are right");
        Self(Mutex::new(Counts { latencies, errors: 0, first_error: None }))
    }
}

impl Tally {
    /// Counts a right answer.
    pub fn right(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).latencies.saturating_record(nanos);
    }

    /// Counts an error.
    pub fn wrong(&self, error: &anyhow::Error) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.errors += 1;
        counts.first_error.get_or_insert_with(|| format!("{error:#}"));
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Counts {
    /// Right answers.
    pub fn calls(&self) -> u64 {
        self.latencies.len()
    }

    /// The latency below which this share (0 to 1) of the right answers came, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let nanos = Duration::from_nanos(self.latencies.value_at_quantile(share));
        (nanos.as_secs_f64() * 1e7).round() / 10.0
    }
}
