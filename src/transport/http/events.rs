//! Bodies that are streams of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Http;
use super::body::Body;
use super::pool::Pool;
use super::whole::Rest;
use crate::memory::Held;
use crate::transport::{Failure, Sizes, batch};
use crate::wire::{Event, Message, SseDecoder};

/// The kind of events that hold messages.
pub(super) const MESSAGE: &str = "message";

/// A stream of events, each a message.
#[derive(Debug)]
pub(super) struct Events {
    body: Body,
    decoder: SseDecoder,
    ready: VecDeque<Message>,
    sizes: Sizes,
    held: Option<Held>,
}

impl Events {
    pub(super) fn new(body: Body, sizes: Sizes) -> Self {
        let decoder = SseDecoder::new(sizes.message);
        Self { body, decoder, ready: VecDeque::new(), sizes, held: None }
    }

    /// The next message; `None` where the stream ended as it should.
    pub(super) async fn next(&mut self, http: &Http) -> Result<Option<Message>, Failure> {
        self.next_or_opening(http, &mut { usize::MAX }).await
    }

    /// As [`next`](Self::next); but once, where an event has more than `long` bytes, how its message opens, if that tells
    /// anything.
    pub(super) async fn next_or_opening(
        &mut self,
        http: &Http,
        long: &mut usize,
    ) -> Result<Option<Message>, Failure> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let Some(event) = self.decoded(&http.pool)? else {
                if self.decoder.held() > *long {
                    *long = usize::MAX;
                    if let Some(opening) = self.decoder.begun().and_then(Message::opening) {
                        return Ok(Some(opening));
                    }
                }
                if self.fill(&http.pool).await? {
                    continue;
                }
                return Ok(None);
            };
            if event.kind == MESSAGE {
                let text = event.data.clone();
                batch::each(text, self.sizes.depth, |message| self.ready.push_back(message))
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
            if let Some(event) = self.decoded(pool)? {
                return Ok(Some(event));
            }
            if !self.fill(pool).await? {
                return Ok(None);
            }
        }
    }

    /// An event that has come whole.
    fn decoded(&mut self, pool: &Pool) -> Result<Option<Event>, Failure> {
        let event = self.decoder.next_event().map_err(|too_long| Failure::TooLarge(too_long.0))?;
        let has_room = pool.memory.account(&mut self.held, self.decoder.held());
        if has_room { Ok(event) } else { Err(Failure::NoRoom) }
    }

    /// Reads a piece more; not at the end.
    async fn fill(&mut self, pool: &Arc<Pool>) -> Result<bool, Failure> {
        let chunk = self.body.chunk(pool).await?;
        if let Some(chunk) = &chunk {
            self.decoder.push(chunk);
        }
        Ok(chunk.is_some())
    }

    /// The next bytes of a message that has [opened](Self::next_or_opening), and whether they are the last, which may be
    /// none.
    pub(super) async fn piece(&mut self, pool: &Arc<Pool>) -> Result<(Bytes, bool), Failure> {
        loop {
            if let Some(event) = self.decoded(pool)? {
                if event.kind != MESSAGE {
                    return Err(Failure::Garbage("a message turned out to be none".into()));
                }
                return Ok((event.data, true));
            }
            if let Some(data) = self.decoder.take_data() {
                return Ok((data, false));
            }
            if !self.fill(pool).await? {
                return Err(Failure::Cut("the stream ended in the middle of an answer".into()));
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

    /// What is still to come of a message that has [opened](Self::next_or_opening), for whoever takes it as it comes.
    pub(super) fn into_rest(mut self: Box<Self>) -> Rest {
        let told = self.decoder.take_data().map_or(0, |told| told.len());
        let limit = self.sizes.message;
        Rest::of_event(self, told, limit)
    }
}
