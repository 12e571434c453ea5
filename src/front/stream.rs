//! The stream that a client keeps open for what it did not ask for.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, ReusableBoxFuture};

use super::reply::KEEP_ALIVE;
use super::tail::Tail;
use crate::catalog::View;
use crate::fleet::{Fleet, Notice};
use crate::metrics::StreamGuard;
use crate::relay::Relay;
use crate::session::Follower;
use crate::wire;

/// A client's open stream, as a body.
pub struct Listening {
    next: ReusableBoxFuture<'static, Option<(Bytes, Source)>>,
}

/// All that can put something on the stream. It goes through the session, so that it has its id and its place.
pub(super) struct Source {
    view: View,
    tail: Tail,
    relay: Arc<Relay>,
    fleet: Arc<Fleet>,
    notices: broadcast::Receiver<Notice>,
    closing: CancellationToken,
    _stream: StreamGuard,
}

impl Listening {
    pub(super) fn new(source: Source) -> Self {
        Self { next: ReusableBoxFuture::new(source.next()) }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some((frame, source)) = ready!(self.next.poll(cx)) else {
            self.next.set(std::future::ready(None));
            return Poll::Ready(None);
        };
        self.next.set(source.next());
        Poll::Ready(Some(frame))
    }
}

impl Source {
    /// What goes to `follower`. Changes that the client has missed since it last listened come first; they count as missed
    /// where it has `lost` its place.
    pub(super) fn new(
        view: View,
        follower: Follower,
        lost: bool,
        relay: &Arc<Relay>,
        fleet: &Arc<Fleet>,
        closing: CancellationToken,
        stream: StreamGuard,
    ) -> Self {
        // In this order: what changes in between is told twice rather than never.
        let notices = fleet.notices();
        let tail = Tail::new(follower);
        let (relay, fleet) = (relay.clone(), fleet.clone());
        let source = Self { view, tail, relay, fleet, notices, closing, _stream: stream };
        if source.hear() || lost {
            source.tell(source.relay.missed(&source.view));
        }
        source
    }

    /// The next frame; `None` at the end of the session, of the process, or where another stream took over.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            // In this order: where another stream took over, the notice is that one's.
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                frame = self.tail.next() => {
                    if self.tail.has_lost() {
                        self.tell(self.relay.missed(&self.view));
                    }
                    return Some((frame?, self));
                }
                notice = self.notices.recv() => match notice {
                    Ok(notice) => {
                        self.hear();
                        self.tell(self.relay.told(&self.view, self.tail.follower.session(), &notice));
                    }
                    // Whoever fell behind is told once that something changed.
                    Err(RecvError::Lagged(_)) => self.tell(self.relay.missed(&self.view)),
                    Err(RecvError::Closed) => return None,
                },
                () = sleep(KEEP_ALIVE) => return Some((wire::comment(), self)),
            }
        }
    }

    /// Notes what the client has been told by now; whether it had been told less before.
    fn hear(&self) -> bool {
        let now = self.fleet.snapshot().notices;
        self.tail.follower.session().hear(now).is_some_and(|before| before != now)
    }

    /// Where a message is lost, the gap is told, and these after it.
    fn tell(&self, messages: Vec<Bytes>) {
        for message in messages {
            self.tail.follower.session().push(message);
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}
