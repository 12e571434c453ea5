//! The use of a connection for one request.

use std::pin::Pin;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use tokio::task::Id;

pub(super) type Request = hyper::Request<Full<Bytes>>;
pub(super) type Http1 = http1::SendRequest<Full<Bytes>>;
pub(super) type Http2 = http2::SendRequest<Full<Bytes>>;

/// A request on its way. It comes back with the error where it was not written.
pub(super) type Sending =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request>>> + Send + Sync>>;

/// The use of a connection for one request. Dropped with a response half read, it takes an HTTP/1.1 connection with it.
#[derive(Debug)]
pub(super) struct Lease {
    sender: Sender,
    /// What drives the connection.
    task: Id,
    /// The shard of the thread that does.
    pub(super) home: usize,
    /// It has carried nothing yet, so a request that it refuses is refused by the server.
    pub(super) fresh: bool,
}

#[derive(Debug)]
enum Sender {
    Http1(Http1),
    Http2(Http2),
}

impl Lease {
    /// Of a new connection; only for the task that drives it.
    pub(super) fn http1(sender: Http1, home: usize) -> Self {
        Self { sender: Sender::Http1(sender), task: tokio::task::id(), home, fresh: true }
    }

    /// Of a new connection; only for the task that drives it.
    pub(super) fn http2(sender: Http2, home: usize) -> Self {
        Self { sender: Sender::Http2(sender), task: tokio::task::id(), home, fresh: true }
    }

    /// The same for another request, where connections can be shared.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => {
                Some(Self { sender: Sender::Http2(sender.clone()), fresh: false, ..*self })
            }
        }
    }

    pub(super) fn task(&self) -> Id {
        self.task
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Whether it can carry a request now.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// Waits until it can carry another request; `None` where it never will.
    pub(super) async fn ready(mut self) -> Option<Self> {
        let ready = match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await,
            Sender::Http2(sender) => sender.ready().await,
        };
        ready.is_ok().then_some(self)
    }

    /// Queues the request at once.
    pub(super) fn send(&mut self, request: Request) -> Sending {
        match &mut self.sender {
            Sender::Http1(sender) => Box::pin(sender.try_send_request(request)),
            Sender::Http2(sender) => Box::pin(sender.try_send_request(request)),
        }
    }
}
