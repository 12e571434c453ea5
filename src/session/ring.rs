//! The newest messages of one stream, numbered, read and unread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Most bytes that a stream keeps beside its newest message: a client that is away, or reads nothing, must not make us
/// keep screenshots.
pub(super) const BYTES: usize = 1 << 20;
/// What a message costs beside its text, about.
const COST: usize = 64;

/// What all streams together may keep.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicUsize);

/// Most bytes that all streams keep. Beyond it each keeps only what a client that is there has yet to read.
const ALL: usize = 64 << 20;

impl Budget {
    pub(super) fn exceeded(&self) -> bool {
        self.used() > ALL
    }

    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The messages, from `first` on.
#[derive(Debug)]
pub(super) struct Ring {
    messages: VecDeque<Bytes>,
    /// The number of the oldest message; the first of all has number 1.
    first: u64,
    /// The number of the next to be read.
    next: u64,
    bytes: usize,
    /// How many of `bytes` are unread.
    unread: usize,
    budget: Arc<Budget>,
}

/// What is next for the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A message and its number.
    Message(u64, Bytes),
    /// So many messages are no longer there.
    Lost(u64),
}

impl Ring {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        budget.take(COST);
        Self { messages: VecDeque::new(), first: 1, next: 1, bytes: 0, unread: 0, budget }
    }

    /// The number of the newest message, 0 before the first.
    pub(super) fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }

    /// The number of the message that was read last.
    pub(super) fn read(&self) -> u64 {
        self.next - 1
    }

    /// How many messages are unread, and their bytes.
    pub(super) fn behind(&self) -> (u64, usize) {
        (self.last() + 1 - self.next.max(self.first), self.unread)
    }

    pub(super) fn push(&mut self, message: Bytes) {
        let cost = message.len() + COST;
        self.budget.take(cost);
        self.bytes += cost;
        self.unread += cost;
        self.messages.push_back(message);
    }

    pub(super) fn take(&mut self) -> Option<Taken> {
        if let Some(lost @ 1..) = self.first.checked_sub(self.next) {
            self.next = self.first;
            return Some(Taken::Lost(lost));
        }
        let message = self.messages.get(usize::try_from(self.next - self.first).ok()?)?;
        self.unread -= message.len() + COST;
        self.next += 1;
        Some(Taken::Message(self.next - 1, message.clone()))
    }

    /// Goes back, or forward, to what came after `number`, which was told once.
    pub(super) fn go_to(&mut self, number: u64) {
        self.next = number.min(self.last()) + 1;
        let read = self.next.saturating_sub(self.first);
        let unread = self.messages.iter().skip(usize::try_from(read).unwrap_or(usize::MAX));
        self.unread = unread.map(|message| message.len() + COST).sum();
    }

    /// Drops the oldest until there are no more than `most`, nor more than [`BYTES`] beside the newest; only read ones
    /// where unread ones are to be spared. `false` where unread ones went.
    pub(super) fn trim(&mut self, most: usize, spare_unread: bool) -> bool {
        let mut whole = true;
        while let Some(newest) = self.messages.back()
            && (self.messages.len() > most || self.bytes > BYTES + newest.len() + COST)
        {
            let unread = self.first >= self.next;
            if unread && spare_unread {
                break;
            }
            whole &= !unread;
            self.pop();
        }
        whole
    }

    /// Drops what has been read.
    pub(super) fn drop_read(&mut self) {
        while self.first < self.next && self.pop() {}
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        while self.pop() {}
    }

    /// Gives back the room that a burst took.
    pub(super) fn shrink(&mut self) {
        if self.messages.capacity() > 2 * self.messages.len() + 8 {
            self.messages.shrink_to_fit();
        }
    }

    fn pop(&mut self) -> bool {
        let Some(message) = self.messages.pop_front() else { return false };
        let cost = message.len() + COST;
        self.bytes -= cost;
        self.budget.give_back(cost);
        if self.first >= self.next {
            self.unread -= cost;
        }
        self.first += 1;
        true
    }

    pub(super) fn exceeds_budget(&self) -> bool {
        self.budget.exceeded()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes + COST);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        Push(usize),
        Take,
        GoTo(u64),
        Trim(usize, bool),
        DropRead,
        Clear,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => prop_oneof![0..2000_usize, Just(BYTES / 3)].prop_map(Act::Push),
            4 => Just(Act::Take),
            1 => (0..40_u64).prop_map(Act::GoTo),
            1 => (0..20_usize, any::<bool>()).prop_map(|(most, spare)| Act::Trim(most, spare)),
            1 => Just(Act::DropRead),
            1 => Just(Act::Clear),
        ]
    }

    proptest! {
        #[test]
        fn a_reader_gets_every_number_in_order_or_is_told(acts in prop::collection::vec(act(), 0..200)) {
            let budget = Arc::new(Budget::default());
            let mut ring = Ring::new(budget.clone());
            let (mut pushed, mut read) = (0, 0);
            for act in acts {
                match act {
                    Act::Push(length) => {
                        pushed += 1;
                        ring.push(vec![b'x'; length].into());
                    }
                    Act::Take => match ring.take() {
                        Some(Taken::Message(number, _)) => {
                            prop_assert_eq!(number, read + 1);
                            read = number;
                        }
                        Some(Taken::Lost(lost)) => read += lost,
                        None => prop_assert_eq!(read, pushed),
                    },
                    Act::GoTo(number) => {
                        ring.go_to(number);
                        read = number.min(pushed);
                    }
                    Act::Trim(most, spare) => {
                        let (unread, _) = ring.behind();
                        let whole = ring.trim(most, spare);
                        prop_assert_eq!(whole, ring.behind().0 == unread);
                        prop_assert!(whole || !spare);
                        prop_assert!(spare || ring.messages.len() <= most.max(1));
                    }
                    Act::DropRead => ring.drop_read(),
                    Act::Clear => ring.clear(),
                }
                prop_assert_eq!((ring.last(), ring.read()), (pushed, read));
                let costs = |skip: usize| -> usize { ring.messages.iter().skip(skip).map(|m| m.len() + COST).sum() };
                let skip = usize::try_from(ring.next.saturating_sub(ring.first)).unwrap();
                prop_assert_eq!((ring.bytes, ring.unread), (costs(0), costs(skip)));
                prop_assert_eq!(budget.used(), ring.bytes + COST);
            }
            drop(ring);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
