//! One request and what comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::state::Ready;
use crate::mcp::method;
use crate::transport::{Failure, Reply};
use crate::wire::{Message, notification};

/// One request in flight. Holds its link open.
#[derive(Debug)]
pub struct Exchange {
    id: u64,
    reply: Reply,
    ready: Arc<Ready>,
    _in_flight: TaskTrackerToken,
}

impl Exchange {
    pub(super) async fn open(
        ready: Arc<Ready>,
        write: &(dyn Fn(u64) -> Bytes + Sync),
    ) -> Result<Self, (Arc<Ready>, Failure)> {
        let in_flight = ready.calls.token();
        let id = ready.ids.fetch_add(1, Ordering::Relaxed) + 1;
        match ready.link.request(id, write(id)).await {
            Ok(reply) => Ok(Self { id, reply, ready, _in_flight: in_flight }),
            Err(failure) => Err((ready, failure)),
        }
    }

    /// The next message: what comes before the answer, then the answer.
    ///
    /// # Errors
    /// Where no answer will come.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        self.reply.next().await
    }

    /// Its id, and the token of its progress.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Answers a request that the server makes in the middle of it.
    pub async fn refuse(&self, request: &Message) {
        self.ready.answer(request).await;
    }

    /// Sends the server what the client says to a request that the server made in the middle of it.
    pub async fn respond(&self, text: Bytes) {
        self.ready.say(text).await;
    }

    /// On which of the upstream's links it runs.
    pub fn generation(&self) -> u64 {
        self.ready.generation
    }

    /// Tells the server that nobody waits for the answer any more.
    pub(super) async fn cancel(self, reason: &'static str) {
        let text =
            notification(method::CANCELLED, &format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, self.id));
        drop(self.reply); // nothing more is read from here on
        if let Err(failure) = self.ready.link.send(text).await {
            tracing::debug!(%failure, "a cancellation did not arrive");
        }
    }
}
