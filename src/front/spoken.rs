//! The HTTP that one client speaks, of either version.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::connection::Line;
use super::sent::{Sent, Streams};
use super::serve::Serve;
use super::socket::Socket;

/// Headers of a request, in bytes; over HTTP/1 hyper knows no such limit.
pub(super) const HEADERS: usize = 32 << 10;
/// What is read of a head to find out which of its limits it passes; and the most that waits to be written.
const BUFFER: usize = 96 << 10;
/// Streams of one HTTP/2 connection: hyper's own default, made visible.
const STREAMS: u32 = 200;
/// What waits in each of them to be written.
const QUEUE: usize = 64 << 10;
/// How often an HTTP/2 connection is asked whether its client still lives, and how long that may take to say so.
const PING: Duration = Duration::from_secs(30);
/// What HTTP/2 begins with, as far as nothing else does (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI ";
/// How long to wait for the rest of a [`PREFACE`]. It comes in one piece; whoever cuts it pays with this.
const PIECE: Duration = Duration::from_millis(20);

/// A connection of a client. Ours and not `hyper_util`'s, which finds the version out by reading: what it has read comes
/// again as a piece of its own, for which every connection would hold a second read buffer, and it makes room for either
/// version, of which HTTP/2 takes the most.
#[allow(clippy::large_enum_variant, reason = "nearly every connection is of the larger kind")]
pub(super) enum Spoken<S: Serve> {
    One(http1::Connection<TokioIo<Socket>, Answers<S>>),
    Two(Pin<Box<Two<S>>>),
}

type Two<S> = http2::Connection<TokioIo<Socket>, Answers<S>, Streams>;

impl<S: Serve> Spoken<S> {
    /// HTTP/1.
    pub(super) fn one(socket: Socket, line: Arc<Line<S>>) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(BUFFER);
        Self::One(http.serve_connection(TokioIo::new(socket), Answers(line)))
    }

    /// HTTP/2.
    pub(super) fn two(socket: Socket, line: Arc<Line<S>>, streams: Streams) -> Self {
        let mut http = http2::Builder::new(streams);
        http.timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEADERS).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(QUEUE)
            .keep_alive_interval(PING);
        Self::Two(Box::pin(http.serve_connection(TokioIo::new(socket), Answers(line))))
    }

    /// Takes no more requests; ends once those there are have their answers.
    pub(super) fn graceful_shutdown(self: Pin<&mut Self>) {
        match self.get_mut() {
            Self::One(connection) => Pin::new(connection).graceful_shutdown(),
            Self::Two(connection) => connection.as_mut().graceful_shutdown(),
        }
    }
}

impl<S: Serve> Future for Spoken<S> {
    type Output = Result<(), hyper::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::One(connection) => Pin::new(connection).poll(cx),
            Self::Two(connection) => connection.as_mut().poll(cx),
        }
    }
}

/// Whether the client begins with HTTP/2. Waits for its first bytes, and takes none of them.
pub(super) async fn begins_with_two(socket: &TcpStream) -> bool {
    let mut begun = [0; PREFACE.len()];
    loop {
        let Ok(len) = socket.peek(&mut begun).await else { return false };
        let same = begun.get(..len) == PREFACE.get(..len);
        if len == 0 || !same || len == PREFACE.len() {
            return same && len > 0;
        }
        sleep(PIECE).await; // there is no signal for more than is there already
    }
}

/// Answers the requests of a connection. Each answer is boxed: an idle connection holds no room for one.
pub(super) struct Answers<S>(Arc<Line<S>>);

impl<S: Serve> Service<Request<Incoming>> for Answers<S> {
    type Response = Response<Sent>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Sent>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let line = self.0.clone();
        Box::pin(async move { Ok(line.answer(request).await) })
    }
}
