//! One live connection to a server.

use bytes::Bytes;

use super::Failure;
use crate::wire::Message;

/// One live connection to a server. Callers share it in an `Arc`; dropping it ends it at once.
#[derive(Debug)]
pub struct Link {}

/// What a link dropped so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers and progress that no call waits for.
    pub stray: u64,
    /// Lines and events that are no message.
    pub skipped: u64,
    /// Messages that nobody read in time.
    pub overflowed: u64,
    /// Bytes of standard error that were not logged.
    pub hushed: u64,
}

/// The messages of one call. Dropping it abandons the call.
#[derive(Debug)]
pub struct Reply {}

/// The messages of a link that belong to no call.
#[derive(Debug)]
pub struct Inbound {}

#[allow(clippy::unused_async, clippy::unused_self, reason = "skeleton")]
impl Link {
    /// Sends a request whose id, and progress token if it has one, is `id`: unique among the calls in flight on this
    /// link. Over HTTP nothing happens until the reply is polled; a child's is queued for writing when this returns.
    pub async fn request(&self, _id: u64, _text: Bytes) -> Result<Reply, Failure> {
        Err(Failure::Unsupported("not there yet".into()))
    }

    /// Sends a notification, or a response of ours.
    pub async fn send(&self, _text: Bytes) -> Result<(), Failure> {
        Err(Failure::Unsupported("not there yet".into()))
    }

    /// Tells the link which revision `initialize` agreed on.
    pub fn agree(&self, _revision: &str) {}

    /// Whether the server gave us a session.
    pub fn has_session(&self) -> bool {
        false
    }

    /// The server has started well: the next child may be.
    pub fn settled(&self) {}

    /// The messages that belong to no call; [`Failure::Unsupported`] where the server offers no such stream, or somebody
    /// has it already.
    pub async fn listen(&self) -> Result<Inbound, Failure> {
        Err(Failure::Unsupported("not there yet".into()))
    }

    /// What was dropped so far.
    pub fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Ends it: the session is deleted, or the child's group stopped and reaped, within a few seconds. Calls in flight
    /// get [`Failure::Cut`]. May be called again.
    pub async fn close(&self) {}
}

#[allow(clippy::unused_async, clippy::unused_self, reason = "skeleton")]
impl Reply {
    /// The next message: asides first, the answer (a result or an error) last. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        Err(Failure::Unsupported("not there yet".into()))
    }
}

#[allow(clippy::unused_async, clippy::unused_self, reason = "skeleton")]
impl Inbound {
    /// The next message; an error means that the stream or the child ended, and why. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        Err(Failure::Unsupported("not there yet".into()))
    }
}
