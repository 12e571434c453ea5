//! Answers on their way out: counted as long as they are held, and given up where nobody takes them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::body::{Body, BrokenOff};
use super::peer::{Alive, Peer};
use crate::memory::{Held, SMALL};
use crate::metrics::{Closed, Metrics};

/// A response's body that hyper takes: the request is alive as long as it is.
#[derive(Debug)]
pub(super) struct Sent {
    body: Body,
    /// What is left of a large piece, over HTTP/2.
    rest: Bytes,
    held: Option<Held>,
    alive: Alive,
}

/// The most that goes into HTTP/2's own queue at a time: what is there waits for the client's window, and nobody can take
/// it back.
const PIECE: usize = 64 << 10;

impl Sent {
    pub(super) fn new(body: Body, alive: Alive) -> Self {
        Self { body, rest: Bytes::new(), held: None, alive }
    }

    fn chunk(&mut self, bytes: Bytes) -> Chunk {
        let peer = self.alive.peer();
        let held = (bytes.len() >= SMALL).then(|| peer.memory().hold(bytes.len()));
        if !peer.is_two() {
            return Chunk { bytes, _held: held };
        }
        (self.rest, self.held) = (bytes, held);
        self.piece()
    }

    fn piece(&mut self) -> Chunk {
        let bytes = self.rest.split_to(PIECE.min(self.rest.len()));
        Chunk { bytes, _held: if self.rest.is_empty() { self.held.take() } else { None } }
    }
}

impl http_body::Body for Sent {
    type Data = Chunk;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BrokenOff>>> {
        let this = self.get_mut();
        let next = if this.rest.is_empty() { this.body.poll_next(cx) } else { Poll::Ready(None) };
        this.alive.peer().look(next.is_ready());
        if !this.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(this.piece()))));
        }
        Poll::Ready(ready!(next).map(|bytes| Ok(Frame::data(this.chunk(bytes?)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

/// Bytes of an answer, held until they are written.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Bytes,
    _held: Option<Held>,
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.bytes.copy_to_bytes(count)
    }
}

/// Runs the streams of one HTTP/2 connection, and ends those whose client leaves no window open for too long.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    pub(super) peer: Arc<Peer>,
    pub(super) tasks: TaskTracker,
    pub(super) limit: Duration,
    pub(super) metrics: Arc<Metrics>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.tasks.spawn(self.clone().watch(Box::pin(stream)));
    }
}

impl Streams {
    /// A stream that has found something to send, and does not look for more, waits for its client's window.
    async fn watch<F: Future<Output = ()>>(self, mut stream: Pin<Box<F>>) {
        let mut since = None::<Instant>;
        let mut timer = None::<Pin<Box<Sleep>>>;
        let ended = poll_fn(|cx| {
            let looked = self.peer.looked();
            if stream.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            if self.peer.looked() != looked {
                since = self.peer.has_found().then(Instant::now);
            }
            let Some(due) = since.map(|since| since + self.limit) else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            while timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= due {
                    return Poll::Ready(false);
                }
                timer.as_mut().reset(due); // it was set for an earlier wait
            }
            Poll::Pending
        });
        if !ended.await {
            self.metrics.closed(Closed::Unread); // dropped, it is reset
        }
    }
}
