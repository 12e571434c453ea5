//! One live connection to a server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::http::{Exchange, Posted, Stream};
use super::stdio::Stdio;
use super::table::{Call, Unbound, gone};
use super::web::{Begun, Web};
use super::{Counts, Failure};
use crate::mcp::{Letter, Revision};
use crate::metrics::ServerSeries;
use crate::wire::Message;

/// One live connection to a server. Callers share it in an `Arc`; dropping it ends a child and its group at once.
pub struct Link(Way);

enum Way {
    Web(Web),
    Stdio(Stdio),
}

impl Link {
    pub(super) fn web(web: Web) -> Self {
        Self(Way::Web(web))
    }

    pub(super) fn stdio(stdio: Stdio) -> Self {
        Self(Way::Stdio(stdio))
    }

    /// Sends a request whose id, and progress token if it has one, is `id`: unique among the calls in flight on this
    /// link. Over HTTP nothing happens until the reply is polled, but for the first request of a link: where it is not
    /// known which HTTP transport the server speaks, it is found out with that before this returns. To a child the
    /// request is queued for writing when this returns, after waiting for room.
    pub async fn request(&self, id: u64, letter: impl Into<Letter>) -> Result<Reply, Failure> {
        let letter = letter.into();
        Ok(Reply(match &self.0 {
            Way::Web(web) => web.request(id, letter).await?,
            Way::Stdio(stdio) => Answers::Stdio(stdio.request(id, letter.text).await?),
        }))
    }

    /// Sends the question which revisions the server speaks, in the words of `revision`, of the modern era. Over HTTP
    /// no transport is found out with it; `None` where the server is known to speak only the older one, which that era
    /// does not have.
    pub async fn discover(
        &self,
        revision: Revision,
        id: u64,
        letter: Letter,
    ) -> Result<Option<Reply>, Failure> {
        Ok(match &self.0 {
            Way::Web(web) => {
                web.discover(revision, id, letter)?.map(|exchange| Reply(Answers::Http(Box::new(exchange))))
            }
            Way::Stdio(stdio) => Some(Reply(Answers::Stdio(stdio.request(id, letter.text).await?))),
        })
    }

    /// Sends a notification, or a response of ours.
    pub async fn send(&self, text: Bytes) -> Result<(), Failure> {
        match &self.0 {
            Way::Web(web) => web.send(text).await,
            Way::Stdio(stdio) => stdio.send(text).await,
        }
    }

    /// Tells the link which revision is spoken from now on: named in a header from 2025-06-18 on. A session id counts
    /// only before this.
    pub fn agree(&self, revision: Revision) {
        match &self.0 {
            Way::Web(web) => web.agree(revision),
            Way::Stdio(_) => {}
        }
    }

    /// Whether the server gave us a session. A link of the older transport always is one.
    pub fn has_session(&self) -> bool {
        match &self.0 {
            Way::Web(web) => web.has_session(),
            Way::Stdio(_) => false,
        }
    }

    /// Whether one stream brings everything, the answers to calls as well as what belongs to none.
    pub fn has_one_stream(&self) -> bool {
        match &self.0 {
            Way::Web(web) => web.has_one_stream(),
            Way::Stdio(_) => true,
        }
    }

    /// Says that the child has started well, so the next may be started.
    pub fn settled(&self) {
        match &self.0 {
            Way::Web(_) => {}
            Way::Stdio(stdio) => stdio.settled(),
        }
    }

    /// The messages that belong to no call. [`Failure::Unsupported`] where the server offers no such stream, or those of
    /// a link with one stream for all, which a child and the older transport have, are read by somebody already.
    pub async fn listen(&self) -> Result<Inbound, Failure> {
        Ok(Inbound(match &self.0 {
            Way::Web(web) => web.listen().await?,
            Way::Stdio(stdio) => Unasked::Stdio(stdio.listen()?),
        }))
    }

    /// All that a child says which belongs to no call; `None` of a server that has no such single stream, or where
    /// somebody reads it already.
    pub fn pipe(&self) -> Option<Inbound> {
        match &self.0 {
            Way::Web(_) => None,
            Way::Stdio(stdio) => stdio.listen().ok().map(|unbound| Inbound(Unasked::Stdio(unbound))),
        }
    }

