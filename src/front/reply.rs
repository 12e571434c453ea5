//! The answer to one POST: JSON where the answer comes first and soon, events otherwise.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, Sleep, sleep};

use super::accept::Accepts;
use super::body::Body;
use crate::clock::Clock;
use crate::metrics::StreamGuard;
use crate::relay::{Call, Step};
use crate::wire;

/// Until then a call may still be answered by plain JSON; after it the client sees at least headers.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a quiet stream shows that it lives: below the usual 30 to 60 s of middle boxes.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A call being told as events.
#[derive(Debug)]
pub struct Answering {
    call: Option<Call>,
    first: Option<Bytes>,
    quiet: Pin<Box<Sleep>>,
    _stream: StreamGuard,
}

/// The response to `call`.
pub(super) async fn respond(
    mut call: Call,
    accepts: Accepts,
    clock: &Clock,
    stream: impl FnOnce() -> StreamGuard,
) -> Response<Body> {
    if !accepts.events {
        return loop {
            if let Step::Answer(answer) = call.step().await {
                break answer.map_or_else(accepted, json);
            }
        };
    }
    let first = if accepts.json { clock.within(PATIENCE, call.step()).await.ok() } else { None };
    let first = match first {
        Some(Step::Answer(Some(answer))) => return json(answer),
        // Cancelled: nothing is to be answered, and the stream ends.
        Some(Step::Answer(None)) => return events(Body::empty()),
        Some(Step::Aside(aside)) => Some(wire::frame(&aside)),
        None => None,
    };
    let quiet = Box::pin(sleep(KEEP_ALIVE));
    events(Body::Answering(Box::new(Answering { call: Some(call), first, quiet, _stream: stream() })))
}

impl Answering {
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some(call) = &mut self.call else { return Poll::Ready(None) };
        let frame = match call.poll_step(cx) {
            Poll::Ready(Step::Aside(aside)) => Some(wire::frame(&aside)),
            Poll::Ready(Step::Answer(answer)) => {
                self.call = None;
                answer.map(|answer| wire::frame(&answer))
            }
            Poll::Pending if self.quiet.as_mut().poll(cx).is_ready() => Some(wire::comment()),
            Poll::Pending => return Poll::Pending,
        };
        self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(frame)
    }
}

/// A JSON-RPC answer.
pub(super) fn json(answer: Bytes) -> Response<Body> {
    json_with(StatusCode::OK, answer)
}

/// A JSON-RPC answer with another status.
pub(super) fn json_with(status: StatusCode, answer: Bytes) -> Response<Body> {
    typed(status, "application/json", answer.into())
}

/// A notification or response was taken in.
pub(super) fn accepted() -> Response<Body> {
    bare(StatusCode::ACCEPTED)
}

/// A status without a body.
pub(super) fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A stream of events that nobody on the way may hold back.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = typed(StatusCode::OK, "text/event-stream", body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// A body of some type.
pub(super) fn typed(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
