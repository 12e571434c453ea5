//! One stream of a session: who writes it, who reads it, and what is kept between the two.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::event_id::{self, StreamId};
use super::ring::{Budget, Ring, Taken};
use super::stay::micros;

/// Most messages kept of a call.
const CALL: usize = 4096;
/// Most messages kept of the session's own stream.
const OWN: usize = 256;
/// Most messages that wait for the session's own stream while there is none and has not been one for a while: many
/// clients never open it.
const UNATTENDED: usize = 8;
/// A call that is so many messages ahead of a reader that is there waits for it.
const AHEAD: u64 = 64;
/// Nor may it be more bytes ahead than this.
const AHEAD_BYTES: usize = super::ring::BYTES / 2;
/// How long a stream is kept for a reader that left it before the end.
pub(super) const KEPT: Duration = Duration::from_secs(5 * 60);
/// How long one is kept that was read to its end: the last bytes may have got lost on their way.
const KEPT_READ: Duration = Duration::from_secs(60);

/// What a stream has told lately and has yet to tell.
#[derive(Debug)]
pub(super) struct Spool {
    pub(super) stream: StreamId,
    /// The id of the request that it answers, raw.
    pub(super) request: Option<Bytes>,
    /// What the ids of its events end in.
    tail: Box<str>,
    origin: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    stage: Stage,
    /// Whether anybody may come back for it.
    kept: bool,
    /// Counts the readers; only the newest may read.
    reader: u64,
    attached: bool,
    /// The reader is there and has read nothing for so long that nobody waits for it.
    stalled: bool,
    /// When something last moved, in microseconds from the origin.
    moved: u64,
    /// When the last reader left.
    left: Option<u64>,
    wake_reader: Option<Waker>,
    wake_writer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// Nothing follows what is there; it may be that the last message is the answer.
    Ended {
        answered: bool,
    },
    /// What was there is lost, and the answer with it.
    Gone,
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// The next message.
    Message {
        /// Its number on the stream.
        number: u64,
        /// The message.
        message: Bytes,
        /// It is the answer, and nothing follows.
        last: bool,
    },
    /// So many messages are no longer there. What follows is.
    Lost(u64),
    /// The rest will never come.
    Gone,
}

/// Whether somebody may come back for what a stream told after some message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// There is more, or will be.
    More,
    /// That was all.
    Nothing,
    /// It is lost.
    Gone,
    /// There was no such message.
    Unknown,
}

impl Spool {
    pub(super) fn new(request: Option<&[u8]>, call: bool, origin: Instant, budget: Arc<Budget>) -> Self {
        let state = State {
            ring: Ring::new(budget),
            stage: Stage::Open,
            kept: true,
            reader: 0,
            attached: false,
            stalled: false,
            moved: micros(origin),
            left: None,
            wake_reader: None,
            wake_writer: None,
        };
        // A copy: the whole request must not stay in memory for its id. One that is too long for events is not needed.
        let request = request.filter(|id| id.len() <= event_id::REQUEST_MAX).map(Bytes::copy_from_slice);
        let tail = event_id::tail(request.as_deref());
        Self { stream: StreamId::new(call), request, tail, origin, state: Mutex::new(state) }
    }

    /// The id of the event with that message.
    pub(super) fn id(&self, number: u64, last: bool) -> String {
        if last { self.stream.end() } else { format!("{}-{number}{}", self.stream, self.tail) }
    }

    /// An id for an event without a message of ours, which marks where `reader` stands.
    pub(super) fn mark(&self, reader: u64) -> String {
        let read = self.state().ring.read();
        format!("{}-{read}.{reader}{}", self.stream, self.tail)
    }

    /// Puts a message out. `false` where something was lost for a reader, or this one since the stream is over.
    pub(super) fn push(&self, message: Bytes) -> bool {
        let mut state = self.state();
        let whole = state.push(message, self.stream.call, micros(self.origin));
        let waker = state.wake_reader.take();
        drop(state);
        wake(waker);
        whole
    }

    /// Ready once a writer need not wait for the reader.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let (messages, bytes) = state.ring.behind();
        if state.live() && (messages >= AHEAD || bytes >= AHEAD_BYTES) {
            state.wake_writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Nobody waits for the reader any more, until it reads.
    pub(super) fn stall(&self) {
        self.state().stalled = true;
    }

    /// Nothing follows but the answer, if there is one.
    pub(super) fn end(&self, answer: Option<Bytes>) {
        let mut state = self.state();
        let answered = answer.is_some_and(|answer| {
            state.push(answer, self.stream.call, micros(self.origin));
            true
        });
        if state.stage == Stage::Open {
            state.stage = Stage::Ended { answered };
        }
        state.moved = micros(self.origin);
        let waker = state.wake_reader.take();
        drop(state);
        wake(waker);
    }

    /// Whoever wrote it has ended without an answer.
    pub(super) fn give_up(&self) {
        let mut state = self.state();
        if state.stage == Stage::Open {
            state.stage = Stage::Gone;
        }
        let waker = state.wake_reader.take();
        drop(state);
        wake(waker);
    }

    /// Nobody comes back for it: what a reader that is there has not read is all that is needed.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.kept = false;
        state.settle(self.stream.call);
    }

