//! What is remembered of a server about the eras of the protocol.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::{Protocol, Server};
use crate::mcp::Revision;
use crate::transport::Failure;

/// How a handshake goes about the two eras.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// `server/discover` first, and `initialize` where the server does not know that.
    Discover,
    /// `initialize` first, and `server/discover` where that is refused: for a server that the question is bad for.
    Initialize,
    /// Nothing but `initialize`, for this revision.
    Legacy(Revision),
    /// Nothing but `server/discover`.
    Modern,
}

impl Order {
    /// What the configuration says; `None` where it is to be found out.
    pub(super) fn configured(server: &Server) -> Result<Option<Self>, Failure> {
        Ok(match &server.protocol {
            Protocol::Auto => None,
            Protocol::Legacy => Some(Self::Legacy(Revision::LATEST_LEGACY)),
            Protocol::Modern => Some(Self::Modern),
            Protocol::Revision(name) => match Revision::of(name) {
                Some(revision) if revision.is_modern() => Some(Self::Modern),
                Some(revision) => Some(Self::Legacy(revision)),
                None => return Err(Failure::Unsupported(format!("revision {name} is not known"))),
            },
        })
    }
}

/// How long it is remembered that a server cannot stand the question; it may have been brought up to date.
const MEMORY: Duration = Duration::from_secs(24 * 3600);

/// Whether `server/discover` goes first. An upstream's successor at the same place goes on with it.
///
/// Most servers of either era answer it, and are asked at every connection: so one that was brought up to date is
/// found out. Some children end at it or never answer; with those it is remembered.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Since when it is known that the server is better not asked.
    shy: Option<Instant>,
    /// It has been asked before, and went on.
    hardy: bool,
    /// How often in a row a child ended during its handshake.
    ended: u32,
}

impl Memory {
    /// What to try first. As long as children end at it, one way and the other in turn.
    pub(super) fn order(&self) -> Order {
        let remembered = self.remembered();
        let shy = remembered.shy.is_some_and(|since| since.elapsed() < MEMORY);
        if shy || (!remembered.hardy && remembered.ended % 2 == 1) {
            Order::Initialize
        } else {
            Order::Discover
        }
    }

    /// A child ended during its handshake. Tells whether to start another one at once and go about it the other way.
    pub(super) fn ended(&self, order: Order) -> bool {
        let mut remembered = self.remembered();
        remembered.ended = remembered.ended.saturating_add(1);
        order == Order::Discover && !remembered.hardy && remembered.ended == 1
    }

    /// A handshake went well; the server may have been `silent` when it was asked for its revisions.
    pub(super) fn met(&self, order: Order, revision: Revision, silent: bool) {
        let mut remembered = self.remembered();
        let ended = std::mem::take(&mut remembered.ended) > 0;
        remembered.hardy = order == Order::Discover && !silent;
        if revision.is_modern() {
            remembered.shy = None;
        } else if silent || (order == Order::Initialize && ended) {
            remembered.shy = Some(Instant::now());
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: Revision = Revision::LATEST;
    const LEGACY: Revision = Revision::LATEST_LEGACY;

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_cannot_stand_the_question_is_not_asked_first() {
        let memory = Memory::default();
        memory.met(Order::Discover, LEGACY, false);
        assert_eq!(memory.order(), Order::Discover, "it may be brought up to date");
        memory.met(Order::Discover, LEGACY, true);
        assert_eq!(memory.order(), Order::Initialize);
        tokio::time::advance(MEMORY).await;
        assert_eq!(memory.order(), Order::Discover, "one day later");
        memory.met(Order::Discover, LEGACY, true);
        memory.met(Order::Initialize, MODERN, false);
        assert_eq!(memory.order(), Order::Discover, "it was wrong");
    }

    #[tokio::test]
    async fn a_child_that_ends_is_started_again_once_and_then_in_turn() {
        let memory = Memory::default();
        assert!(memory.ended(Order::Discover), "the other way, at once");
        assert!(!memory.ended(Order::Initialize));
        for order in [Order::Discover, Order::Initialize, Order::Discover] {
            assert_eq!(memory.order(), order);
            assert!(!memory.ended(order), "each attempt starts one");
        }
        memory.met(Order::Initialize, LEGACY, false);
        assert_eq!(memory.order(), Order::Initialize, "remembered");
        let memory = Memory::default();
        memory.met(Order::Discover, LEGACY, false);
        assert!(!memory.ended(Order::Discover), "it is not for the question that it ends");
        assert_eq!(memory.order(), Order::Discover);
    }
}
