//! How many calls are in flight, of one client and of all.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::BeginError;

/// Calls in flight of all clients, and how many there may be.
#[derive(Debug)]
pub(super) struct Load {
    running: AtomicUsize,
    each: usize,
    all: usize,
}

impl Load {
    /// At most `each` of one client and `all` together.
    pub(super) fn new(each: usize, all: usize) -> Self {
        Self { running: AtomicUsize::new(0), each, all }
    }

    /// Takes a place for a client that has `own` already. It takes no more than it leaves to the others: so one client,
    /// or a few, cannot have all places, and whoever has none finds one as long as there is any.
    ///
    /// # Errors
    /// Where there is none for it.
    pub(super) fn take(&self, own: usize) -> Result<(), BeginError> {
        if own >= self.each {
            return Err(BeginError::TooMany);
        }
        let free = self.all.saturating_sub(self.running.fetch_add(1, Ordering::Relaxed));
        if free == 0 || own >= free {
            self.give();
            return Err(BeginError::Overloaded);
        }
        Ok(())
    }

    /// Gives a place back.
    pub(super) fn give(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_121_a_greedy_client_leaves_places_to_others() {
        let load = Load::new(64, 100);
        let mut greedy = [0; 3];
        for own in &mut greedy {
            while load.take(*own).is_ok() {
                *own += 1;
            }
        }
        assert_eq!(greedy, [50, 25, 13], "each takes half of what the ones before have left");
        let mut others = 0;
        while load.take(0).is_ok() {
            others += 1;
        }
        assert_eq!((greedy.iter().sum::<usize>() + others, load.take(0)), (100, Err(BeginError::Overloaded)));
        load.give();
        assert_eq!(load.take(0), Ok(()));
        assert_eq!(Load::new(2, 100).take(2), Err(BeginError::TooMany));
    }
}
