//! A stream of a session as server-sent events, from where its reader stands.

use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::mcp::{Revision, method};
use crate::session::{Follower, Told};
use crate::wire::{self, Code, Kind, Message};

/// How long a client should wait before it opens a broken stream again. The TypeScript client tries twice: that bridges a
/// restart of ours.
const RETRY_MS: u64 = 2_000;

/// What is still to be told. Every event has an id, so that a client whose connection breaks can come back for the rest.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) follower: Follower,
    opening: Option<Bytes>,
    lost: bool,
}

impl Tail {
    /// Begins, or goes on, with an event that tells where the stream can be resumed. It does so at each beginning: the
    /// TypeScript client forgets with each connection what it had, and without an id it would open another stream.
    pub(super) fn new(follower: Follower) -> Self {
        let primes = Revision::of(follower.session().revision()).is_some_and(Revision::has_priming);
        let opening = primes.then(|| wire::priming(&follower.mark(), RETRY_MS));
        Self { follower, opening, lost: false }
    }

    /// Whether something was lost since this was asked last.
    pub(super) fn has_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// The next event; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(opening));
        }
        let told = ready!(self.follower.poll_next(cx));
        Poll::Ready(told.and_then(|told| self.event(told)))
    }

    /// As [`poll_next`](Self::poll_next).
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn event(&mut self, told: Told) -> Option<Bytes> {
        match told {
            Told::Message { number, message, last } => {
                Some(wire::frame_as(&self.follower.id(number, last), &message))
            }
            Told::Lost(count) => {
                self.lost = true;
                tracing::warn!(count, "messages of a stream were lost: nobody read them in time");
                Some(wire::frame_as(&self.follower.mark(), &warning(count)))
            }
            Told::Gone => {
                let answer = gone(self.follower.request()?)?;
                Some(wire::frame_as(&self.follower.end_id(), &answer))
            }
        }
    }
}

/// What stands in the place of lost messages. To end the stream instead would cost the client the answer, which is still
/// to come, and to say nothing would hide the gap.
fn warning(count: u64) -> Bytes {
    let params = format!(
        r#"{{"level":"warning","logger":"trunkline","data":"{count} messages are missing here: more came than are kept for a client that does not read them"}}"#
    );
    wire::notification(method::MESSAGE, &params)
}

/// The answer to the request with the raw id `request`, whose real one is lost. `None` where that is no id: it may come
/// from a client.
pub(super) fn gone(request: &Bytes) -> Option<Bytes> {
    let text = "the answer to this request is no longer kept; the call may have taken effect: make it again if that does \
                no harm";
    let answer = wire::error(Some(request), Code::Internal, text);
    let read = Message::parse(answer.clone(), DEPTH).ok()?;
    (read.kind() == Kind::Error && read.id().as_ref() == Some(request)).then_some(answer)
}

/// An error without data nests no deeper.
const DEPTH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_answered() {
        for id in ["1", "-7", r#""a\"b""#, "123456789012345678901234567890"] {
            let answer = gone(&id.into()).unwrap();
            assert_eq!(Message::parse(answer, 9).unwrap().id().unwrap(), id);
        }
        for no_id in ["", "null", "1,\"id\":2", "1}", "[1]", "{}", "1.5", "\"", "\u{7f}", "true", " 1"] {
            assert_eq!(gone(&no_id.into()), None, "{no_id}");
        }
        assert_eq!(gone(&Bytes::from_static(b"\"\xff\"")), None);
    }
}
