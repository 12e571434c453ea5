//! A request, up to its response's head.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use super::body::Body;
use super::head::{Head, What};
use super::judge::Response;
use super::lease::Lease;
use super::{CLOSED, Http};
use crate::transport::Failure;

/// A request, up to its response's head.
#[derive(Default)]
pub(super) struct Asking {
    stage: Stage,
    /// The last one of all, when the link is closed already.
    last: bool,
    repeatable: bool,
}

#[derive(Default)]
enum Stage {
    #[default]
    Start,
    Connecting(Pin<Box<dyn Future<Output = Result<Lease, Failure>> + Send + Sync>>),
    Taken(Lease),
    Sent(Lease),
}

impl Asking {
    /// The last request of all, through `lease` if there is one.
    pub(super) fn last(lease: Option<Lease>) -> Self {
        Self { stage: lease.map_or(Stage::Start, Stage::Taken), last: true, repeatable: true }
    }

    /// A request that may reach the server twice without harm: it is sent again where a connection that was used before
    /// breaks under it. Servers close connections whenever they like, and only sometimes say so.
    pub(super) fn repeatable(repeatable: bool) -> Self {
        Self { repeatable, ..Self::default() }
    }

    /// The response to `what`, which nobody may change in between. Cancel-safe: whatever was begun stands in `stage`.
    pub(super) async fn response(
        &mut self,
        http: &Http,
        head: &Head,
        what: &What,
    ) -> Result<Response<Body>, Failure> {
        loop {
            self.stage = match &mut self.stage {
                Stage::Start if http.is_cut() && !self.last => return Err(Failure::Cut(CLOSED.into())),
                Stage::Start => match http.pool.take() {
                    Some(lease) => Stage::Taken(lease),
                    None => Stage::Connecting(Box::pin(Arc::clone(&http.pool).connect())),
                },
                Stage::Connecting(connecting) => Stage::Taken(connecting.await?),
                Stage::Taken(_) => {
                    let Stage::Taken(mut lease) = std::mem::take(&mut self.stage) else { continue };
                    lease.send(head, what);
                    Stage::Sent(lease)
                }
                Stage::Sent(lease) => {
                    let mut cut = pin!(http.pool.cut.wait());
                    let response = poll_fn(|cx| match lease.poll_response(cx) {
                        Poll::Pending if !self.last && cut.as_mut().poll(cx).is_ready() => Poll::Ready(None),
                        response @ (Poll::Ready(_) | Poll::Pending) => response.map(Some),
                    });
                    match response.await {
                        Some(Ok(response)) => {
                            let Stage::Sent(lease) = std::mem::take(&mut self.stage) else { continue };
                            return Ok(response.map(|source| Body::new(source, lease)));
                        }
                        // The server closed it meanwhile, and has not seen the request or may see it again.
                        Some(Err(broken)) if !lease.fresh && (self.repeatable || broken.unsent) => {
                            Stage::Start
                        }
                        Some(Err(broken)) => return Err(broken.failure),
                        None => return Err(Failure::Cut(CLOSED.into())),
                    }
                }
            }
        }
    }
}
