//! The use of a connection for one request.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use tokio::task::Id;

use super::body::Source;
use super::head::{Head, What};
use super::http1::Http1;
use super::judge::Response;
use crate::transport::Failure;
use crate::transport::text::reason;

pub(super) type Request = hyper::Request<Full<Bytes>>;
pub(super) type Http2 = http2::SendRequest<Full<Bytes>>;

/// A request of HTTP/2 on its way. It comes back with the error where it was not written.
type Sending =
    Pin<Box<dyn Future<Output = Result<hyper::Response<Incoming>, TrySendError<Request>>> + Send + Sync>>;

/// The use of a connection for one request. Dropped with a response half read, it takes an HTTP/1.1 connection with it.
#[derive(Debug)]
pub(super) struct Lease {
    sender: Sender,
    /// The shard of the thread whose runtime drives the connection.
    pub(super) home: usize,
    /// It has carried nothing yet, so a request that it refuses is refused by the server.
    pub(super) fresh: bool,
}

enum Sender {
    Http1(Box<Http1>),
    Http2 {
        sender: Http2,
        /// What drives the connection.
        task: Id,
        sending: Option<Sending>,
    },
}

/// Why no response came.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) failure: Failure,
    /// The server has seen nothing of the request.
    pub(super) unsent: bool,
}

impl Broken {
    pub(super) fn unsent(failure: Failure) -> Self {
        Self { failure, unsent: true }
    }

    pub(super) fn sent(why: &str) -> Self {
        Self { failure: Failure::Cut(why.into()), unsent: false }
    }
}

impl Lease {
    /// Of a new connection.
    pub(super) fn http1(connection: Http1, home: usize) -> Self {
        Self { sender: Sender::Http1(Box::new(connection)), home, fresh: true }
    }

    /// Of a new connection; only for the task that drives it.
    pub(super) fn http2(sender: Http2, home: usize) -> Self {
        Self { sender: Sender::Http2 { sender, task: tokio::task::id(), sending: None }, home, fresh: true }
    }

    /// The same for another request, where connections can be shared.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2 { sender, task, .. } => {
                let sender = Sender::Http2 { sender: sender.clone(), task: *task, sending: None };
                Some(Self { sender, fresh: false, ..*self })
            }
        }
    }

    /// The task that drives the connection, if it has one.
    pub(super) fn task(&self) -> Option<Id> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2 { task, .. } => Some(*task),
        }
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2 { .. })
    }

    /// Whether it can carry a request, as far as is known.
    pub(super) fn is_free(&self) -> bool {
        match &self.sender {
            Sender::Http1(connection) => connection.is_free(),
            Sender::Http2 { sender, .. } => !sender.is_closed(),
        }
    }

    /// Whether it can carry a request now.
    pub(super) fn is_ready(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(connection) => connection.is_ready(),
            Sender::Http2 { sender, .. } => sender.is_ready(),
        }
    }

    /// Takes a request, which is written with the first look for its response.
    pub(super) fn send(&mut self, head: &Head, what: &What) {
        match &mut self.sender {
            Sender::Http1(connection) => connection.begin(head, what),
            Sender::Http2 { sender, sending, .. } => {
                *sending = Some(Box::pin(sender.try_send_request(head.request(what))));
            }
        }
    }

    /// The response to what was sent, up to its body.
    pub(super) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<Source>, Broken>> {
        match &mut self.sender {
            Sender::Http1(connection) => {
                connection.poll_response(cx).map_ok(|response| response.map(|()| Source::Lease))
            }
            Sender::Http2 { sending: None, .. } => Poll::Pending, // nobody asks
            Sender::Http2 { sending: Some(on_its_way), .. } => {
                let response = ready!(on_its_way.as_mut().poll(cx));
                Poll::Ready(
                    response.map(|response| Response::from(response).map(Source::Http2)).map_err(broken),
                )
            }
        }
    }

    /// The next bytes of a response over HTTP/1.1; `None` at its end.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        match &mut self.sender {
            Sender::Http1(connection) => connection.poll_chunk(cx),
            Sender::Http2 { .. } => Poll::Ready(Ok(None)),
        }
    }

    /// How many bytes of it are to come, at least.
    pub(super) fn announced(&self) -> u64 {
        match &self.sender {
            Sender::Http1(connection) => connection.announced(),
            Sender::Http2 { .. } => 0,
        }
    }
}

/// A request that never reached a connection was not processed.
fn broken(error: TrySendError<Request>) -> Broken {
    let unsent = error.message().is_some();
    let error = error.into_error();
    let why = reason(&error);
    let failure = if error.is_canceled() { Failure::Unreachable(why) } else { Failure::Cut(why) };
    Broken { failure, unsent }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1(connection) => connection.fmt(f),
            Self::Http2 { sender, .. } => sender.fmt(f),
        }
    }
}