    /// Another reader, in place of the one before; it goes on there, or after the message `after`.
    pub(super) fn attach(&self, after: Option<u64>) -> u64 {
        let mut state = self.state();
        state.reader += 1;
        (state.attached, state.stalled, state.moved) = (true, false, micros(self.origin));
        if let Some(after) = after {
            state.ring.go_to(after);
        }
        let reader = state.reader;
        let waker = state.wake_reader.take();
        drop(state);
        wake(waker); // the one before ends
        reader
    }

    pub(super) fn detach(&self, reader: u64) {
        let mut state = self.state();
        if state.reader != reader {
            return;
        }
        let now = micros(self.origin);
        (state.attached, state.moved, state.left, state.wake_reader) = (false, now, Some(now), None);
        state.settle(self.stream.call);
        let waker = state.wake_writer.take();
        drop(state);
        wake(waker);
    }

    /// The next for `reader`; `None` at the end, or where another has taken its place.
    pub(super) fn poll_take(&self, reader: u64, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        let mut state = self.state();
        if state.reader != reader {
            return Poll::Ready(None);
        }
        let told = match state.ring.take() {
            Some(Taken::Lost(lost)) if state.stage != Stage::Gone => Told::Lost(lost),
            Some(Taken::Message(number, message)) => {
                let last = state.stage == Stage::Ended { answered: true } && number == state.ring.last();
                Told::Message { number, message, last }
            }
            Some(Taken::Lost(_)) | None => match state.stage {
                Stage::Open => {
                    state.wake_reader = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Stage::Ended { .. } => return Poll::Ready(None),
                Stage::Gone => Told::Gone,
            },
        };
        state.moved = micros(self.origin);
        state.stalled = false;
        if !state.kept {
            state.ring.drop_read();
        }
        let waker = state.wake_writer.take();
        drop(state);
        wake(waker);
        Poll::Ready(Some(told))
    }

    /// What follows the message `number`.
    pub(super) fn rest(&self, number: u64) -> Rest {
        let state = self.state();
        match state.stage {
            Stage::Gone => Rest::Gone,
            _ if number > state.ring.last() => Rest::Unknown,
            Stage::Ended { .. } if number == state.ring.last() => Rest::Nothing,
            Stage::Ended { .. } | Stage::Open => Rest::More,
        }
    }

    pub(super) fn attached(&self) -> bool {
        self.state().attached
    }

    /// Whether its call has ended and nobody reads it.
    pub(super) fn idle(&self) -> bool {
        let state = self.state();
        !state.attached && state.stage != Stage::Open
    }

    /// Lets go of what nobody is likely to come back for; whether that is all of a call's stream.
    pub(super) fn tidy(&self) -> bool {
        let since = |then| Duration::from_micros(micros(self.origin).saturating_sub(then));
        let mut state = self.state();
        let still = since(state.moved);
        if still >= KEPT {
            state.ring.drop_read();
        }
        state.left = state.left.filter(|left| since(*left) < KEPT);
        state.settle(self.stream.call);
        state.ring.shrink();
        let over = !state.attached && state.stage != Stage::Open;
        let kept = if state.ring.behind().0 == 0 { KEPT_READ } else { KEPT };
        self.stream.call && over && still >= kept
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl State {
    /// Whether somebody reads, and not too slowly.
    fn live(&self) -> bool {
        self.attached && !self.stalled
    }

    fn push(&mut self, message: Bytes, call: bool, now: u64) -> bool {
        if self.stage != Stage::Open || !(self.kept || self.attached) {
            return false;
        }
        self.ring.push(message);
        self.moved = now;
        self.settle(call)
    }

    /// Keeps within the bounds. `false` where something was lost for a reader.
    fn settle(&mut self, call: bool) -> bool {
        let most = match (call, self.attached || self.left.is_some()) {
            (true, _) => CALL,
            (false, true) => OWN,
            (false, false) => UNATTENDED,
        };
        // A call waits for a reader that is there, so nothing unread has to go.
        let mut whole = self.ring.trim(most, call && self.live());
        if !self.kept || self.ring.exceeds_budget() {
            self.ring.drop_read();
            let unread = self.ring.behind().0 > 0;
            if unread && !self.live() {
                self.ring.clear();
                whole = false;
                if call {
                    self.stage = Stage::Gone;
                }
            }
        }
        whole
    }
}
