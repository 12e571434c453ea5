//! Reading bodies: whole, or event by event. All of it is cancel-safe.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

use super::Http;
use super::lease::Lease;
use super::pool::Pool;
use crate::transport::text::reason;
use crate::transport::{Failure, Sizes, batch};
use crate::wire::{Event, Message, SseDecoder};

/// The body of a response, and the connection that it comes through: free for others once it is read to its end, and
/// closed if it is dropped before.
#[derive(Debug)]
pub(super) struct Body {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, lease: Lease) -> Self {
        Self { incoming, lease: Some(lease) }
    }

    /// Whether the end is there already; the connection is free then. Swallows a little that is there before it.
    pub(super) fn ends_now(&mut self, pool: &Arc<Pool>) -> bool {
        const FEW: usize = 4;
        for _ in 0..FEW {
            match Pin::new(&mut self.incoming).poll_frame(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None) => {
                    self.free(pool);
                    return true;
                }
                Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
            }
        }
        false
    }

    /// The next bytes; `None` at the end.
    async fn chunk(&mut self, pool: &Arc<Pool>) -> Result<Option<Bytes>, Failure> {
        loop {
            let Some(frame) = self.incoming.frame().await else {
                self.free(pool);
                return Ok(None);
            };
            let frame = frame.map_err(|error| Failure::Cut(reason(&error)))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    fn free(&mut self, pool: &Arc<Pool>) {
        if let Some(lease) = self.lease.take() {
            pool.put(lease);
        }
    }
}

/// A body that is collected up to a limit.
#[derive(Debug)]
pub(super) struct Whole {
    body: Body,
    /// Most bodies are one chunk, which is taken as it is.
    first: Bytes,
    more: BytesMut,
    limit: usize,
}

impl Whole {
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self { body, first: Bytes::new(), more: BytesMut::new(), limit }
    }

    /// The whole body.
    pub(super) async fn read(&mut self, pool: &Arc<Pool>) -> Result<Bytes, Failure> {
        let announced = self.body.incoming.size_hint().lower();
        if announced > self.limit as u64 {
            return Err(Failure::TooLarge(self.limit));
        }
        while let Some(chunk) = self.body.chunk(pool).await? {
            if self.first.len() + self.more.len() + chunk.len() > self.limit {
                return Err(Failure::TooLarge(self.limit));
            }
            if self.first.is_empty() && self.more.is_empty() {
                self.first = chunk;
                continue;
            }
            if self.more.is_empty() {
                self.more.reserve(usize::try_from(announced).unwrap_or(0));
                self.more.extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.more.extend_from_slice(&chunk);
        }
        let first = std::mem::take(&mut self.first);
        Ok(if self.more.is_empty() { first } else { self.more.split().freeze() })
    }
}

/// The kind of events that hold messages.
pub(super) const MESSAGE: &str = "message";

/// A stream of events, each a message.
#[derive(Debug)]
pub(super) struct Events {
    body: Body,
    decoder: SseDecoder,
    ready: VecDeque<Message>,
    depth: usize,
}

impl Events {
    pub(super) fn new(body: Body, sizes: Sizes) -> Self {
        let decoder = SseDecoder::new(sizes.message);
        Self { body, decoder, ready: VecDeque::new(), depth: sizes.depth }
    }

    /// The next message; `None` where the stream ended as it should.
    pub(super) async fn next(&mut self, http: &Http) -> Result<Option<Message>, Failure> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let Some(event) = self.event(&http.pool).await? else { return Ok(None) };
            if event.kind == MESSAGE {
                let text = event.data.clone();
                batch::each(text, self.depth, |message| self.ready.push_back(message))
                    .map_err(|why| batch::garbage(&event.data, &why, &http.secrets.load()))?;
            } // kinds we do not know are to be ignored
        }
    }

    /// The next event, whatever its kind; `None` where the stream ended as it should.
    pub(super) async fn event(&mut self, pool: &Arc<Pool>) -> Result<Option<Event>, Failure> {
        loop {
            let event = self.decoder.next_event().map_err(|too_long| Failure::TooLarge(too_long.0))?;
            if event.is_some() {
                return Ok(event);
            }
            match self.body.chunk(pool).await? {
                Some(chunk) => self.decoder.push(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// Where the stream can be gone on with.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.decoder.last_id()
    }

    /// How long the server wants us to wait before that.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.decoder.retry_ms().map(Duration::from_millis)
    }

    pub(super) fn into_body(self) -> Body {
        self.body
    }
}

/// Reads what is left of a body that nobody wants, so that its connection can be used again.
pub(super) async fn drain(mut body: Body, pool: Arc<Pool>) {
    /// More than this is dearer than another connection.
    const MOST: usize = 64 << 10;
    const LONGEST: Duration = Duration::from_secs(1);
    let read = async {
        let mut left = MOST;
        while let Ok(Some(chunk)) = body.chunk(&pool).await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    if tokio::time::timeout(LONGEST, read).await.is_err() {
        tracing::trace!("a body did not end");
    }
}
