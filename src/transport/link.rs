//! One live connection to a server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::http::{Exchange, Http, Stream};
use super::stdio::{Call, Stdio, Unbound};
use super::{Counts, Failure};
use crate::wire::Message;

/// One live connection to a server. Callers share it in an `Arc`; dropping it ends a child and its group at once.
#[derive(Debug)]
pub struct Link(Way);

#[derive(Debug)]
enum Way {
    Http(Arc<Http>),
    Stdio(Stdio),
}

impl Link {
    pub(super) fn http(http: Http) -> Self {
        Self(Way::Http(Arc::new(http)))
    }

    pub(super) fn stdio(stdio: Stdio) -> Self {
        Self(Way::Stdio(stdio))
    }

    /// Sends a request whose id, and progress token if it has one, is `id`: unique among the calls in flight on this
    /// link. Over HTTP nothing happens until the reply is polled; to a child it is queued for writing when this
    /// returns, after waiting for room.
    pub async fn request(&self, id: u64, text: Bytes) -> Result<Reply, Failure> {
        Ok(Reply(match &self.0 {
            Way::Http(http) => Answers::Http(http.request(id, text)?),
            Way::Stdio(stdio) => Answers::Stdio(stdio.request(id, text).await?),
        }))
    }

    /// Sends a notification, or a response of ours.
    pub async fn send(&self, text: Bytes) -> Result<(), Failure> {
        match &self.0 {
            Way::Http(http) => http.send(text).await,
            Way::Stdio(stdio) => stdio.send(text).await,
        }
    }

    /// Tells the link which revision `initialize` agreed on: named in a header from 2025-06-18 on. A session id counts
    /// only before this.
    pub fn agree(&self, revision: &str) {
        match &self.0 {
            Way::Http(http) => http.agree(revision),
            Way::Stdio(_) => {}
        }
    }

    /// Whether the server gave us a session.
    pub fn has_session(&self) -> bool {
        match &self.0 {
            Way::Http(http) => http.has_session(),
            Way::Stdio(_) => false,
        }
    }

    /// Says that the child has started well, so the next may be started.
    pub fn settled(&self) {
        match &self.0 {
            Way::Http(_) => {}
            Way::Stdio(stdio) => stdio.settled(),
        }
    }

    /// The messages that belong to no call. [`Failure::Unsupported`] where the server offers no such stream, or a
    /// child's are read by somebody already.
    pub async fn listen(&self) -> Result<Inbound, Failure> {
        Ok(Inbound(match &self.0 {
            Way::Http(http) => Unasked::Http(Box::new(Stream::open(http).await?)),
            Way::Stdio(stdio) => Unasked::Stdio(stdio.listen()?),
        }))
    }

    /// What was dropped so far.
    pub fn counts(&self) -> Counts {
        match &self.0 {
            Way::Http(http) => http.tally.counts(),
            Way::Stdio(stdio) => stdio.tally().counts(),
        }
    }

    /// Ends it: the session is deleted (two seconds at most), or the child's group is stopped and reaped (some five at
    /// most). Calls in flight get [`Failure::Cut`]. May be called again, and waits then as well.
    pub async fn close(&self) {
        match &self.0 {
            Way::Http(http) => http.close().await,
            Way::Stdio(stdio) => stdio.close().await,
        }
    }
}

/// The messages of one call. Dropping it abandons the call: an HTTP response is read no further.
#[derive(Debug)]
pub struct Reply(Answers);

#[derive(Debug)]
enum Answers {
    Http(Exchange),
    Stdio(Call),
}

impl Reply {
    /// The next message: asides first, the answer (a result or an error) last. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        match &mut self.0 {
            Answers::Http(exchange) => exchange.next().await,
            Answers::Stdio(call) => call.next().await,
        }
    }
}

/// The messages of a link that belong to no call.
#[derive(Debug)]
pub struct Inbound(Unasked);

#[derive(Debug)]
enum Unasked {
    Http(Box<Stream>),
    Stdio(Unbound),
}

impl Inbound {
    /// The next message; an error means that the stream or the child ended, and why. Cancel-safe. What a child sends
    /// while nobody reads is kept up to 256 messages, the newest ones.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        match &mut self.0 {
            Unasked::Http(stream) => stream.next().await,
            Unasked::Stdio(unbound) => unbound.next().await,
        }
    }

    /// How long the server wants us to wait before we listen again, where it said so.
    pub fn retry(&self) -> Option<Duration> {
        match &self.0 {
            Unasked::Http(stream) => stream.retry(),
            Unasked::Stdio(_) => None,
        }
    }
}
