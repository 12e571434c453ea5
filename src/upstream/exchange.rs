//! One request and what comes back.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio_util::sync::DropGuard;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::ask::is_suspicious;
use super::behalf::Linked;
use super::breaker::Pass;
use super::flights::{Inbox, Seat};
use super::gate::Turn;
use super::state::{Ready, is_held_against};
use crate::mcp::{Letter, Revision, method};
use crate::session::Session;
use crate::transport::{Failure, Reply};
use crate::wire::{Kind, Message, notification};

/// Writes a request in the words of the revision that its link speaks, under the id that it gets there.
pub type Write<'w> = &'w (dyn Fn(Revision, u64) -> Letter + Sync);

/// One request in flight. Holds its link open.
#[derive(Debug)]
pub struct Exchange {
    reply: Reply,
    flight: InFlight,
    /// Its answer makes it doubtful that the server is still the one that was greeted.
    doubtful: bool,
    /// How it ended, while there is still something that came before.
    end: Option<Result<Message, Failure>>,
    /// Ends a link that is there for this request only.
    _lease: Option<DropGuard>,
}

/// What stands in the link's table; gone from it when dropped.
#[derive(Debug)]
struct InFlight {
    id: u64,
    ready: Arc<Ready>,
    seat: Seat,
    inbox: Arc<Inbox>,
    /// What it was let in with, until it is known what became of it.
    pass: Option<Pass>,
    /// It has a place among the calls that the server gets at a time.
    counts: bool,
    _counted: TaskTrackerToken,
}

impl Exchange {
    pub(super) async fn open(
        Linked { ready, lease }: Linked,
        session: &Arc<Session>,
        write: Write<'_>,
        turn: Turn<'_>,
        again: bool,
    ) -> Result<Self, (Arc<Ready>, Failure)> {
        let id = ready.id();
        let (seat, inbox) = ready.flights.enter(id, session);
        let (pass, counts) = (Some(turn.keep()), true);
        let mut flight = InFlight { id, seat, inbox, pass, counts, _counted: ready.calls.token(), ready };
        match flight.ready.link.request(id, write(flight.ready.hello.revision, id)).await {
            Ok(reply) => {
                let reply = if again { reply.repeatable() } else { reply };
                Ok(Self { reply, flight, doubtful: false, end: None, _lease: lease })
            }
            Err(failure) => {
                flight.met(&failure);
                Err((flight.ready.clone(), failure))
            }
        }
    }

