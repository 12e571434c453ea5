//! A server reached over streamable HTTP (specification, `basic/transports`).
//!
//! A call costs no task and no channel of ours: its response is polled inside its [`Exchange`].

mod body;
mod client;
mod exchange;
mod head;
mod judge;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Response, Uri};
use hyper_util::client::legacy;
use rustls::ClientConfig;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub(super) use self::exchange::Exchange;
pub(super) use self::stream::Stream;

use self::body::Whole;
use self::client::{Client, Tasks};
use self::head::Head;
use self::judge::Verdict;
use super::tally::Tally;
use super::text::{Secrets, reason};
use super::{Failure, Sizes};
use crate::config;

/// Redirects followed for one message.
const HOPS: u8 = 3;
/// How long the server may take to delete our session.
const GOODBYE: Duration = Duration::from_secs(2);
/// The largest body of an error that is looked at.
const ERROR_BODY: usize = 1 << 20;

/// What a link over HTTP is made of; calls in flight share it.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    tasks: Tasks,
    head: ArcSwap<Head>,
    sizes: Sizes,
    secrets: Secrets,
    pub(super) tally: Tally,
    /// Ends the calls in flight.
    cut: CancellationToken,
    closed: OnceCell<()>,
    /// The server has given us a stream before.
    streamed: AtomicBool,
    /// Where the last stream ended.
    last_event: Mutex<Option<String>>,
}

impl Http {
    pub(super) fn new(http: &config::Http, tls: ClientConfig, sizes: Sizes) -> Self {
        let tasks = Tasks::default();
        Self {
            client: client::client(tls, tasks.clone()),
            tasks,
            head: ArcSwap::from_pointee(Head::new(http)),
            sizes,
            secrets: Secrets::new(http.headers.iter().filter_map(|(_, value)| value.to_str().ok())),
            tally: Tally::default(),
            cut: CancellationToken::new(),
            closed: OnceCell::new(),
            streamed: AtomicBool::new(false),
            last_event: Mutex::new(None),
        }
    }

    pub(super) fn request(self: &Arc<Self>, id: u64, text: Bytes) -> Result<Exchange, Failure> {
        if self.cut.is_cancelled() {
            return Err(Failure::Unreachable(CLOSED.into()));
        }
        Ok(Exchange::new(Arc::clone(self), id, text))
    }

    /// Posts what has no answer.
    pub(super) async fn send(&self, text: Bytes) -> Result<(), Failure> {
        let sending = async {
            let mut hops = 0;
            loop {
                let head = self.head.load_full();
                let response =
                    self.client.request(head.post(text.clone())).await.map_err(|error| unsent(&error))?;
                match head.judge(&response) {
                    Verdict::Elsewhere(uri) => self.follow(&uri, &mut hops, response)?,
                    Verdict::Refused(failure) => {
                        self.leave(response.into_body());
                        return Err(failure);
                    }
                    Verdict::Error(code) => return Err(self.status(code, response.into_body()).await),
                    Verdict::Json | Verdict::Events | Verdict::Nothing => {
                        self.leave(response.into_body());
                        return Ok(());
                    }
                }
            }
        };
        self.until_cut(sending).await
    }

    pub(super) fn agree(&self, revision: &str) {
        self.head.rcu(|head| head.with_revision(revision));
    }

    pub(super) fn has_session(&self) -> bool {
        self.head.load().has_session
    }

    fn take_session(&self, id: &HeaderValue) {
        self.head.rcu(|head| head.with_session(id));
    }

    pub(super) async fn close(&self) {
        let goodbye = async {
            self.cut.cancel();
            let head = self.head.load_full();
            if head.has_session {
                // Whether the server keeps the session is its own affair: we will not use it.
                let told = tokio::time::timeout(GOODBYE, self.client.request(head.delete())).await;
                tracing::debug!(done = told.is_ok_and(|answer| answer.is_ok()), "session deleted");
            }
            self.tasks.end().await;
        };
        self.closed.get_or_init(|| goodbye).await;
    }

    /// Runs `work` unless the link is closed first.
    async fn until_cut<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.cut.run_until_cancelled(work).await.unwrap_or_else(|| Err(Failure::Cut(CLOSED.into())))
    }

    /// Goes to where the server redirects us, for as long as the link lives: it is the same server.
    fn follow(&self, uri: &Uri, hops: &mut u8, response: Response<Incoming>) -> Result<(), Failure> {
        *hops += 1;
        let code = response.status().as_u16();
        self.leave(response.into_body());
        if *hops > HOPS {
            return Err(Failure::Status { code, snippet: "redirects in a circle".into() });
        }
        self.head.rcu(|head| head.at(uri));
        Ok(())
    }

    /// Leaves the rest of a body unread.
    fn leave(&self, body: Incoming) {
        if !hyper::body::Body::is_end_stream(&body) {
            self.tasks.start(body::drain(body));
        }
    }

    /// An error status whose body is no answer.
    async fn status(&self, code: u16, body: Incoming) -> Failure {
        let text = Whole::new(body, ERROR_BODY).read().await.unwrap_or_default();
        Failure::Status { code, snippet: self.secrets.snippet(&text) }
    }

    fn last_event(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.last_event.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_streamed(&self) -> bool {
        self.streamed.load(Ordering::Relaxed)
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

const CLOSED: &str = "we closed the connection";

/// Why no response came. A request that never reached a connection was not processed.
fn unsent(error: &legacy::Error) -> Failure {
    let why = reason(error);
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return Failure::Unreachable(why);
        }
        source = inner.source();
    }
    if error.is_connect() { Failure::Unreachable(why) } else { Failure::Cut(why) }
}
