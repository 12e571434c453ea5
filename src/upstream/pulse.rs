//! Whether a server that fails what it is asked is there at all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::ask::ask;
use super::running::{Running, due, finished};
use super::state::{Ready, ends_link};
use crate::mcp::method;
use crate::transport::Failure;

/// How long a server may take at most to say that it is there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a server that fails calls, or does not list, whether it is there, until it is well again. One that says nothing
/// at all is as good as not connected, however its connection looks.
#[derive(Default)]
pub(super) struct Pulse {
    next: Option<Instant>,
    asking: Option<Running<Result<(), Failure>>>,
}

impl Pulse {
    /// Something speaks against the server.
    pub(super) fn doubt(&mut self) {
        if self.asking.is_none() && self.next.is_none() {
            self.next = Some(Instant::now());
        }
    }

    /// Returns where the server turns out not to be there. Cancel-safe.
    pub(super) async fn stops(&mut self, ready: &Arc<Ready>, interval: Duration, limit: Duration) -> Failure {
        let breaker = &ready.gate.breaker;
        loop {
            if self.asking.is_none() {
                tokio::select! {
                    () = breaker.opened.notified() => self.doubt(),
                    () = due(self.next) => {
                        self.next = None;
                        self.asking = Some(Box::pin(answers(ready.clone(), limit.min(PATIENCE))));
                    }
                }
                continue;
            }
            let answered = finished(&mut self.asking).await;
            self.asking = None;
            // One that is busy with a call may hear nothing else meanwhile.
            let counts = breaker.is_open() || ready.calls.is_empty();
            match answered {
                Err(failure) if counts => return failure,
                Err(_) => self.next = Some(Instant::now() + interval),
                Ok(()) => self.next = breaker.is_open().then(|| Instant::now() + interval),
            }
        }
    }
}

/// Any answer will do, be it a refusal.
async fn answers(ready: Arc<Ready>, limit: Duration) -> Result<(), Failure> {
    let method = if ready.is_modern() { method::DISCOVER } else { method::PING };
    match timeout(limit, ask(&ready, method, "{}")).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(failure)) if ends_link(&failure) => Err(failure),
        Ok(Err(Failure::Cut(why))) => Err(Failure::Unreachable(why)),
        Ok(Err(failure)) => {
            tracing::debug!("it is there, and {failure}");
            Ok(())
        }
        Err(_) => Err(Failure::Unreachable(format!("it answers neither calls nor a ping within {limit:?}"))),
    }
}
