//! The calls in flight on one link: where what a server says outside of any call may still belong.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use crate::session::Session;
use crate::wire::Message;

/// Messages from outside that one call keeps until they are read.
const ROOM: usize = 64;

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
    reader: Option<Waker>,
    closed: bool,
}

impl Inbox {
    /// Puts `message` in. Gives it back where the call is over or does not read.
    pub(super) fn push(&self, message: Message) -> Option<Message> {
        let mut waiting = self.waiting();
        if waiting.closed || waiting.messages.len() >= ROOM {
            return Some(message);
        }
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
        if let Some(message) = waiting.messages.pop_front() {
            return Poll::Ready(message);
        }
        match &mut waiting.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
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
