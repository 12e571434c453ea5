//! The answer to one POST: JSON where the answer comes first and soon, events otherwise.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, Sleep, sleep};

use super::accept::Accepts;
use super::body::{Body, BrokenOff};
use super::intake::come_again;
use super::refuse::Turned;
use super::tail::Tail;
use crate::clock::Clock;
use crate::metrics::{Metrics, Rejection, StreamGuard};
use crate::relay::{Call, Step};
use crate::session::{Follower, Session, lone_id};
use crate::wire;

/// Until then a call may still be answered by plain JSON; after it the client sees at least headers.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a quiet stream shows that it lives: below the usual 30 to 60 s of middle boxes.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

const JSON: &str = "application/json";

/// How a request is to be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) accepts: Accepts,
    pub(super) clock: &'a Clock,
    pub(super) metrics: &'a Metrics,
}

impl Reply<'_> {
    /// An answer that is there.
    pub(super) fn now(self, answer: Bytes) -> Response<Body> {
        if self.accepts.json { json(answer) } else { lone(&answer) }
    }

    /// The answers to a batch, all of which are there.
    pub(super) fn all_now(self, mut answers: Vec<Bytes>) -> Response<Body> {
        if self.accepts.json || answers.is_empty() {
            return array(&answers);
        }
        let (feed, follower) = self.session.stream(None);
        let last = answers.pop();
        for answer in answers {
            feed.add(answer);
        }
        feed.end(last);
        answering(follower, self.metrics)
    }

    /// The answer of `call` to the request `id`.
    pub(super) async fn later(self, call: Call, id: Option<Bytes>) -> Response<Body> {
        let mut call = if self.accepts.json { call.in_pieces() } else { call };
        if !self.accepts.events {
            return loop {
                match call.step().await {
                    Step::Answer(answer) => break answer.map_or_else(accepted, json),
                    Step::Piece(first) => break passing(first, call),
                    Step::Aside(_) | Step::Asked(_) | Step::Withdrawn(_) | Step::Part(_) => {}
                }
            };
        }
        let first =
            if self.accepts.json { self.clock.within(PATIENCE, call.step()).await.ok() } else { None };
        let told = match first {
            Some(Step::Answer(Some(answer))) => return json(answer),
            // Cancelled: nothing is to be answered, and the stream ends.
            Some(Step::Answer(None)) => return events(Body::empty()),
            Some(Step::Piece(first)) => return passing(first, call),
            Some(
                Step::Aside(message) | Step::Asked(message) | Step::Withdrawn(message) | Step::Part(message),
            ) => vec![message],
            None => Vec::new(),
        };
        answering(call.keep(self.session, id.as_deref(), told), self.metrics)
    }

    /// The answers of the joined `calls`, after those there are already: one array, or events with one each. No request of
    /// a batch has the stream to itself, so a client that comes back too late hears of none.
    pub(super) async fn all(self, mut calls: Call, mut answers: Vec<Bytes>) -> Response<Body> {
        let first = match (self.accepts.json, self.accepts.events) {
            (true, true) => self.clock.within(PATIENCE, gather(&mut calls, &mut answers, true)).await.ok(),
            (_, false) => Some(gather(&mut calls, &mut answers, false).await),
            (false, true) => None,
        };
        match first {
            Some(Step::Answer(last)) => {
                answers.extend(last);
                return array(&answers);
            }
            Some(
                Step::Aside(message) | Step::Asked(message) | Step::Withdrawn(message) | Step::Part(message),
            ) => answers.push(message),
            Some(Step::Piece(_)) | None => {}
        }
        answering(calls.keep(self.session, None, answers), self.metrics)
    }
}

/// Gathers answers up to the last, or to the first aside where there is a place for it.
async fn gather(calls: &mut Call, answers: &mut Vec<Bytes>, asides: bool) -> Step {
    loop {
        match calls.step().await {
            Step::Part(answer) => answers.push(answer),
            Step::Aside(_) | Step::Asked(_) | Step::Withdrawn(_) if !asides => {}
            Step::Piece(_) => {} // the answers to a batch come whole
            step @ (Step::Aside(_) | Step::Asked(_) | Step::Withdrawn(_) | Step::Answer(_)) => return step,
        }
    }
}

/// The answers to a batch, or that it wants none.
fn array(answers: &[Bytes]) -> Response<Body> {
    if answers.is_empty() { accepted() } else { json(wire::array(answers)) }
}

/// A stream of events that ends with an answer.
#[derive(Debug)]
pub struct Answering {
    tail: Tail,
    quiet: Pin<Box<Sleep>>,
    _stream: StreamGuard,
}

impl Answering {
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let frame = match self.tail.poll_next(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending if self.quiet.as_mut().poll(cx).is_ready() => Some(wire::comment()),
            Poll::Pending => return Poll::Pending,
        };
        self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(frame)
    }
}

/// An answer that passes through as it comes.
#[derive(Debug)]
pub struct Passing {
    /// What comes first, until it is told.
    first: Option<Step>,
    call: Call,
    broken: bool,
}

impl Passing {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// Where the answer breaks off.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        loop {
            let step = match self.first.take() {
                Some(first) => first,
                None if self.broken => return Poll::Ready(None),
                None => ready!(self.call.poll_step(cx)),
            };
            match step {
                Step::Piece(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Step::Piece(None) => {
                    self.broken = true;
                    return Poll::Ready(Some(Err(BrokenOff)));
                }
                Step::Answer(_) => return Poll::Ready(None),
                // There is no place for them in it any more.
                Step::Aside(_) | Step::Asked(_) | Step::Withdrawn(_) | Step::Part(_) => {}
            }
        }
    }
}

fn passing(first: Option<Bytes>, call: Call) -> Response<Body> {
    let passing = Passing { first: Some(Step::Piece(first)), call, broken: false };
    typed(StatusCode::OK, JSON, Body::Passing(Box::new(passing)))
}

/// The rest of a call's stream, which ends with its answer.
pub(super) fn answering(follower: Follower, metrics: &Metrics) -> Response<Body> {
    let (tail, quiet) = (Tail::new(follower), Box::pin(sleep(KEEP_ALIVE)));
    events(Body::Answering(Box::new(Answering { tail, quiet, _stream: metrics.stream() })))
}

/// An answer as the only event.
pub(super) fn lone(answer: &Bytes) -> Response<Body> {
    events(wire::frame_as(&lone_id(), answer).into())
}

/// A JSON-RPC answer.
pub(super) fn json(answer: Bytes) -> Response<Body> {
    json_with(StatusCode::OK, answer)
}

/// A JSON-RPC answer with another status.
pub(super) fn json_with(status: StatusCode, answer: Bytes) -> Response<Body> {
    typed(status, JSON, answer.into())
}

/// A JSON-RPC answer that says to come again, with the status for it.
pub(super) fn busy(answer: Bytes) -> Turned {
    let mut response = json_with(StatusCode::SERVICE_UNAVAILABLE, answer);
    come_again(&mut response);
    Turned(Rejection::Busy, Box::new(response))
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
