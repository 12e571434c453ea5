//! Listening to what a server says unasked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::listener::Listener;
use super::state::Ready;
use super::subscriptions::Subscriptions;
use crate::transport::{Failure, Inbound};
use crate::wire::Message;

/// Keeps coming what a server says unasked.
pub(super) struct Ear(Kind);

enum Kind {
    Stream(Stream),
    Listener(Box<Listener>),
}

/// A stream of unbound messages. HTTP servers may refuse it or cut it; it is opened again, at most once per interval.
struct Stream {
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
    /// For all that comes without being asked for by anybody.
    pub(super) fn new(ready: Arc<Ready>, process: bool, interval: Duration) -> Self {
        let stage = Stream::opening(&ready);
        Self(Kind::Stream(Stream { ready, process, interval, opened: Instant::now(), stage }))
    }

    /// For what a modern server tells on request.
    pub(super) fn listener(ready: Arc<Ready>, subscriptions: Arc<Subscriptions>, interval: Duration) -> Self {
        let pipe = ready.link.pipe();
        Self(Kind::Listener(Box::new(Listener::new(ready, pipe, subscriptions, interval))))
    }

    /// The next thing heard; never returns once the ear is deaf. Cancel-safe.
    ///
    /// # Errors
    /// Where the link itself has ended.
    pub(super) async fn hear(&mut self) -> Result<Heard, Failure> {
        match &mut self.0 {
            Kind::Stream(stream) => stream.hear().await,
            Kind::Listener(listener) => listener.hear().await,
        }
    }
}

impl Stream {
    fn opening(ready: &Arc<Ready>) -> Stage {
        let ready = ready.clone();
        Stage::Opening(Box::pin(async move { ready.link.listen().await }))
    }

    async fn hear(&mut self) -> Result<Heard, Failure> {
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
