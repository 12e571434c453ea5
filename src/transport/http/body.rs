//! Bodies of responses, and the connections that they come through. All of it is cancel-safe.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use super::CLOSED;
use super::lease::Lease;
use super::pool::Pool;
use crate::transport::Failure;
use crate::transport::text::reason;

/// The body of a response, and the connection that it comes through: free for others once it is read to its end, and
/// closed if it is dropped before.
#[derive(Debug)]
pub(super) struct Body {
    source: Source,
    lease: Option<Lease>,
}

/// Where a body's bytes come from.
#[derive(Debug)]
pub(super) enum Source {
    /// The connection itself, over HTTP/1.1.
    Lease,
    Http2(Incoming),
}

impl Body {
    pub(super) fn new(source: Source, lease: Lease) -> Self {
        Self { source, lease: Some(lease) }
    }

    /// Whether the end is there already; the connection is free then. Swallows a little that is there before it.
    pub(super) fn ends_now(&mut self, pool: &Arc<Pool>) -> bool {
        const FEW: usize = 4;
        for _ in 0..FEW {
            match self.poll_chunk(&mut Context::from_waker(Waker::noop()), pool) {
                Poll::Ready(Ok(Some(_))) => {}
                Poll::Ready(Ok(None)) => return true,
                Poll::Ready(Err(_)) | Poll::Pending => return false,
            }
        }
        false
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn chunk(&mut self, pool: &Arc<Pool>) -> Result<Option<Bytes>, Failure> {
        let mut cut = pin!(pool.cut.wait());
        poll_fn(|cx| match self.poll_chunk(cx, pool) {
            Poll::Pending => cut.as_mut().poll(cx).map(|()| Err(Failure::Cut(CLOSED.into()))),
            chunk @ Poll::Ready(_) => chunk,
        })
        .await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>, pool: &Arc<Pool>) -> Poll<Result<Option<Bytes>, Failure>> {
        let Some(lease) = &mut self.lease else { return Poll::Ready(Ok(None)) };
        let chunk = match &mut self.source {
            Source::Lease => ready!(lease.poll_chunk(cx))?,
            Source::Http2(incoming) => loop {
                let Some(frame) = ready!(Pin::new(&mut *incoming).poll_frame(cx)) else { break None };
                let frame = frame.map_err(|error| Failure::Cut(reason(&error)))?;
                if let Ok(data) = frame.into_data() {
                    break Some(data);
                }
            },
        };
        if chunk.is_none()
            && let Some(lease) = self.lease.take()
        {
            pool.put(lease);
        }
        Poll::Ready(Ok(chunk))
    }

    /// How many bytes are still to come, at least.
    pub(super) fn announced(&self) -> u64 {
        match (&self.source, &self.lease) {
            (Source::Http2(incoming), _) => incoming.size_hint().lower(),
            (Source::Lease, lease) => lease.as_ref().map_or(0, Lease::announced),
        }
    }
}

/// Reads what is left of a body that nobody wants, so that its connection can be used again.
pub(super) async fn drain(mut body: Body, pool: Arc<Pool>) {
    /// More than this is dearer than another connection.
    const MOST: usize = 64 << 10;
    const LONGEST: Duration = Duration::from_secs(1);
    let read = async {
        let mut left = MOST;
        while let Ok(Some(chunk)) = body.chunk(&pool).await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    if tokio::time::timeout(LONGEST, read).await.is_err() {
        tracing::trace!("a body did not end");
    }
}
