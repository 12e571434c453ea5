//! The stream that a client keeps open for what it did not ask for.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, ReusableBoxFuture};

use super::reply::KEEP_ALIVE;
use crate::catalog::View;
use crate::fleet::Notice;
use crate::metrics::StreamGuard;
use crate::relay::Relay;
use crate::session::{Outgoing, Session};
use crate::wire;

/// A client's open stream, as a body.
pub struct Listening {
    next: ReusableBoxFuture<'static, Option<(Bytes, Source)>>,
}

/// All that can put something on the stream.
pub(super) struct Source {
    pub(super) relay: Arc<Relay>,
    pub(super) session: Arc<Session>,
    pub(super) view: View,
    pub(super) outgoing: Outgoing,
    pub(super) notices: broadcast::Receiver<Notice>,
    pub(super) closing: CancellationToken,
    pub(super) _stream: StreamGuard,
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
    /// The next frame; `None` at the end of the session, of the process, or where another stream took over.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            let frame = tokio::select! {
                () = self.closing.cancelled() => return None,
                message = self.outgoing.next() => wire::frame(&message?),
                notice = self.notices.recv() => {
                    let told = match notice {
                        Ok(notice) => self.relay.told(&self.view, &self.session, &notice),
                        // Whoever fell behind is told once that something changed.
                        Err(RecvError::Lagged(_)) => self.relay.missed(),
                        Err(RecvError::Closed) => return None,
                    };
                    if told.is_empty() {
                        continue;
                    }
                    told.iter().map(wire::frame).collect::<Vec<_>>().concat().into()
                }
                () = sleep(KEEP_ALIVE) => wire::comment(),
            };
            return Some((frame, self));
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}
