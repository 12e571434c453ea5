//! One client's connection, from its first byte to its last.

use std::error::Error;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::body::Body;
use super::peer::Peer;
use super::refuse::{Turned, refuse};
use super::sent::{Sent, Streams};
use super::serve::{Serve, Server};
use super::socket::{Socket, Stream};
use super::spoken::{HEADERS, Spoken, begins_with_two};
use crate::metrics::{Closed, Rejection};
use crate::wire::Code;

/// Lines of headers; hyper refuses more of HTTP/1 by itself.
const LINES: usize = 100;
/// The target of a request, in bytes.
const TARGET: usize = 8 << 10;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// A connection without requests is kept for so many times the time that a head may take: people think between calls, and
/// a client that takes up a connection in the moment of its end loses its call.
const IDLE: u32 = 6;
/// How often a connection that ends is looked at: seldom where it is busy.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: Duration = Duration::from_millis(400);

impl Server {
    pub(super) async fn connection<S: Serve>(self: Arc<Self>, socket: TcpStream, service: Arc<S>) {
        let _counted = self.metrics.connection();
        drop(socket.set_nodelay(true)); // without it answers are late, not wrong
        let Some((stream, two)) = self.greeted(socket).await else { return };
        let peer = Peer::new(self.memory.clone(), two);
        let socket = Socket::new(stream, peer.clone(), self.write_time);
        let line = Arc::new(Line { server: self.clone(), service, peer: peer.clone() });
        let spoken =
            if two { Spoken::two(socket, line, self.streams_of(&peer)) } else { Spoken::one(socket, line) };
        let mut connection = pin!(spoken);
        let mut closing = pin!(self.closing.cancelled());
        let mut look = pin!(sleep(self.header_time));
        // One timer for the connection rather than one for each request: what comes after the first is closed a little late.
        let (mut seen, mut begun, mut idle) = (0, false, 0);
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended.unwrap_or_else(|error| self.broke(&peer, &error)),
                () = closing.as_mut() => break,
                () = look.as_mut() => {
                    let is_still = peer.alive() == 0 && peer.moved() == seen;
                    if peer.taken() == 0 || (is_still && begun && peer.has_begun()) {
                        return self.metrics.closed(Closed::Silent);
                    }
                    idle = if is_still { idle + 1 } else { 0 };
                    if idle >= IDLE {
                        break;
                    }
                    (seen, begun) = (peer.moved(), peer.has_begun());
                    look.as_mut().reset(Instant::now() + self.header_time);
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        // An idle client may be saying something just now; at the end of the process nobody waits for that.
        let enough = if self.closing.is_cancelled() { 2 } else { 20 };
        let (mut still, mut pause) = (0, LOOK);
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended.unwrap_or_else(|error| self.broke(&peer, &error)),
                () = self.ended.cancelled() => return,
                () = sleep(pause) => {
                    // More than one look: what has just been answered is still on its way.
                    let is_still = peer.alive() == 0 && !peer.is_stalled();
                    (still, pause) = if is_still { (still + 1, LOOK) } else { (0, LOOKS.min(2 * pause)) };
                    if still >= enough {
                        return;
                    }
                }
            }
        }
    }

    /// The connection once its client has said something, and whether that is HTTP/2. Nothing else limits the wait for
    /// the first bytes.
    async fn greeted(&self, socket: TcpStream) -> Option<(Stream, bool)> {
        let why = match &self.tls {
            None => match self.soon(self.header_time, begins_with_two(&socket)).await? {
                Ok(two) => return Some((Stream::Plain(socket), two)),
                Err(_) => Closed::Silent,
            },
            Some(tls) => {
                // A handshake needs much room, and only for a moment.
                match Box::pin(self.soon(HANDSHAKE.min(self.header_time), tls.accept(socket))).await? {
                    Ok(Ok(stream)) => {
                        let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                        return Some((Stream::Tls(Box::new(stream)), two));
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "no TLS with a client");
                        Closed::Handshake
                    }
                    Err(_) => Closed::Handshake,
                }
            }
        };
        self.metrics.closed(why);
        None
    }

    /// What `work` gives within `limit`; `None` where the server closes before.
    async fn soon<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<Result<T, Elapsed>> {
        self.closing.run_until_cancelled(timeout(limit, work)).await
    }

    /// What runs the streams of an HTTP/2 connection.
    fn streams_of(&self, peer: &Arc<Peer>) -> Streams {
        let (tasks, metrics) = (self.streams.clone(), self.metrics.clone());
        Streams { peer: peer.clone(), tasks, limit: self.write_time, metrics }
    }

    fn broke(&self, peer: &Peer, error: &hyper::Error) {
        tracing::debug!(%error, "a connection broke");
        let theirs = |error: &hyper::Error| {
            // Of ours that breaks off it is told where it does.
            let went =
                error.is_incomplete_message() || error.is_closed() || error.is_canceled() || error.is_user();
            match (error.is_timeout(), went, error.is_parse()) {
                (true, ..) => Some(Closed::Silent),
                (_, true, _) => None,
                (_, _, true) => Some(Closed::Protocol),
                // Of HTTP/2 all that is known is whether the socket broke.
                (..) => (!ends_in_io(error)).then_some(Closed::Protocol),
            }
        };
        let why = peer.fault().or_else(|| theirs(error));
        if let Some(why) = why {
            self.metrics.closed(why);
        }
    }
}

fn ends_in_io(error: &hyper::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// What answers the requests of one connection.
pub(super) struct Line<S> {
    server: Arc<Server>,
    service: Arc<S>,
    peer: Arc<Peer>,
}

impl<S: Serve> Line<S> {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Sent> {
        let alive = self.peer.take();
        let response = match self.judge(&request) {
            Ok(()) => {
                let mut serving = pin!(self.service.serve(request, &self.peer));
                // One request's bug must not end what else goes over this connection.
                poll_fn(|cx| {
                    let polled = catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(cx)));
                    polled.unwrap_or_else(|_| Poll::Ready(self.panicked()))
                })
                .await
            }
            Err(Turned(why, response)) => {
                self.server.metrics.rejected(why);
                *response
            }
        };
        response.map(|body| Sent::new(body, alive))
    }

    /// What is wrong with a request as HTTP.
    fn judge(&self, request: &Request<Incoming>) -> Result<(), Turned> {
        if self.peer.is_doubtful() {
            let text = "a head says twice where its body ends";
            let Turned(why, mut response) =
                refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::InvalidRequest, text);
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Err(Turned(why, response));
        }
        let too_long = |status, what: &str| {
            let text = format!("{what}, the limit");
            let Turned(why, mut response) = refuse(Rejection::TooLarge, status, Code::InvalidRequest, &text);
            if request.version() < Version::HTTP_2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Err(Turned(why, response))
        };
        if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > TARGET) {
            return too_long(StatusCode::URI_TOO_LONG, &format!("the target is longer than {TARGET} bytes"));
        }
        let headers = request.headers();
        let size =
            |(name, value): (&hyper::header::HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
        if headers.len() > LINES || headers.iter().map(size).sum::<usize>() > HEADERS {
            let what = format!("the headers are more than {LINES} lines or {HEADERS} bytes");
            return too_long(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &what);
        }
        Ok(())
    }

    fn panicked(&self) -> Response<Body> {
        tracing::error!("a request panicked: this is a bug; its client is told, and nothing else is touched");
        self.server.metrics.panicked();
        let text = "this request met a bug of ours; it may or may not have taken effect";
        *refuse(Rejection::Bug, StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, text).1
    }
}
