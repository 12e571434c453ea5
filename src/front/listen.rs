//! `subscriptions/listen`: the stream of a client without a session, for what it did not ask for (specification of
//! 2026-07-28, `basic/utilities/subscriptions`).

use std::collections::VecDeque;
use std::fmt;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::{Response, StatusCode};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, ReusableBoxFuture};

use super::body::Body;
use super::direct::whole;
use super::endpoint::Endpoint;
use super::refuse::{Turned, refuse};
use super::reply::{KEEP_ALIVE, events};
use crate::fleet::Notice;
use crate::metrics::{Rejection, StreamGuard};
use crate::relay::{Caller, Listen};
use crate::wire::{self, Code, Message};

/// Opens the stream that `message` asks for.
pub(super) async fn hear(
    endpoint: &Endpoint,
    caller: &Caller,
    message: &Message,
) -> Result<Response<Body>, Turned> {
    if !caller.events {
        let text = "this stream is text/event-stream; accept it";
        return Err(refuse(Rejection::Media, StatusCode::NOT_ACCEPTABLE, Code::InvalidRequest, text));
    }
    endpoint.has_room_for_a_stream()?;
    // In this order: what changes in between is told twice rather than never.
    let notices = endpoint.fleet.notices();
    let listen = match endpoint.relay.listen(caller, message).await {
        Ok(listen) => listen,
        Err(refusal) => return Ok(whole(super::accept::Accepts { json: true, events: true }, refusal)),
    };
    let source = Source {
        queue: VecDeque::from([listen.acknowledged()]),
        listen,
        notices,
        closing: endpoint.closing.clone(),
        ended: false,
        quiet: false,
        _stream: endpoint.metrics.stream(),
    };
    Ok(events(Body::Hearing(Box::new(Hearing { next: ReusableBoxFuture::new(source.next()) }))))
}

/// Such a stream, as a body.
pub struct Hearing {
    next: ReusableBoxFuture<'static, Option<(Bytes, Source)>>,
}

/// All that can put something on it. What waits to be told is bounded by what one notice brings.
struct Source {
    listen: Listen,
    queue: VecDeque<Bytes>,
    notices: broadcast::Receiver<Notice>,
    closing: CancellationToken,
    ended: bool,
    /// Nothing was told for a while.
    quiet: bool,
    _stream: StreamGuard,
}

impl Hearing {
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
    /// The next frame; `None` once the client was told that it was the last.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(message) = self.queue.pop_front() {
                return Some((wire::frame(&message), self));
            }
            if self.ended {
                return None;
            }
            if std::mem::take(&mut self.quiet) {
                return Some((wire::comment(), self));
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => self.end(),
                notice = self.notices.recv() => match notice {
                    Ok(notice) => self.queue.extend(self.listen.told(&notice)),
                    // Whoever fell behind is told once that everything may be another now.
                    Err(RecvError::Lagged(_)) => self.queue.extend(self.listen.missed()),
                    Err(RecvError::Closed) => self.end(),
                },
                more = self.listen.more() => self.queue.extend(more),
                () = sleep(KEEP_ALIVE) => self.quiet = true,
            }
            if !self.listen.stands() {
                self.queue.clear(); // it may no longer be told
                self.end();
            }
        }
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.queue.push_back(self.listen.ended());
        }
    }
}

impl fmt::Debug for Hearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hearing")
    }
}