    /// The next message: what comes before the answer, then the answer. Cancel-safe.
    ///
    /// Before the answer come all notifications and requests of this call, and those that came outside of any call and
    /// must be this one's. Among them is `notifications/cancelled` for a request that the server made, perhaps in another
    /// call.
    ///
    /// # Errors
    /// Where no answer will come.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        if self.end.is_none() {
            let Self { reply, flight, doubtful, .. } = self;
            let mut next = pin!(reply.next());
            let said = poll_fn(|cx| match flight.inbox.poll(cx) {
                Poll::Ready(message) => Poll::Ready(Ok(message)),
                Poll::Pending => next.as_mut().poll(cx),
            });
            match said.await {
                Ok(aside) if matches!(aside.kind(), Kind::Request | Kind::Notification) => return Ok(aside),
                end => {
                    match &end {
                        Ok(answer) if answer.is_open() => {} // it may break off yet
                        Ok(_) => flight.answered(),
                        Err(failure) => flight.met(failure),
                    }
                    let ready = &flight.ready;
                    if end.as_ref().is_ok_and(|answer| is_suspicious(ready.hello.revision, answer)) {
                        *doubtful = true;
                        ready.suspected.notify_one();
                    }
                    self.end = Some(end);
                }
            }
        }
        // What came before the end may have come in since the inbox was looked at.
        let over = || Err(Failure::Cut("it has answered already".into()));
        self.flight.inbox.pop().map_or_else(|| self.end.take().unwrap_or_else(over), Ok)
    }

    /// More of the answer that came [open](Message::is_open) last; `None` at its end. Cancel-safe. Where the
    /// [next](Self::next) message is read in place of this, that is the whole answer.
    ///
    /// # Errors
    /// Where the rest will not come.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = self.reply.piece().await;
        match &piece {
            Ok(Some(_)) => {}
            Ok(None) => self.flight.answered(),
            Err(failure) => self.flight.met(failure),
        }
        piece
    }

    /// The revision that is spoken with the server.
    pub fn revision(&self) -> Revision {
        self.flight.ready.hello.revision
    }

    /// Whether it takes one of the places that the server has for calls at a time: not while its client is asked.
    pub fn count(&mut self, counts: bool) {
        let flight = &mut self.flight;
        if std::mem::replace(&mut flight.counts, counts) == counts {
            return;
        }
        if counts {
            flight.ready.gate.go_on();
        } else {
            flight.ready.gate.leave();
        }
    }

    /// It got no answer in the time it had.
    pub(super) fn timed_out(&mut self) {
        // Another caller's values may lead to another tenant, or to another process.
        let theirs = self.flight.ready.filled;
        if let Some(pass) = self.flight.pass.take_if(|_| !theirs) {
            self.flight.ready.gate.breaker.failed(pass, "did not answer in time");
        }
    }

    /// Its id, and the token of its progress.
    pub fn id(&self) -> u64 {
        self.flight.id
    }

    /// Answers a request that the server makes in the middle of it.
    pub async fn refuse(&self, request: &Message) {
        self.flight.ready.refuse(request).await;
    }

    /// Tells the server that what it asks in the middle of it cannot be read.
    pub async fn rebuke(&self, odd: &Message) {
        self.flight.ready.rebuke(odd).await;
    }

    /// Sends the server `text`, the answer to a request of its own, on the link where that came.
    pub async fn respond(&self, text: Bytes) {
        self.flight.ready.say(text).await;
    }

    /// Tells this link from all others of its upstream; younger links have larger numbers.
    pub fn generation(&self) -> u64 {
        self.flight.ready.generation
    }

    /// Whether its answer makes it doubtful that the server is still the one that was greeted.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Whether the link is another one than that which is kept for all.
    pub fn is_own_link(&self) -> bool {
        !self.flight.ready.kept
    }

    /// Tells the server that nobody waits for the answer any more: over HTTP a modern one by reading no further.
    pub(super) async fn cancel(self, reason: &'static str) {
        if self.flight.ready.is_modern() && !self.flight.ready.link.has_one_stream() {
            return;
        }
        let id = self.flight.id;
        let text = notification(method::CANCELLED, &format!(r#"{{"requestId":{id},"reason":"{reason}"}}"#));
        drop(self.reply); // nothing more is read from here on
        if let Err(failure) = self.flight.ready.link.send(text).await {
            tracing::debug!(%failure, "a cancellation did not arrive");
        }
    }
}

impl InFlight {
    /// The server has answered.
    fn answered(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.ready.gate.breaker.succeeded(pass);
        }
    }

    /// There will be no answer.
    fn met(&mut self, failure: &Failure) {
        if let Some(time) = failure.retry_after() {
            self.ready.leave_alone(time);
        }
        // What its caller brought may be what is wrong.
        let theirs = self.ready.filled;
        let held_against = self.pass.take_if(|_| !theirs && is_held_against(failure));
        if let Some(pass) = held_against {
            self.ready.gate.breaker.failed(pass, &failure.to_string());
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.counts {
            self.ready.gate.leave();
        }
        if let Some(pass) = self.pass {
            self.ready.gate.breaker.abandoned(pass);
        }
        let unread = self.ready.flights.leave(self.seat, !self.ready.kept);
        if unread.iter().all(|message| message.kind() != Kind::Request) {
            return;
        }
        // The server waits for answers to those that nobody will bring to the client any more.
        if Handle::try_current().is_ok() {
            let ready = self.ready.clone();
            self.ready.calls.spawn(async move {
                for request in unread.iter().filter(|message| message.kind() == Kind::Request) {
                    ready.refuse_leg(request).await;
                }
            });
        }
    }
}
