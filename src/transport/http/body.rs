//! Reading bodies: whole, or event by event. All of it is cancel-safe.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::transport::text::{Secrets, reason};
use crate::transport::{Failure, Sizes, batch};
use crate::wire::{Message, SseDecoder};

/// A body that is collected up to a limit.
#[derive(Debug)]
pub(super) struct Whole {
    body: Incoming,
    /// Most bodies are one chunk, which is taken as it is.
    first: Bytes,
    more: BytesMut,
    limit: usize,
}

impl Whole {
    pub(super) fn new(body: Incoming, limit: usize) -> Self {
        Self { body, first: Bytes::new(), more: BytesMut::new(), limit }
    }

    /// The whole body.
    pub(super) async fn read(&mut self) -> Result<Bytes, Failure> {
        let announced = self.body.size_hint().lower();
        if announced > self.limit as u64 {
            return Err(Failure::TooLarge(self.limit));
        }
        while let Some(chunk) = chunk(&mut self.body).await? {
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

/// A stream of events, each a message.
#[derive(Debug)]
pub(super) struct Events {
    body: Incoming,
    decoder: SseDecoder,
    ready: VecDeque<Message>,
    depth: usize,
}

impl Events {
    pub(super) fn new(body: Incoming, sizes: Sizes) -> Self {
        let decoder = SseDecoder::new(sizes.message);
        Self { body, decoder, ready: VecDeque::new(), depth: sizes.depth }
    }

    /// The next message; `None` where the stream ended as it should.
    pub(super) async fn next(&mut self, secrets: &Secrets) -> Result<Option<Message>, Failure> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            match self.decoder.next_event().map_err(|too_long| Failure::TooLarge(too_long.0))? {
                Some(event) if event.kind == "message" => {
                    let text = event.data.clone();
                    batch::each(text, self.depth, |message| self.ready.push_back(message))
                        .map_err(|why| batch::garbage(&event.data, &why, secrets))?;
                }
                Some(_) => {} // kinds we do not know are to be ignored
                None => match chunk(&mut self.body).await? {
                    Some(chunk) => self.decoder.push(&chunk),
                    None => return Ok(None),
                },
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

    pub(super) fn into_body(self) -> Incoming {
        self.body
    }
}

async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        let frame = frame.map_err(|error| Failure::Cut(reason(&error)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Reads what is left of a body that nobody wants, so that its connection can be used again.
pub(super) async fn drain(mut body: Incoming) {
    /// More than this is dearer than another connection.
    const MOST: usize = 64 << 10;
    const LONGEST: Duration = Duration::from_secs(1);
    let read = async {
        let mut left = MOST;
        while let Ok(Some(chunk)) = chunk(&mut body).await {
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
