//! The answer to a request without a session: told on its own connection and kept nowhere, so whoever hangs up has
//! cancelled (specification of 2026-07-28, `basic/transports`).

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use memchr::memmem::Finder;
use tokio::time::{Instant, Sleep, sleep};

use super::accept::Accepts;
use super::body::Body;
use super::modern::status;
use super::peer::Place;
use super::reply::{KEEP_ALIVE, events, json_with};
use crate::clock::Clock;
use crate::metrics::{Metrics, StreamGuard};
use crate::relay::{Call, Step};
use crate::session::Session;
use crate::wire::{self, members};

/// How long the status waits for what will be told first: a refusal has one of its own, and after the first byte it is
/// too late for it. Clients and middle boxes want to see something within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A call whose client is there.
#[derive(Debug)]
pub(super) struct Direct {
    call: Call,
    session: Arc<Session>,
    id: Bytes,
    answered: bool,
    _place: Place,
}

impl Direct {
    /// The call of `session`'s request with the raw id `id`.
    pub(super) fn new(call: Call, session: Arc<Session>, id: Bytes, place: Place) -> Self {
        Self { call, session, id, answered: false, _place: place }
    }

    /// Answers with JSON where the answer comes first, with events otherwise.
    pub(super) async fn answer(
        mut self,
        accepts: Accepts,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Response<Body> {
        if !accepts.events {
            // It takes no notifications.
            return loop {
                if let Told::Last(answer) = self.next().await {
                    break answer.map_or_else(no_answer, |answer| whole(accepts, answer));
                }
            };
        }
        let first = match clock.within(PATIENCE, self.next()).await {
            Ok(Told::Last(Some(answer))) => return whole(accepts, answer),
            Ok(Told::Last(None)) => return no_answer(),
            Ok(Told::Aside(message)) => wire::frame(&message),
            Err(_) => wire::comment(),
        };
        let quiet = Box::pin(sleep(KEEP_ALIVE));
        let telling = Telling { first: Some(first), direct: self, quiet, _stream: metrics.stream() };
        events(Body::Telling(Box::new(telling)))
    }

    async fn next(&mut self) -> Told {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Told> {
        loop {
            match ready!(self.call.poll_step(cx)) {
                Step::Aside(message) => return Poll::Ready(Told::Aside(message)),
                Step::Answer(answer) => {
                    self.answered = true;
                    return Poll::Ready(Told::Last(answer));
                }
                // Nobody is asked on such a stream, there are no batches, and answers come whole.
                Step::Asked(_) | Step::Withdrawn(_) | Step::Part(_) | Step::Piece(_) => {
                    tracing::debug!("a step that has no place in an answer without a session");
                }
            }
        }
    }
}

impl Drop for Direct {
    /// The client has hung up. The call, dropped after this, tells its server so.
    fn drop(&mut self) {
        if !self.answered {
            self.session.cancel(&self.id);
        }
    }
}

/// What a call tells its client.
enum Told {
    Aside(Bytes),
    Last(Option<Bytes>),
}

/// What a call tells, as a body that ends with its answer.
#[derive(Debug)]
pub struct Telling {
    first: Option<Bytes>,
    direct: Direct,
    quiet: Pin<Box<Sleep>>,
    _stream: StreamGuard,
}

impl Telling {
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.direct.answered {
            return Poll::Ready(None);
        }
        let frame = match self.direct.poll_next(cx) {
            Poll::Ready(Told::Aside(message)) => Some(wire::frame(&message)),
            Poll::Ready(Told::Last(answer)) => answer.map(|answer| wire::frame(&answer)),
            Poll::Pending if self.quiet.as_mut().poll(cx).is_ready() => Some(wire::comment()),
            Poll::Pending => return Poll::Pending,
        };
        self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(frame)
    }
}

/// An answer that came first: a refusal with its own status, which only JSON can have.
pub(super) fn whole(accepts: Accepts, answer: Bytes) -> Response<Body> {
    let status = status_of(&answer);
    if status == StatusCode::OK && !accepts.json {
        return events(wire::frame(&answer).into());
    }
    json_with(status, answer)
}

/// A call that was cancelled has none, and its client is not there.
fn no_answer() -> Response<Body> {
    events(Body::empty())
}

/// The status of an answer, be it ours or a server's. Long results are not read for it.
fn status_of(answer: &[u8]) -> StatusCode {
    /// What all codes with a status of their own begin with. Made once: every answer is searched.
    static CODE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"-32"));
    if CODE.find(answer).is_none() {
        return StatusCode::OK;
    }
    code(answer).map_or(StatusCode::OK, status)
}

fn code(answer: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(answer).ok()?;
    let [error] = members(text, ["error"]).ok()?;
    let error = text.get(error?)?;
    let [code] = members(error, ["code"]).ok()?;
    error.get(code?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_errors_have_a_status() {
        let error = |code: i32| format!(r#"{{"error":{{"message":"-32601","code":{code}}},"id":1}}"#);
        for (code, status) in [
            (-32700, 400),
            (-32600, 400),
            (-32601, 404),
            (-32602, 200),
            (-32603, 200),
            (-32020, 400),
            (-32021, 400),
            (-32022, 400),
            (-32023, 200),
            (-32002, 200),
            (7, 200),
        ] {
            assert_eq!(status_of(error(code).as_bytes()), status, "{code}");
        }
        assert_eq!(status_of(br#"{"id":1,"result":{"error":{"code":-32601}}}"#), 200);
        assert_eq!(status_of(br#"{"id":1,"result":{"n":-32.5}}"#), 200);
    }
}
