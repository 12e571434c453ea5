//! The two ends of a stream.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::Session;
use super::spool::{Spool, Told};

/// How long a call waits for a reader that is there and reads nothing. Then it goes on without it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The writing end of a call's stream. Dropped without an end, the stream has none, and who follows it is told so.
#[derive(Debug)]
pub struct Feed {
    spool: Arc<Spool>,
}

impl Feed {
    pub(super) fn new(spool: Arc<Spool>) -> Self {
        Self { spool }
    }

    /// Puts a message out at once.
    pub fn add(&self, message: Bytes) {
        // What is lost the reader is told.
        self.spool.push(message);
    }

    /// Puts a message out, once a reader that is there is not too far behind.
    pub async fn push(&self, message: Bytes) {
        let room = std::future::poll_fn(|cx| self.spool.poll_room(cx));
        if timeout(PATIENCE, room).await.is_err() {
            self.spool.stall();
        }
        self.add(message);
    }

    /// Puts the answer out, if there is one; nothing follows.
    pub fn end(self, answer: Option<Bytes>) {
        self.spool.end(answer);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.spool.give_up();
    }
}

/// The reading end of a stream: a client's connection. There is one at a time, the newest. Dropped, the client is away,
/// and what comes is kept for it.
#[derive(Debug)]
pub struct Follower {
    session: Arc<Session>,
    spool: Arc<Spool>,
    reader: u64,
    gone: bool,
}

impl Follower {
    pub(super) fn new(session: Arc<Session>, spool: Arc<Spool>, after: Option<u64>) -> Self {
        let reader = spool.attach(after);
        Self { session, spool, reader, gone: false }
    }

    /// The next of the stream; `None` at its end, or where another reader has taken this one's place.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        if self.gone {
            return Poll::Ready(None);
        }
        let told = self.spool.poll_take(self.reader, cx);
        self.gone = matches!(told, Poll::Ready(Some(Told::Gone)));
        told
    }

    /// As [`poll_next`](Self::poll_next). May be dropped while it waits without losing anything.
    pub async fn next(&mut self) -> Option<Told> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The id of the event with message `number`, the stream's `last` or not: unique in the session.
    pub fn id(&self, number: u64, last: bool) -> String {
        self.spool.id(number, last)
    }

    /// An id for an event of the reader's own: resumed from there, the stream goes on where this reader stands now.
    pub fn mark(&self) -> String {
        self.spool.mark(self.reader)
    }

    /// The id of an event after which there is nothing.
    pub fn end_id(&self) -> String {
        self.spool.id(0, true)
    }

    /// The id of the request that the stream answers, raw, if it is one.
    pub fn request(&self) -> Option<&Bytes> {
        self.spool.request.as_ref()
    }

    /// Whether it is the session's own stream, not a call's.
    pub fn is_own(&self) -> bool {
        !self.spool.stream.call
    }

    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.spool.detach(self.reader);
        self.session.touch();
    }
}
