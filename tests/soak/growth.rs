//! Whether memory grows.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::process;

/// How much more after an hour is no growth, in KiB.
const AN_HOUR: f64 = 1024.0;
/// What a short run may have more at its end: caches and pools still fill, and pages come and go.
const SHORT: f64 = 6.0 * 1024.0;
/// From how many seconds on a slope says something.
const LONG: u64 = 1200;
/// What each session that was given back is remembered by for a day, in KiB: a table with a bound, of which so much is
/// filled here (`session::tombstones`).
const REMEMBERED: f64 = 18.0 / 1024.0;
/// In seconds: in each of these something is let go that a fault took.
const MINUTE: u64 = 60;

/// What a process holds, again and again.
#[derive(Debug)]
pub(crate) struct Growth {
    pid: u32,
    seconds: u64,
    since: Instant,
    looks: Vec<(f64, f64)>,
}

impl Growth {
    pub(crate) fn new(pid: u32, seconds: u64) -> Self {
        Self { pid, seconds, since: Instant::now(), looks: Vec::new() }
    }

    pub(crate) fn look(&mut self) {
        let rss = u32::try_from(process::rss(self.pid)).unwrap_or(u32::MAX);
        self.looks.push((self.since.elapsed().as_secs_f64(), rss.into()));
    }

    /// For whoever watches.
    pub(crate) fn now(&self) -> String {
        let (at, rss) = self.looks.last().copied().unwrap_or_default();
        format!("after {at:.0} s {rss:.0} KiB, {} file descriptors", process::fds(self.pid))
    }

    /// That the second half does not grow, but for what `ended` sessions are remembered by in all: by the slope of the least
    /// of each minute, or where that is too short to say, by its ends.
    pub(crate) fn check(&self, ended: usize) {
        let half = self.looks.get(self.looks.len() / 2..).unwrap_or_default();
        let (Some(first), Some(last)) = (half.first(), half.last()) else { return };
        let known = f64::from(u32::try_from(ended).unwrap()) * REMEMBERED * 3600.0
            / f64::from(u32::try_from(self.seconds).unwrap());
        let hourly = slope(&least(half)) * 3600.0 - known;
        println!(
            "soak: {:.0} KiB more in the second half, {hourly:.0} KiB an hour beside {known:.0} for ended sessions",
            last.1 - first.1
        );
        if self.seconds >= LONG {
            assert!(hourly < AN_HOUR, "memory grows by {hourly:.0} KiB an hour: {:?}", self.looks);
        } else {
            assert!(last.1 - first.1 < SHORT, "memory grows: {:?}", self.looks);
        }
    }
}

/// The least look of each minute: what a fault takes for a moment is no growth.
fn least(looks: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let minute = |look: &(f64, f64)| Duration::from_secs_f64(look.0).as_secs() / MINUTE;
    let least = |minute: &[(f64, f64)]| minute.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1));
    looks.chunk_by(|one, other| minute(one) == minute(other)).filter_map(least).collect()
}

/// The median of the slopes between any two looks (Theil and Sen), in KiB a second: a single one that stands out moves
/// least squares by where in the half it falls; what grows moves every pair.
fn slope(looks: &[(f64, f64)]) -> f64 {
    let pairs = looks.iter().enumerate().flat_map(|(at, first)| {
        looks.get(at + 1..).unwrap_or_default().iter().map(move |second| (first, second))
    });
    let mut slopes: Vec<_> =
        pairs.map(|(first, second)| (second.1 - first.1) / (second.0 - first.0)).collect();
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or_default()
}

#[test]
fn what_grows_is_found() {
    assert!((slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) - 2.0).abs() < 1e-9);
    let with_a_peak: Vec<_> =
        (0..100).map(|n| (f64::from(n), if n > 90 && n < 95 { 900.0 } else { 7.0 })).collect();
    assert!(slope(&with_a_peak).abs() < 1e-9);
    let mut growth = Growth::new(std::process::id(), LONG);
    growth.looks = (0..100_u32).map(|n| (f64::from(n) * 10.0, 10_000.0 + f64::from(n) * 5.0)).collect();
    assert!(std::panic::catch_unwind(|| growth.check(0)).is_err());
}
