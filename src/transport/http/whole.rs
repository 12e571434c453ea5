//! Bodies that are read whole, or passed on as they come.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::Http;
use super::body::Body;
use super::events::Events;
use super::pool::Pool;
use crate::memory::Held;
use crate::transport::Failure;
use crate::wire::grow;

/// Within so many bytes a message shows what it is.
const OPENING: usize = 1 << 10;

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

    /// The whole body; but where more than `long` bytes of it come, first its start.
    pub(super) async fn read(&mut self, pool: &Arc<Pool>, long: usize) -> Result<Came, Failure> {
        loop {
            let announced = self.body.announced();
            if announced > self.limit as u64 {
                return Err(Failure::TooLarge(self.limit));
            }
            let Some(chunk) = self.body.chunk(pool).await? else { break };
            let len = self.first.len() + self.more.len() + chunk.len();
            if len > self.limit {
                return Err(Failure::TooLarge(self.limit));
            }
            if !pool.memory.account(&mut self.held, len) {
                return Err(Failure::NoRoom);
            }
            self.keep(chunk, announced);
            if len >= OPENING && len as u64 + self.body.announced() > long as u64 {
                return Ok(Came::Start(self.so_far()));
            }
        }
        let first = std::mem::take(&mut self.first);
        Ok(Came::Whole(if self.more.is_empty() { first } else { self.more.split().freeze() }))
    }

    fn keep(&mut self, chunk: Bytes, announced: u64) {
        if self.first.is_empty() && self.more.is_empty() {
            self.first = chunk;
            return;
        }
        if self.more.is_empty() {
            self.more.reserve(usize::try_from(announced).unwrap_or(0));
            self.more.extend_from_slice(&std::mem::take(&mut self.first));
        }
        grow(&mut self.more, chunk.len(), self.limit);
        self.more.extend_from_slice(&chunk);
    }

    fn so_far(&self) -> Bytes {
        if self.more.is_empty() { self.first.clone() } else { Bytes::copy_from_slice(&self.more) }
    }

    /// What is still to come, for whoever takes it as it comes.
    pub(super) fn into_rest(self) -> Rest {
        let left = self.limit.saturating_sub(self.first.len() + self.more.len());
        Rest { source: Coming::Body(self.body), left, limit: self.limit }
    }
}

/// What has come of a body.
#[derive(Debug)]
pub(super) enum Came {
    Whole(Bytes),
    /// Only so much, and it is long.
    Start(Bytes),
}

/// What is still to come of a long message.
#[derive(Debug)]
pub(super) struct Rest {
    source: Coming,
    left: usize,
    limit: usize,
}

#[derive(Debug)]
enum Coming {
    Body(Body),
    Events(Box<Events>),
    Nothing,
}

impl Rest {
    /// Of a message of which `told` bytes have come; it may have `limit`.
    pub(super) fn of_event(events: Box<Events>, told: usize, limit: usize) -> Self {
        Self { source: Coming::Events(events), left: limit.saturating_sub(told), limit }
    }

    /// The next bytes; `None` at the message's end.
    pub(super) async fn next(&mut self, http: &Http) -> Result<Option<Bytes>, Failure> {
        let (piece, last) = match &mut self.source {
            Coming::Body(body) => match body.chunk(&http.pool).await? {
                Some(chunk) => (chunk, false),
                None => (Bytes::new(), true),
            },
            Coming::Events(events) => events.piece(&http.pool).await?,
            Coming::Nothing => return Ok(None),
        };
        if last && let Coming::Events(events) = std::mem::replace(&mut self.source, Coming::Nothing) {
            // Most servers end the stream right behind the answer. Dropped before that, the connection would be lost.
            http.leave(events.into_body());
        }
        self.left = self.left.checked_sub(piece.len()).ok_or(Failure::TooLarge(self.limit))?;
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }
}
