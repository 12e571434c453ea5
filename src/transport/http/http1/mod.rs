//! One connection over HTTP/1.1, driven by whoever waits for its response: no task, no channel and no wake-up between
//! the call and its bytes. hyper's client has all three, and a map of all headers; they cost more than the rest of a call.

mod framing;
mod response;

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use hyper_rustls::MaybeHttpsStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use self::framing::{Framing, Piece};
use self::response::Start;
use super::connector::Io;
use super::head::{Head, What};
use super::judge::Response;
use super::lease::Broken;
use crate::transport::Failure;
use crate::transport::text::reason;

/// What a connection's bytes go through.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

/// How much is read at once, at first and where the server sends a lot.
const STEP: (usize, usize) = (8 << 10, 256 << 10);
/// The longest head of a response, in bytes.
const HEAD: usize = 64 << 10;

/// One connection: one request at a time.
pub(super) struct Http1 {
    io: Box<dyn Stream>,
    /// The request's head and body, and how much of both is written; `None` once all is.
    head: Vec<u8>,
    body: Bytes,
    written: Option<usize>,
    /// What has come and was not looked at.
    came: BytesMut,
    /// How far the end of a head was looked for in it.
    looked: usize,
    step: usize,
    /// What is still to come of a response; `None` while its head is.
    rest: Option<Framing>,
    /// It carries no other request after this one.
    last: bool,
}

impl Http1 {
    pub(super) fn new(io: Io) -> Self {
        match io {
            MaybeHttpsStream::Http(tcp) => Self::over(Box::new(tcp.into_inner())),
            MaybeHttpsStream::Https(tls) => Self::over(Box::new(tls.into_inner())),
        }
    }

    pub(super) fn over(io: Box<dyn Stream>) -> Self {
        Self {
            io,
            head: Vec::new(),
            body: Bytes::new(),
            written: None,
            came: BytesMut::new(),
            looked: 0,
            step: STEP.0,
            rest: Some(Framing::NOTHING),
            last: false,
        }
    }

    /// Whether it can carry another request, as far as is known: the last response was read to its end.
    pub(super) fn is_free(&self) -> bool {
        let read = self.rest.as_ref().is_some_and(Framing::is_over) && self.came.is_empty();
        read && self.written.is_none() && !self.last
    }

    /// Whether it can carry another request: the server has not closed it, nor said anything unasked. Asks the system
    /// only where it has announced news.
    pub(super) fn is_ready(&mut self) -> bool {
        self.is_free() && self.poll_read(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Takes a request, to be written with the first look for its response.
    pub(super) fn begin(&mut self, head: &Head, what: &What) {
        self.head.clear();
        self.body = head.write(what, &mut self.head);
        (self.written, self.rest, self.looked, self.step) = (Some(0), None, 0, STEP.0);
    }

    /// The head of the response. Other responses may come before it, which only tell that it will come (1xx).
    pub(super) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Broken>> {
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            if self.written == Some(0) {
                return Poll::Ready(Err(Broken::unsent(Failure::Unreachable(reason(&error)))));
            }
            // It may have answered before, that it wants no more.
            (self.written, self.last) = (None, true);
        }
        loop {
            match self.start() {
                Ok(Some(start)) if start.is_interim() => {}
                Ok(Some(start)) => {
                    self.last |= start.last;
                    self.rest = Some(start.framing);
                    return Poll::Ready(Ok(start.response));
                }
                Ok(None) => match ready!(self.poll_read(cx)) {
                    Ok(0) => return Poll::Ready(Err(Broken::sent(ENDED))),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(Broken::sent(&reason(&error)))),
                },
                Err(why) => return Poll::Ready(Err(Broken::sent(why))),
            }
        }
    }

    /// The start of a response, if all of it has come.
    fn start(&mut self) -> Result<Option<Start>, &'static str> {
        let head = self.came.get(..HEAD.min(self.came.len())).unwrap_or_default();
        if !response::ends(head, self.looked) {
            self.looked = head.len();
            return if head.len() < HEAD { Ok(None) } else { Err("the head of its response is too large") };
        }
        let Some((length, start)) = Start::parse(head)? else {
            return Err("its response is no HTTP");
        };
        self.came.advance(length);
        self.looked = 0;
        Ok(Some(start))
    }

    /// How much the response's body has at least, in bytes.
    pub(super) fn announced(&self) -> u64 {
        self.rest.as_ref().map_or(0, Framing::announced)
    }

    /// The next bytes of the response's body; `None` at its end.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        let cut = |why: &str| Poll::Ready(Err(Failure::Cut(why.into())));
        // Of a request that is longer than the server wants to read before it answers.
        if let Poll::Ready(Err(_)) = self.poll_write(cx) {
            (self.written, self.last) = (None, true);
        }
        loop {
            let Some(rest) = &mut self.rest else { return cut(ENDED) };
            match rest.next(&mut self.came) {
                Ok(Piece::Data(data)) => return Poll::Ready(Ok(Some(data))),
                Ok(Piece::End) => return Poll::Ready(Ok(None)),
                Ok(Piece::More) => match ready!(self.poll_read(cx)) {
                    Ok(0) if self.rest.as_mut().is_some_and(Framing::close) => {
                        self.last = true;
                        return Poll::Ready(Ok(None));
                    }
                    Ok(0) => return cut(ENDED),
                    Ok(_) => {}
                    Err(error) => return cut(&reason(&error)),
                },
                Err(why) => return cut(why),
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // What is taken out shares the room with what comes next: a piece of its own for each read would keep more than it has.
        if self.came.capacity() - self.came.len() < self.step / 4 {
            self.came.reserve(self.step);
        }
        let read = ready!(pin!(self.io.read_buf(&mut self.came)).poll(cx))?;
        if read >= self.step / 4 {
            self.step = STEP.1.min(self.step * 2);
        }
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(written) = &mut self.written else { return Poll::Ready(Ok(())) };
        while *written < self.head.len() + self.body.len() {
            let head = self.head.get(*written..).unwrap_or_default();
            let body = self.body.get(written.saturating_sub(self.head.len())..).unwrap_or_default();
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            let some = parts.get(usize::from(head.is_empty())..).unwrap_or_default();
            match ready!(Pin::new(&mut self.io).poll_write_vectored(cx, some))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => *written += more,
            }
        }
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        (self.written, self.body) = (None, Bytes::new());
        Poll::Ready(Ok(()))
    }
}

const ENDED: &str = "the connection ended before the response did";

impl fmt::Debug for Http1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1").field("is_free", &self.is_free()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
