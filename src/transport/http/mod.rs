//! A server reached over streamable HTTP (specification, `basic/transports`), or over the older HTTP+SSE, whose requests
//! are made of the same parts.
//!
//! A call over streamable HTTP costs no task and no channel of ours: its response is polled inside its [`Exchange`], and its connection is
//! free for others once its body is read to the end.

mod asking;
mod body;
mod connector;
#[cfg(test)]
mod dns_tests;
mod events;
mod exchange;
mod head;
mod http1;
mod idle;
mod judge;
mod lease;
mod pool;
#[cfg(test)]
mod pool_tests;
mod sse;
#[cfg(test)]
mod sse_tests;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;
mod whole;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::Uri;
use hyper::header::HeaderValue;
use rustls::ClientConfig;
use tokio::sync::OnceCell;

pub(super) use self::exchange::Exchange;
pub(super) use self::sse::{Posted, Sse};
pub(super) use self::stream::Stream;

use self::asking::Asking;
use self::body::Body;
use self::connector::Connector;
use self::head::{Head, What};
use self::judge::{Response, Verdict};
use self::lease::Lease;
use self::pool::Pool;
use self::tasks::Tasks;
use self::whole::{Came, Whole};
use super::tally::Tally;
use super::text::Secrets;
use super::{Failure, Sizes};
use crate::config;
use crate::mcp::{Letter, Revision};
use crate::memory::Memory;

/// Redirects followed for one message.
const HOPS: u8 = 3;
/// How long the server may take to delete our session.
const GOODBYE: Duration = Duration::from_secs(2);
/// The largest body of an error that is looked at.
const ERROR_BODY: usize = 1 << 20;

/// What a link over HTTP is made of; calls in flight share it.
#[derive(Debug)]
pub(super) struct Http {
    pool: Arc<Pool>,
    tasks: Tasks,
    head: ArcSwap<Head>,
    sizes: Sizes,
    secrets: ArcSwap<Secrets>,
    pub(super) tally: Tally,
    closed: OnceCell<()>,
    /// The server has given us a stream before.
    streamed: AtomicBool,
    /// Where the last stream ended.
    last_event: Mutex<Option<String>>,
}

impl Http {
    pub(super) fn new(
        http: &config::Http,
        secrets: &[String],
        tls: ClientConfig,
        sizes: Sizes,
        memory: &Arc<Memory>,
    ) -> Self {
        let headers = http.headers.iter().filter_map(|(_, value)| value.to_str().ok());
        let secrets = headers.chain(query_of(&http.url)).chain(secrets.iter().map(String::as_str));
        let tasks = Tasks::default();
        Self {
            pool: Arc::new(Pool::new(Connector::new(&http.url, tls), tasks.clone(), memory.clone())),
            tasks,
            head: ArcSwap::from_pointee(Head::new(http)),
            sizes,
            secrets: ArcSwap::from_pointee(Secrets::new(secrets)),
            tally: Tally::default(),
            closed: OnceCell::new(),
            streamed: AtomicBool::new(false),
            last_event: Mutex::new(None),
        }
    }

    pub(super) fn request(self: &Arc<Self>, id: u64, letter: Letter) -> Result<Exchange, Failure> {
        if self.is_cut() {
            return Err(Failure::Unreachable(CLOSED.into()));
        }
        Ok(Exchange::new(Arc::clone(self), id, letter))
    }

    /// Posts what has no answer.
    pub(super) async fn send(&self, text: Bytes) -> Result<(), Failure> {
        let sending = async {
            let (what, mut hops) = (What::Post(Letter::plain(text)), 0);
            loop {
                let head = self.head.load_full();
                // Saying it twice is the same as saying it once.
                let response = Asking::repeatable(true).response(self, &head, &what).await?;
                match head.judge(&response) {
                    Verdict::Elsewhere(uri) => self.follow(&uri, &mut hops, response)?,
                    Verdict::Error(code) => return Err(self.status(code, response.body).await),
                    Verdict::Refused(failure) if !response.status.is_success() => {
                        self.leave(response.body);
                        return Err(failure);
                    }
                    // It is taken, whatever stands in a body that nobody reads.
                    Verdict::Refused(_) | Verdict::Json | Verdict::Events | Verdict::Nothing => {
                        self.leave(response.body);
                        return Ok(());
                    }
                }
            }
        };
        sending.await.map_err(|failure| self.told(failure))
    }

    pub(super) fn agree(&self, revision: Revision) {
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
            self.pool.cut.set(()).ok(); // set before, where a first close was given up halfway
            let (head, spared) = (self.head.load_full(), self.pool.take_own());
            self.tasks.abort_but(spared.as_ref().and_then(Lease::task));
            if head.has_session {
                // Whether the server keeps the session is its own affair: we will not use it.
                let mut asking = Asking::last(spared);
                let told = asking.response(self, &head, &What::Delete);
                let told = tokio::time::timeout(GOODBYE, told).await;
                tracing::debug!(done = told.is_ok_and(|answer| answer.is_ok()), "session deleted");
            }
            self.tasks.end().await;
            self.pool.clear();
        };
        self.closed.get_or_init(|| goodbye).await;
    }

    fn is_cut(&self) -> bool {
        self.pool.is_cut()
    }

    /// A failure of a call; once the link is closed, that is why.
    fn told(&self, failure: Failure) -> Failure {
        if self.is_cut() { Failure::Cut(CLOSED.into()) } else { failure }
    }

    /// Goes to where the server redirects us, for as long as the link lives: it is the same server.
    fn follow(&self, uri: &Uri, hops: &mut u8, response: Response<Body>) -> Result<(), Failure> {
        *hops += 1;
        let code = response.status.as_u16();
        self.leave(response.body);
        if *hops > HOPS {
            return Err(Failure::Status { code, snippet: "redirects in a circle".into() });
        }
        self.head.rcu(|head| head.at(uri));
        Ok(())
    }

    /// Leaves a body that nobody wants.
    fn leave(&self, mut body: Body) {
        if !body.ends_now(&self.pool) {
            self.tasks.start(body::drain(body, Arc::clone(&self.pool)));
        }
    }

    /// An error status whose body is no answer.
    async fn status(&self, code: u16, body: Body) -> Failure {
        let text = match Whole::new(body, ERROR_BODY).read(&self.pool, usize::MAX).await {
            Ok(Came::Whole(text) | Came::Start(text)) => text,
            Err(_) => Bytes::new(),
        };
        Failure::Status { code, snippet: self.secrets.load().snippet(&text) }
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

/// The values in a query: any of them may be a secret.
fn query_of(uri: &Uri) -> impl Iterator<Item = &str> {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value))
}

const CLOSED: &str = "we closed the connection";
