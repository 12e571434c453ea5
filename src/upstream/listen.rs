//! One request to be told of changes.

use std::sync::Arc;

use super::running::Running;
use super::state::Ready;
use crate::mcp::{Filter, Letter, method};
use crate::transport::{Failure, Reply};
use crate::wire::Message;

/// What comes of it: notifications over HTTP, and from anywhere its end, which is an answer or a failure.
pub(super) type Said = Result<Message, Failure>;

/// One request to be told of changes, for as long as it stands. Over HTTP dropping it ends it.
pub(super) struct Listen {
    pub(super) id: u64,
    pub(super) filter: Filter,
    /// The resources of the filter that the server tells of, once it has said so.
    pub(super) granted: Vec<Box<str>>,
    stage: Stage,
}

enum Stage {
    Sending(Running<Result<Reply, Failure>>),
    Open(Reply),
}

impl Listen {
    pub(super) fn open(ready: &Arc<Ready>, filter: Filter) -> Self {
        let (id, ready) = (ready.id(), ready.clone());
        let params = format!(r#"{{"notifications":{}}}"#, filter.write());
        let letter = Letter::ours(ready.hello.revision, id, method::LISTEN, &params);
        let sending = async move { Ok(ready.link.request(id, letter).await?.repeatable()) };
        Self { id, filter, granted: Vec::new(), stage: Stage::Sending(Box::pin(sending)) }
    }

    /// The next message. Cancel-safe.
    pub(super) async fn next(&mut self) -> Said {
        loop {
            match &mut self.stage {
                Stage::Sending(sending) => self.stage = Stage::Open(sending.await?),
                Stage::Open(reply) => return reply.next().await,
            }
        }
    }
}
