//! The bytes of one client's connection, with TLS or without.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;

use super::framing::Framing;
use super::peer::Peer;
use crate::metrics::Closed;

/// What the bytes go through.
#[derive(Debug)]
pub(super) enum Stream {
    /// As they are.
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A client's connection: closes where the client does not read what it is sent, or sends nothing but noise.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    peer: Arc<Peer>,
    framing: Framing,
    /// Bytes since something last moved, and how much had moved then.
    quiet: (usize, u64),
    stall: Stall,
}

/// More bytes than this without a request, a piece of a body or of an answer are a flood of frames that say nothing.
/// Window updates for a download of some GiB are fewer.
const NOISE: usize = 4 << 20;

impl Socket {
    /// Closes where nothing is read for `limit`.
    pub(super) fn new(stream: Stream, peer: Arc<Peer>, limit: Duration) -> Self {
        let stall = Stall { limit, since: None, sent: 0, timer: None };
        Self { stream, peer, framing: Framing::default(), quiet: (0, 0), stall }
    }

    /// Looks at what has come.
    fn look(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.peer.is_two() {
            if self.framing.doubtful(bytes) {
                self.peer.set_doubtful();
            }
            if !bytes.is_empty() && self.peer.alive() == 0 {
                self.peer.begin();
            }
        }
        let moved = self.peer.moved();
        if self.quiet.1 != moved {
            self.quiet = (0, moved);
        }
        self.quiet.0 += bytes.len();
        if self.quiet.0 <= NOISE {
            return Ok(());
        }
        self.peer.blame(Closed::Flood);
        Err(io::Error::other("nothing but frames without anything in them"))
    }

    /// After a write: goes on waiting, or gives up.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(taken)) => {
                self.stall.sent += taken;
                if taken >= offered {
                    self.flows();
                }
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.stalls(cx).map(Err),
        }
    }

    /// After a flush or the end: the same.
    fn flushed(&mut self, cx: &mut Context<'_>, flushed: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        match flushed {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => self.stalls(cx).map(Err),
        }
    }

    fn flows(&mut self) {
        if self.stall.since.take().is_some() {
            self.peer.set_stalled(false);
        }
    }

    fn stalls(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.peer.set_stalled(true);
        ready!(self.stall.poll(cx));
        self.peer.blame(Closed::Unread);
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client does not read what it is sent"))
    }
}

/// A client that does not take what it is sent. One timer at most, however often writes wait: it is only set anew when it
/// has run out.
#[derive(Debug)]
struct Stall {
    limit: Duration,
    /// Since when something waits, and what has been taken since.
    since: Option<Instant>,
    sent: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

/// Bytes a second that a client must take at least.
const SLOWEST: usize = 1 << 10;

impl Stall {
    /// Ready once it has not taken enough for too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let since = *self.since.get_or_insert_with(|| {
                self.sent = 0;
                Instant::now()
            });
            let due = since + self.limit;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= due {
                let least = SLOWEST * usize::try_from(self.limit.as_secs()).unwrap_or(usize::MAX).max(1);
                if self.sent < least {
                    return Poll::Ready(());
                }
                self.since = None;
                timer.as_mut().reset(Instant::now() + self.limit);
            } else {
                timer.as_mut().reset(due); // it was set for an earlier wait
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        Poll::Ready(this.look(buffer.filled().get(before..).unwrap_or_default()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        this.written(cx, bytes.len(), written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        };
        this.written(cx, pieces.iter().map(|piece| piece.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        this.flushed(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        };
        this.flushed(cx, ended)
    }
}
