//! What goes back: nothing, some bytes, or a stream of events.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::SizeHint;

use super::direct::Telling;
use super::listen::Hearing;
use super::reply::{Answering, Passing};
use super::stream::Listening;

/// A response's body.
#[derive(Debug)]
pub enum Body {
    /// These bytes, then the end.
    Full(Option<Bytes>),
    /// A call's asides and its answer.
    Answering(Box<Answering>),
    /// What no request asked for.
    Listening(Box<Listening>),
    /// The same of a call without a session.
    Telling(Box<Telling>),
    /// The same of a client without one.
    Hearing(Box<Hearing>),
    /// An answer that is too long to be held.
    Passing(Box<Passing>),
}

/// An answer breaks off: its connection or stream ends with an error, so that nobody takes it for whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer broke off")]
pub(super) struct BrokenOff;

impl Body {
    pub(super) fn empty() -> Self {
        Self::Full(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl Body {
    /// The next bytes; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let next = match self {
            Self::Full(bytes) => Poll::Ready(bytes.take()),
            Self::Answering(answering) => answering.poll_next(cx),
            Self::Listening(listening) => listening.poll_next(cx),
            Self::Telling(telling) => telling.poll_next(cx),
            Self::Hearing(hearing) => hearing.poll_next(cx),
            Self::Passing(passing) => return passing.poll_next(cx),
        };
        next.map(|bytes| bytes.map(Ok))
    }

    pub(super) fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Answering(_)
            | Self::Listening(_)
            | Self::Telling(_)
            | Self::Hearing(_)
            | Self::Passing(_) => SizeHint::default(),
        }
    }
}
