//! Reading bodies: whole, or event by event. All of it is cancel-safe.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};

use super::lease::Lease;
use super::pool::Pool;
use super::{CLOSED, Http};
use crate::memory::Held;
use crate::transport::text::reason;
use crate::transport::{Failure, Sizes, batch};
use crate::wire::{Event, Message, SseDecoder, grow};

/// The body of a response, and the connection that it comes through: free for others once it is read to its end, and
/// closed if it is dropped before.
#[derive(Debug)]
pub(super) struct Body {
    source: Source,
    lease: Option<Lease>,
}

/// Where a body's bytes come from.
#[derive(Debug)]
pub(super) enum Source {
    /// The connection itself, over HTTP/1.1.
    Lease,
    Http2(Incoming),
}

impl Body {
    pub(super) fn new(source: Source, lease: Lease) -> Self {
        Self { source, lease: Some(lease) }
    }

    /// Whether the end is there already; the connection is free then. Swallows a little that is there before it.
    pub(super) fn ends_now(&mut self, pool: &Arc<Pool>) -> bool {
        const FEW: usize = 4;
        for _ in 0..FEW {
            match self.poll_chunk(&mut Context::from_waker(Waker::noop()), pool) {
                Poll::Ready(Ok(Some(_))) => {}
                Poll::Ready(Ok(None)) => return true,
                Poll::Ready(Err(_)) | Poll::Pending => return false,
            }
        }
        false
    }

    /// The next bytes; `None` at the end.
    async fn chunk(&mut self, pool: &Arc<Pool>) -> Result<Option<Bytes>, Failure> {
        let mut cut = pin!(pool.cut.wait());
        poll_fn(|cx| match self.poll_chunk(cx, pool) {
            Poll::Pending => cut.as_mut().poll(cx).map(|()| Err(Failure::Cut(CLOSED.into()))),
            chunk @ Poll::Ready(_) => chunk,
        })
        .await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>, pool: &Arc<Pool>) -> Poll<Result<Option<Bytes>, Failure>> {
        let Some(lease) = &mut self.lease else { return Poll::Ready(Ok(None)) };
        let chunk = match &mut self.source {
            Source::Lease => ready!(lease.poll_chunk(cx))?,
            Source::Http2(incoming) => loop {
                let Some(frame) = ready!(Pin::new(&mut *incoming).poll_frame(cx)) else { break None };
                let frame = frame.map_err(|error| Failure::Cut(reason(&error)))?;
                if let Ok(data) = frame.into_data() {
                    break Some(data);
                }
            },
        };
        if chunk.is_none()
            && let Some(lease) = self.lease.take()
        {
            pool.put(lease);
        }
        Poll::Ready(Ok(chunk))
    }

    /// How many bytes are still to come, at least.
    fn announced(&self) -> u64 {
        match (&self.source, &self.lease) {
            (Source::Http2(incoming), _) => incoming.size_hint().lower(),
            (Source::Lease, lease) => lease.as_ref().map_or(0, Lease::announced),
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
    held: Option<Held>,
}

impl Whole {
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self { body, first: Bytes::new(), more: BytesMut::new(), limit, held: None }
    }

    /// The whole body.
    pub(super) async fn read(&mut self, pool: &Arc<Pool>) -> Result<Bytes, Failure> {
        let announced = self.body.announced();
        if announced > self.limit as u64 {
            return Err(Failure::TooLarge(self.limit));
        }
        while let Some(chunk) = self.body.chunk(pool).await? {
            let len = self.first.len() + self.more.len() + chunk.len();
            if len > self.limit {
                return Err(Failure::TooLarge(self.limit));
            }
            if !pool.memory.account(&mut self.held, len) {
                return Err(Failure::NoRoom);
            }
            if self.first.is_empty() && self.more.is_empty() {
                self.first = chunk;
                continue;
            }
            if self.more.is_empty() {
                self.more.reserve(usize::try_from(announced).unwrap_or(0));
                self.more.extend_from_slice(&std::mem::take(&mut self.first));
            }
            grow(&mut self.more, chunk.len(), self.limit);
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
    held: Option<Held>,
}

impl Events {
    pub(super) fn new(body: Body, sizes: Sizes) -> Self {
        let decoder = SseDecoder::new(sizes.message);
        Self { body, decoder, ready: VecDeque::new(), depth: sizes.depth, held: None }
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

    /// As [`next`](Self::next), where events that are no messages are passed over: what else comes has nothing to do with
    /// them.
    pub(super) async fn next_sound(&mut self, http: &Http) -> Result<Option<Message>, Failure> {
        loop {
            match self.next(http).await {
                Err(Failure::Garbage(why)) => {
                    http.tally.skip();
                    tracing::debug!("an event that is no message: {why}");
                }
                next => return next,
            }
        }
    }

    /// The next event, whatever its kind; `None` where the stream ended as it should.
    pub(super) async fn event(&mut self, pool: &Arc<Pool>) -> Result<Option<Event>, Failure> {
        loop {
            let event = self.decoder.next_event().map_err(|too_long| Failure::TooLarge(too_long.0))?;
            if !pool.memory.account(&mut self.held, self.decoder.held()) {
                return Err(Failure::NoRoom);
            }
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
