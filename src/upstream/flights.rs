//! The calls in flight on one link: where what a server says outside of any call may still belong.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use crate::session::Session;
use crate::wire::Message;

/// Messages from outside that one call keeps until they are read: a child that logs a lot in a burst is faster than the
/// way to a client.
const ROOM: usize = 4096;
/// Most bytes of them, beside the newest.
const BYTES: usize = 4 << 20;

/// The calls in flight on one link. One short lock when a call begins and one when it ends.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<Seats>);

#[derive(Debug, Default)]
struct Seats {
    taken: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// When one last ended, where somebody wants to know.
    ended: Option<Instant>,
}

#[derive(Debug)]
struct Flight {
    id: u64,
    session: Arc<Session>,
    inbox: Arc<Inbox>,
}

/// A call's place among those in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat(usize);

impl Flights {
    /// The call `id` of `session` begins.
    pub(super) fn enter(&self, id: u64, session: &Arc<Session>) -> (Seat, Arc<Inbox>) {
        let inbox = Arc::new(Inbox::default());
        let flight = Flight { id, session: Arc::clone(session), inbox: Arc::clone(&inbox) };
        let mut all = self.seats();
        let place = all.free.pop().unwrap_or(all.taken.len());
        match all.taken.get_mut(place) {
            Some(seat) => *seat = Some(flight),
            None => all.taken.push(Some(flight)),
        }
        (Seat(place), inbox)
    }

    /// The call is over; what came for it and was not read. `note` keeps when that was.
    pub(super) fn leave(&self, seat: Seat, note: bool) -> VecDeque<Message> {
        let mut all = self.seats();
        let flight = all.taken.get_mut(seat.0).and_then(Option::take);
        all.free.push(seat.0);
        if note {
            all.ended = Some(Instant::now());
        }
        drop(all);
        flight.map(|flight| flight.inbox.close()).unwrap_or_default()
    }

    /// Where something goes that `owner` alone can have caused, or, without one, whoever is the only one with calls in
    /// flight: to the newest call.
    pub(super) fn newest(&self, owner: Option<u128>) -> Option<Arc<Inbox>> {
        let all = self.seats();
        let mut found: Option<&Flight> = None;
        for flight in all.taken.iter().flatten() {
            if owner.is_some_and(|serial| flight.session.serial() != serial) {
                continue;
            }
            match found {
                Some(other) if other.session.serial() != flight.session.serial() => return None,
                Some(other) if other.id > flight.id => {}
                Some(_) | None => found = Some(flight),
            }
        }
        found.map(|flight| Arc::clone(&flight.inbox))
    }

    /// The call `id`.
    pub(super) fn of(&self, id: u64) -> Option<Arc<Inbox>> {
        let all = self.seats();
        all.taken.iter().flatten().find(|flight| flight.id == id).map(|flight| Arc::clone(&flight.inbox))
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Inbox>> {
        self.seats().taken.iter().flatten().map(|flight| Arc::clone(&flight.inbox)).collect()
    }

    /// When a call last ended, if that was noted.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.seats().ended
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came for a call from outside of its reply.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    bytes: usize,
    reader: Option<Waker>,
    closed: bool,
}

impl Inbox {
    /// Puts `message` in. Gives it back where the call is over or does not read.
    pub(super) fn push(&self, message: Message) -> Option<Message> {
        let mut waiting = self.waiting();
        if waiting.closed || waiting.messages.len() >= ROOM || waiting.bytes > BYTES {
            return Some(message);
        }
        waiting.bytes += message.text().len();
        waiting.messages.push_back(message);
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
        None
    }

    /// The next message.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Message> {
        let mut waiting = self.waiting();
        if let Some(message) = waiting.take() {
            return Poll::Ready(message);
        }
        match &mut waiting.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The next message, if it is there.
    pub(super) fn pop(&self) -> Option<Message> {
        self.waiting().take()
    }

    fn close(&self) -> VecDeque<Message> {
        let mut waiting = self.waiting();
        waiting.closed = true;
        std::mem::take(&mut waiting.messages)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.text().len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::config::Limits;
    use crate::metrics::Metrics;
    use crate::session::{Agreed, Keyring, Sessions};

    fn message(n: usize) -> Message {
        Message::parse(format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"ping"}}"#).into(), 9).unwrap()
    }

    fn two_sessions() -> [Arc<Session>; 2] {
        let sessions = Sessions::new(&Limits::default(), Arc::new(Keyring::random()), Metrics::new("test"));
        [(), ()].map(|()| {
            let revision = "2025-11-25".into();
            sessions
                .open("/mcp", Agreed { revision, capabilities: "{}".into(), client: String::new() })
                .unwrap()
        })
    }

    #[test]
    fn the_newest_call_of_whom_alone_it_can_be() {
        let (flights, [one, two]) = (Flights::default(), two_sessions());
        let is = |found: Option<Arc<Inbox>>, inbox: &Arc<Inbox>| {
            found.is_some_and(|found| Arc::ptr_eq(&found, inbox))
        };
        assert!(flights.newest(None).is_none());
        let (first, _) = flights.enter(1, &one);
        let (second, newer) = flights.enter(2, &one);
        assert!(is(flights.newest(None), &newer) && is(flights.of(2), &newer));
        flights.leave(first, false);
        // Takes the free place, and is the newest all the same.
        let (_, newest) = flights.enter(3, &one);
        assert!(is(flights.newest(None), &newest));
        let (third, other) = flights.enter(4, &two);
        assert!(flights.newest(None).is_none(), "whose?");
        assert!(
            is(flights.newest(Some(one.serial())), &newest) && is(flights.newest(Some(two.serial())), &other)
        );
        flights.leave(third, true);
        assert!(is(flights.newest(None), &newest) && flights.newest(Some(two.serial())).is_none());
        assert!(flights.ended().is_some() && flights.of(4).is_none());
        flights.leave(second, false);
        assert_eq!(flights.all().len(), 1);
    }

    #[tokio::test]
    async fn what_nobody_has_read_comes_back() {
        let (flights, [one, _]) = (Flights::default(), two_sessions());
        let (seat, inbox) = flights.enter(1, &one);
        let reading = async {
            let mut read = Vec::new();
            for _ in 0..3 {
                read.push(poll_fn(|cx| inbox.poll(cx)).await.number());
            }
            read
        };
        let writing = async {
            for n in 0..3 {
                tokio::task::yield_now().await; // each wakes the reader
                assert!(inbox.push(message(n)).is_none());
            }
        };
        let (read, ()) = tokio::join!(reading, writing);
        assert_eq!(read, [Some(0), Some(1), Some(2)]);
        assert!((0..ROOM).all(|n| inbox.push(message(n)).is_none()) && inbox.push(message(99)).is_some());
        assert_eq!(flights.leave(seat, false).len(), ROOM);
        assert!(inbox.push(message(1)).is_some(), "too late");
    }
}