    /// Whether the server's process, if it is one of ours, still runs and talks.
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            Way::Web(_) => true,
            Way::Stdio(stdio) => stdio.is_alive(),
        }
    }

    /// Counts what is dropped in `series` as well. Said before anything is sent.
    pub fn count_in(&self, series: &Arc<ServerSeries>) {
        match &self.0 {
            Way::Web(web) => web.tally().show(series),
            Way::Stdio(stdio) => stdio.tally().show(series),
        }
    }

    /// What was dropped so far.
    pub fn counts(&self) -> Counts {
        match &self.0 {
            Way::Web(web) => web.tally().counts(),
            Way::Stdio(stdio) => stdio.tally().counts(),
        }
    }

    /// Ends it: the session is deleted (two seconds at most) or its stream ended, or the child's group is stopped and reaped (some five at
    /// most). Calls in flight get [`Failure::Cut`]. May be called again, and waits then as well.
    pub async fn close(&self) {
        match &self.0 {
            Way::Web(web) => web.close().await,
            Way::Stdio(stdio) => stdio.close().await,
        }
    }
}

/// The messages of one call. Dropping it abandons the call: an HTTP response is read no further.
pub struct Reply(Answers);

pub(super) enum Answers {
    /// In a box, since it is passed on by one function after another.
    Http(Box<Exchange>),
    Begun(Box<Begun>),
    Sse(Posted),
    Stdio(Call),
}

impl Reply {
    /// The reply to a request that changes nothing: it may be sent twice where a connection breaks under it. Said before
    /// the first message is read.
    #[must_use]
    pub fn repeatable(self) -> Self {
        Self(match self.0 {
            Answers::Http(exchange) => Answers::Http(Box::new(exchange.repeatable())),
            other @ (Answers::Begun(_) | Answers::Sse(_) | Answers::Stdio(_)) => other,
        })
    }

    /// The next message: asides first, the answer (a result or an error) last. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        match &mut self.0 {
            Answers::Http(exchange) => exchange.next().await,
            Answers::Begun(begun) => begun.next().await,
            Answers::Sse(posted) => posted.next().await,
            Answers::Stdio(call) => call.next().await,
        }
    }

    /// More of the answer that was given [open](Message::is_open), which is given so only where its
    /// [letter](Letter::in_pieces) allows; `None` at its end. Cancel-safe. Where the [next](Self::next) message is read in
    /// place of this, that is the whole answer.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        match &mut self.0 {
            Answers::Http(exchange) => exchange.piece().await,
            Answers::Begun(begun) => begun.piece().await,
            // Held until they are whole: a client that reads slowly must not keep all others from their answers.
            Answers::Sse(_) | Answers::Stdio(_) => Ok(None),
        }
    }
}

/// The messages of a link that belong to no call.
pub struct Inbound(Unasked);

pub(super) enum Unasked {
    Http(Box<Stream>),
    Sse(Unbound),
    Stdio(Unbound),
}

impl Inbound {
    /// The next message; an error means that the stream or the child ended, and why: [`Failure::Unreachable`] where the
    /// link has ended with a stream of the older transport. Cancel-safe. What a link with one stream for all brings while
    /// nobody reads is kept up to 4096 messages and 4 MiB, the newest ones.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        match &mut self.0 {
            Unasked::Http(stream) => stream.next().await,
            Unasked::Sse(unbound) => unbound.next().await.map_err(|why| gone(&why)),
            Unasked::Stdio(unbound) => unbound.next().await,
        }
    }

    /// How long the server wants us to wait before we listen again, where it said so.
    pub fn retry(&self) -> Option<Duration> {
        match &self.0 {
            Unasked::Http(stream) => stream.retry(),
            Unasked::Sse(_) | Unasked::Stdio(_) => None,
        }
    }
}

/// What is inside holds what was asked and where: not for logs.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

opaque! { Link Reply Inbound }
