//! The one body type of the fast upstream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Interval;

/// A body of ready pieces: sent at once with a `Content-Length`, or streamed (chunked), or streamed one piece
/// per tick. A large filler is shared between answers, not copied into each.
#[derive(Debug, Default)]
pub struct Pieces {
    left: VecDeque<Bytes>,
    streamed: bool,
    tick: Option<Interval>,
}

impl Pieces {
    /// A body whose length is told in the head.
    pub fn sized(pieces: impl Into<VecDeque<Bytes>>) -> Self {
        Self { left: pieces.into(), streamed: false, tick: None }
    }

    /// A body whose length is not told, as that of an event stream; with `tick`, one piece per tick.
    pub fn streamed(pieces: impl Into<VecDeque<Bytes>>, tick: Option<Interval>) -> Self {
        Self { left: pieces.into(), streamed: true, tick }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if let Some(tick) = &mut self.tick {
            ready!(tick.poll_tick(cx));
        }
        Poll::Ready(self.left.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.streamed {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.left.iter().map(|piece| piece.remaining() as u64).sum())
    }
}
