//! Whether memory grows.

use tokio::time::Instant;

use crate::support::process;

/// How much more after an hour is no growth, in KiB.
const AN_HOUR: f64 = 1024.0;
/// What a short run may have more at its end: caches and pools still fill, and pages come and go.
const SHORT: f64 = 6.0 * 1024.0;
/// From how many seconds on a slope says something.
const LONG: u64 = 1200;

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

    /// That the second half does not grow: by its slope, or where that is too short to say, by its ends.
    pub(crate) fn check(&self) {
        let half = self.looks.get(self.looks.len() / 2..).unwrap_or_default();
        let (Some(first), Some(last)) = (half.first(), half.last()) else { return };
        let hourly = slope(half) * 3600.0;
        println!("soak: {:.0} KiB more in the second half, {hourly:.0} KiB an hour", last.1 - first.1);
        if self.seconds >= LONG {
            assert!(hourly < AN_HOUR, "memory grows by {hourly:.0} KiB an hour: {:?}", self.looks);
        } else {
            assert!(last.1 - first.1 < SHORT, "memory grows: {:?}", self.looks);
        }
    }
}

/// Least squares, in KiB a second.
fn slope(looks: &[(f64, f64)]) -> f64 {
    let count: f64 = looks.iter().map(|_| 1.0).sum();
    let mean = |part: fn(&(f64, f64)) -> f64| looks.iter().map(part).sum::<f64>() / count;
    let (at, rss) = (mean(|look| look.0), mean(|look| look.1));
    let (mut above, mut below) = (0.0, 0.0);
    for look in looks {
        above += (look.0 - at) * (look.1 - rss);
        below += (look.0 - at).powi(2);
    }
    if below > 0.0 { above / below } else { 0.0 }
}

#[test]
fn what_grows_is_found() {
    assert!((slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) - 2.0).abs() < 1e-9);
    let mut growth = Growth::new(std::process::id(), LONG);
    growth.looks = (0..100_u32).map(|n| (f64::from(n) * 10.0, 10_000.0 + f64::from(n) * 5.0)).collect();
    assert!(std::panic::catch_unwind(|| growth.check()).is_err());
}
