//! Listening to what a server says unasked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::state::Ready;
use crate::transport::{Failure, Inbound};
use crate::wire::Message;

/// Keeps a server's unbound messages coming. HTTP servers may refuse the stream or cut it; it is opened again, at most
/// once per interval.
pub(super) struct Ear {
    ready: Arc<Ready>,
    /// A child has one stream for all: its end is the link's.
    process: bool,
    interval: Duration,
    opened: Instant,
    stage: Stage,
}

enum Stage {
    Opening(Pin<Box<dyn Future<Output = Result<Inbound, Failure>> + Send>>),
    Open(Inbound),
    Waiting,
    Deaf,
}

/// What was heard.
pub(super) enum Heard {
    /// A message.
    Message(Message),
    /// The stream stands: from now on changes are told. Those before it may have been missed.
    Open,
    /// The stream cannot be had: changes have to be asked for.
    Deaf,
}

impl Ear {
    pub(super) fn new(ready: Arc<Ready>, process: bool, interval: Duration) -> Self {
        let stage = Self::opening(&ready);
        Self { ready, process, interval, opened: Instant::now(), stage }
    }

    fn opening(ready: &Arc<Ready>) -> Stage {
        let ready = ready.clone();
        Stage::Opening(Box::pin(async move { ready.link.listen().await }))
    }

    /// The next thing heard; never returns once the ear is deaf. Cancel-safe.
    ///
    /// # Errors
    /// Where the link itself has ended.
    pub(super) async fn hear(&mut self) -> Result<Heard, Failure> {
        loop {
            match &mut self.stage {
                Stage::Opening(opening) => match opening.await {
                    Ok(inbound) => {
                        self.stage = Stage::Open(inbound);
                        return Ok(Heard::Open);
                    }
                    Err(failure) => {
                        // Some servers allow calls and not this stream: then changes have to be asked for.
                        let refused = matches!(failure, Failure::Unauthorized { .. });
                        self.stage = if refused { Stage::Deaf } else { after(failure)? };
                        if matches!(self.stage, Stage::Deaf) {
                            return Ok(Heard::Deaf);
                        }
                    }
                },
                Stage::Open(inbound) => match inbound.next().await {
                    Ok(message) => return Ok(Heard::Message(message)),
                    Err(failure) if self.process => return Err(failure),
                    Err(failure) => self.stage = after(failure)?,
                },
                Stage::Waiting => {
                    tokio::time::sleep_until(self.opened + self.interval).await;
                    self.opened = Instant::now();
                    self.stage = Self::opening(&self.ready);
                }
                Stage::Deaf => std::future::pending().await,
            }
        }
    }
}

/// A stream that ended is tried again later; one that is refused never; a server that is gone ends the link.
fn after(failure: Failure) -> Result<Stage, Failure> {
    if matches!(failure, Failure::Unsupported(_)) {
        Ok(Stage::Deaf)
    } else if super::state::ends_link(&failure) {
        Err(failure)
    } else {
        Ok(Stage::Waiting)
    }
}
