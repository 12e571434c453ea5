//! The streams of one session.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::Session;
use super::event_id::{EventId, Place, StreamId};
use super::follower::{Feed, Follower};
use super::ring::Budget;
use super::spool::{Rest, Spool};

/// Most ended streams that are kept for a client that may come back.
const ENDED: usize = 16;
/// Most streams that can be resumed. A session has fewer calls in flight than this unless it is configured otherwise.
const MOST: usize = 128;
/// Longest id of an event that is looked at, in bytes. Ours are shorter.
const ID_MAX: usize = 256;

/// What may be opened, and what a client may come back for.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// For what no request asked for; made when it is first needed.
    own: Option<Arc<Spool>>,
    calls: Vec<Arc<Spool>>,
    closed: bool,
}

/// What becomes of a client that comes back.
#[derive(Debug)]
pub enum Resumed {
    /// The stream goes on.
    Stream(Follower),
    /// It was told all there was.
    Nothing,
    /// The call's stream is no longer kept, or never was here. The raw id of the request that it answered, if it is known
    /// (from the client: not to be trusted).
    Gone(Option<Bytes>),
    /// The session's own stream is not the one that it was: the client has missed what there was, and opens it anew.
    Anew,
    /// That is no id of an event of ours.
    Unknown,
}

/// The id of an event that stands alone: the whole of its stream.
pub fn lone_id() -> String {
    StreamId::new(true).end()
}

impl Session {
    /// Opens the stream for what no request asked for. One before it ends, and this one goes on where that one stopped.
    pub fn attach(self: &Arc<Self>) -> Follower {
        let own = self.with_streams(Streams::own);
        Follower::new(Arc::clone(self), own, None)
    }

    /// Opens a stream for the answer to the request with the raw id `request`, or to several, and what comes before it.
    /// A reader that leaves may [`resume`](Self::resume) it.
    pub fn stream(self: &Arc<Self>, request: Option<&[u8]>) -> (Feed, Follower) {
        let spool = self.with_streams(|streams, origin, budget| streams.add(request, origin, budget));
        (Feed::new(Arc::clone(&spool)), Follower::new(Arc::clone(self), spool, None))
    }

    /// Opens the stream again of which the event `id` was the last to arrive: what came after it, and what will. A reader
    /// that is still there ends.
    pub fn resume(self: &Arc<Self>, id: &str) -> Resumed {
        let found = self.with_streams(|streams, _, _| streams.find(id));
        match found {
            Ok((spool, number)) => Resumed::Stream(Follower::new(Arc::clone(self), spool, Some(number))),
            Err(instead) => instead,
        }
    }

    /// Whether the stream for what no request asked for is open.
    pub fn attached(&self) -> bool {
        self.with_streams(|streams, _, _| streams.own.as_ref().is_some_and(|own| own.attached()))
    }

    /// Puts a message out for the stream of what no request asked for, which need not be open yet. `false` where
    /// something was lost for it: the oldest messages when there are too many, or this one when the session is over.
    pub fn push(&self, message: Bytes) -> bool {
        // Not under the lock: it wakes the reader.
        let own = self.with_streams(Streams::own);
        own.push(message)
    }

    /// Lets go of what no client is likely to come back for.
    pub(super) fn tidy(&self) {
        self.with_streams(|streams, _, _| streams.tidy());
    }
}

impl Streams {
    /// The session's own stream.
    pub(super) fn own(&mut self, origin: Instant, budget: &Arc<Budget>) -> Arc<Spool> {
        let own = self.own.get_or_insert_with(|| {
            let own = Arc::new(Spool::new(None, false, origin, Arc::clone(budget)));
            if self.closed {
                own.end(None);
            }
            own
        });
        Arc::clone(own)
    }

    /// A new one for a call.
    pub(super) fn add(
        &mut self,
        request: Option<&[u8]>,
        origin: Instant,
        budget: &Arc<Budget>,
    ) -> Arc<Spool> {
        let spool = Arc::new(Spool::new(request, true, origin, Arc::clone(budget)));
        let full = self.calls.len() >= MOST || self.calls.iter().filter(|call| call.idle()).count() >= ENDED;
        if let Some(oldest) = self.calls.iter().position(|call| full && call.idle()) {
            self.calls.remove(oldest).forget();
        }
        if self.closed || self.calls.len() >= MOST {
            spool.forget();
        } else {
            self.calls.push(Arc::clone(&spool));
        }
        spool
    }

    /// The stream of which `id` is an event, and its number.
    pub(super) fn find(&self, id: &str) -> Result<(Arc<Spool>, u64), Resumed> {
        let id = Some(id).filter(|id| id.len() <= ID_MAX).and_then(EventId::parse).ok_or(Resumed::Unknown)?;
        let number = match id.place {
            Place::End => return Err(Resumed::Nothing),
            Place::After(number) => number,
        };
        let found = self.own.iter().chain(&self.calls).find(|spool| spool.stream == id.stream);
        let Some(spool) = found else {
            return Err(if id.stream.call {
                Resumed::Gone(id.request.map(Bytes::from))
            } else {
                Resumed::Anew
            });
        };
        match spool.rest(number) {
            Rest::More => Ok((Arc::clone(spool), number)),
            Rest::Nothing => Err(Resumed::Nothing),
            Rest::Gone => Err(Resumed::Gone(spool.request.clone())),
            Rest::Unknown => Err(Resumed::Unknown),
        }
    }

    /// Whether somebody reads one of them.
    pub(super) fn attached(&self) -> bool {
        self.own.iter().chain(&self.calls).any(|spool| spool.attached())
    }

    /// Gives the session's own stream, which is to end.
    pub(super) fn close(&mut self) -> Option<Arc<Spool>> {
        self.closed = true;
        for call in std::mem::take(&mut self.calls) {
            call.forget();
        }
        self.own.clone()
    }

    pub(super) fn tidy(&mut self) {
        if let Some(own) = &self.own {
            own.tidy();
        }
        self.calls.retain(|call| !call.tidy());
        if self.calls.capacity() > 2 * self.calls.len() + 8 {
            self.calls.shrink_to_fit();
        }
    }
}
