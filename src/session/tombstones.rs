//! Which ids were given back before their end.

use std::collections::HashSet;

/// Remembers at least the newest `most` serials for at least `span` seconds, without a queue: a set that fills up, or
/// grows old, becomes the old one, and the one before goes. At most twice `most` are held, at about 18 bytes each.
#[derive(Debug)]
pub(super) struct Tombstones {
    most: usize,
    span: u64,
    /// When `new` took over.
    since: u64,
    new: HashSet<u64>,
    old: HashSet<u64>,
}

impl Tombstones {
    pub(super) fn new(most: usize, span: u64) -> Self {
        Self { most, span, since: 0, new: HashSet::new(), old: HashSet::new() }
    }

    /// Half of the random bits tell ids apart well enough: a false match needs 2^64 tries.
    fn key(serial: u128) -> u64 {
        u64::try_from(serial >> 64).unwrap_or_default()
    }

    pub(super) fn add(&mut self, serial: u128, now: u64) {
        if self.new.len() >= self.most || now.saturating_sub(self.since) > self.span {
            self.old = std::mem::take(&mut self.new);
            self.since = now;
        }
        self.new.insert(Self::key(serial));
    }

    pub(super) fn has(&self, serial: u128) -> bool {
        let key = Self::key(serial);
        self.new.contains(&key) || self.old.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serial(n: u64) -> u128 {
        u128::from(n) << 64
    }

    #[test]
    fn the_newest_are_remembered_and_the_number_is_bounded() {
        let mut stones = Tombstones::new(100, 60);
        for n in 0..1000 {
            stones.add(serial(n), 0);
            assert!((n.saturating_sub(99)..=n).all(|n| stones.has(serial(n))), "{n}");
            assert!(stones.new.len() + stones.old.len() <= 200);
        }
        assert!(!stones.has(serial(0)));
    }

    #[test]
    fn one_that_is_still_needed_is_not_forgotten_by_time() {
        let mut stones = Tombstones::new(100, 60);
        stones.add(serial(1), 1000);
        stones.add(serial(2), 1061);
        assert!(stones.has(serial(1)));
        stones.add(serial(3), 1100);
        assert!(stones.has(serial(1)));
        stones.add(serial(4), 1122);
        assert!(!stones.has(serial(1)) && stones.has(serial(2)), "each stays for 60 s at least");
    }
}
