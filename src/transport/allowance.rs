//! How much may be logged.

use std::time::Duration;

use tokio::time::Instant;

/// So much per window of time, and no more.
#[derive(Debug)]
pub(super) struct Allowance {
    most: u64,
    window: Duration,
    since: Instant,
    used: u64,
    refused: u64,
}

impl Allowance {
    pub(super) fn new(most: u64, window: Duration) -> Self {
        Self { most, window, since: Instant::now(), used: 0, refused: 0 }
    }

    /// Whether `size` more fits. The first `Some` of a window tells how much was refused in the ones before.
    pub(super) fn take(&mut self, size: u64) -> Option<u64> {
        if self.since.elapsed() >= self.window {
            (self.since, self.used) = (Instant::now(), 0);
        }
        if self.used + size > self.most {
            self.refused += size;
            return None;
        }
        self.used += size;
        Some(std::mem::take(&mut self.refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_new_window_allows_again_and_tells() {
        let mut allowance = Allowance::new(10, Duration::from_secs(1));
        assert_eq!([allowance.take(6), allowance.take(6), allowance.take(4)], [Some(0), None, Some(6)]);
        assert_eq!(allowance.take(1), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(allowance.take(10), Some(1));
    }
}
