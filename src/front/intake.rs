//! Bodies of requests: up to their limit, in their time, as far as there is room.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::body::Body;
use super::endpoint::Endpoint;
use super::peer::Peer;
use super::refuse::{Turned, refuse};
use crate::memory::{Held, SMALL};
use crate::metrics::Rejection;
use crate::wire::Code;

/// How often a slow body is looked at.
const LOOKS: u32 = 6;
/// Bytes a second that a body must bring at least.
const SLOWEST: u64 = 1 << 10;

/// A body that is being read. Waiting for more of it may be given up and taken up again.
struct Intake<'p> {
    body: Incoming,
    peer: &'p Peer,
    limit: usize,
    /// Most are one piece, which is taken as it is.
    first: Bytes,
    more: BytesMut,
    held: Option<Held>,
}

/// Why a body was not read to its end.
enum Broken {
    TooLarge,
    NoRoom,
    Cut,
}

impl Intake<'_> {
    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    async fn whole(&mut self) -> Result<(), Broken> {
        while let Some(frame) = self.body.frame().await {
            self.peer.stir();
            let Ok(data) = frame.map_err(|_| Broken::Cut)?.into_data() else { continue };
            let len = self.len() + data.len();
            if len > self.limit {
                return Err(Broken::TooLarge);
            }
            // A buffer grows in doubles.
            let room = if len <= SMALL { len } else { len.next_power_of_two().min(self.limit) };
            if !self.peer.memory().account(&mut self.held, room) {
                return Err(Broken::NoRoom);
            }
            if self.len() == 0 {
                self.first = data;
                continue;
            }
            if self.more.is_empty() {
                self.more.extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.more.extend_from_slice(&data);
        }
        Ok(())
    }
}

impl Endpoint {
    /// The whole body, and what it holds of the memory for bodies. Over HTTP/1 nothing can follow a body that is not
    /// read to its end.
    pub(super) async fn read(&self, body: Incoming, peer: &Peer) -> Result<(Bytes, Option<Held>), Turned> {
        self.take_in(body, peer).await.map_err(|Turned(why, mut response)| {
            if !peer.is_two() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Turned(why, response)
        })
    }

    async fn take_in(&self, body: Incoming, peer: &Peer) -> Result<(Bytes, Option<Held>), Turned> {
        let limits = self.fleet.limits();
        let limit = limits.request_body;
        if peer.memory().is_full() {
            return Err(no_room());
        }
        // A little too much is read all the same: a client that is cut while it sends may never see the refusal.
        if body.size_hint().lower() > 2 * limit as u64 {
            return Err(too_large(limit));
        }
        let _reading = peer.read();
        let (first, more) = (Bytes::new(), BytesMut::new());
        let mut intake = Intake { body, peer, limit, first, more, held: None };
        let step = limits.body_timeout / LOOKS;
        for look in 1..=LOOKS {
            match self.clock.within(step, intake.whole()).await {
                Ok(Ok(())) => {
                    let Intake { first, more, held, .. } = intake;
                    return Ok((if more.is_empty() { first } else { more.freeze() }, held));
                }
                Ok(Err(Broken::TooLarge)) => return Err(too_large(limit)),
                Ok(Err(Broken::NoRoom)) => return Err(no_room()),
                Ok(Err(Broken::Cut)) => {
                    let text = "the body ended early, or is not framed as its head says";
                    return Err(refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::Parse, text));
                }
                Err(_) if (intake.len() as u64) < SLOWEST * (step * look).as_secs().max(1) => break,
                Err(_) => {}
            }
        }
        let text = format!(
            "the body came slower than {SLOWEST} bytes a second, or took longer than {:?}",
            limits.body_timeout
        );
        Err(refuse(Rejection::TooSlow, StatusCode::REQUEST_TIMEOUT, Code::InvalidRequest, &text))
    }
}

fn too_large(limit: usize) -> Turned {
    let text = format!("the message is larger than {limit} bytes, the limit");
    refuse(Rejection::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidRequest, &text)
}

fn no_room() -> Turned {
    later(Rejection::Memory, "too many large messages are on their way here; try again in a second")
}

/// There is no room now.
pub(super) fn later(why: Rejection, text: &str) -> Turned {
    let Turned(why, mut response) = refuse(why, StatusCode::SERVICE_UNAVAILABLE, Code::Internal, text);
    come_again(&mut response);
    Turned(why, response)
}

/// Says when.
pub(super) fn come_again(response: &mut Response<Body>) {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
}
