//! What waits for a client's open stream.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::Session;

/// Most messages that wait for a slow stream.
const MESSAGES: usize = 256;
/// Most bytes of them: a client that reads nothing must not make us keep screenshots.
const BYTES: usize = 1 << 20;
/// Most messages that wait while no stream is open. A few bridge a reconnect; many clients never open one.
const UNATTENDED: usize = 8;

/// The messages, and which stream they go to.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// Counts the streams; only the newest may read.
    stream: u64,
    attached: bool,
    closed: bool,
}

/// What a stream finds when it looks for a message.
pub(super) enum Found {
    Message(Bytes),
    Nothing,
    End,
}

impl Outbox {
    /// `false` where something was lost: the oldest, or this one since the session is over.
    pub(super) fn push(&mut self, message: Bytes) -> bool {
        if self.closed {
            return false;
        }
        self.bytes += message.len();
        self.queue.push_back(message);
        self.trim()
    }

    fn trim(&mut self) -> bool {
        let most = if self.attached { MESSAGES } else { UNATTENDED };
        let mut whole = true;
        while self.queue.len() > most || (self.bytes > BYTES && self.queue.len() > 1) {
            self.pop();
            whole = false;
        }
        whole
    }

    fn pop(&mut self) -> Option<Bytes> {
        let message = self.queue.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }

    fn take(&mut self, stream: u64) -> Found {
        if self.closed || self.stream != stream {
            return Found::End;
        }
        self.pop().map_or(Found::Nothing, Found::Message)
    }

    pub(super) fn attach(&mut self) -> u64 {
        self.stream += 1;
        self.attached = true;
        self.stream
    }

    fn detach(&mut self, stream: u64) {
        if self.stream == stream {
            self.attached = false;
            self.trim();
            self.queue.shrink_to(UNATTENDED);
        }
    }

    pub(super) fn close(&mut self) {
        *self = Self { stream: self.stream, closed: true, ..Self::default() };
    }

    pub(super) fn attached(&self) -> bool {
        self.attached
    }
}

/// The reading end: one open stream of a session. Dropped, the session has none.
#[derive(Debug)]
pub struct Outgoing {
    session: Arc<Session>,
    stream: u64,
}

impl Outgoing {
    pub(super) fn new(session: Arc<Session>, stream: u64) -> Self {
        Self { session, stream }
    }

    /// The next message; `None` when the session is over or another stream took this one's place. May be dropped while
    /// it waits without losing anything.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Made before the look, so that no wake-up falls between the look and the wait.
            let woken = self.session.woken();
            match self.session.with_outbox(|outbox| outbox.take(self.stream)) {
                Found::Message(message) => return Some(message),
                Found::End => return None,
                Found::Nothing => woken.await,
            }
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.session.with_outbox(|outbox| outbox.detach(self.stream));
        self.session.touch();
    }
}
