//! Connections in, requests to whoever serves them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::Body;
use super::peer::Peer;
use super::tls::Tls;
use crate::config::Limits;
use crate::memory::Memory;
use crate::metrics::{Closed, Metrics};

/// Answers requests.
pub trait Serve: Send + Sync + 'static {
    /// Answers one request of `peer`; whatever is wrong with it is an answer too.
    fn serve(
        &self,
        request: Request<Incoming>,
        peer: &Arc<Peer>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A listener and the connections that came of it.
#[derive(Debug)]
pub struct Server {
    /// No more connections are taken, and those there are end after what they are doing.
    pub closing: CancellationToken,
    /// They end now.
    pub ended: CancellationToken,
    pub(super) connections: TaskTracker,
    /// The streams of those that speak HTTP/2.
    pub(super) streams: TaskTracker,
    /// Where connections run, in turn; on the thread that takes them where there are none.
    runtimes: Vec<Handle>,
    turn: AtomicUsize,
    /// Most connections.
    most: usize,
    pub(super) header_time: Duration,
    pub(super) write_time: Duration,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) memory: Arc<Memory>,
}

/// How long accepting rests when the machine is out of file descriptors.
const REST: Duration = Duration::from_millis(100);

impl Server {
    /// A server whose connections run on `runtimes` in turn, or where they are taken if there are none. What is held for
    /// them counts in `memory`.
    pub fn new(
        runtimes: Vec<Handle>,
        limits: &Limits,
        metrics: Arc<Metrics>,
        memory: Arc<Memory>,
        tls: Option<Arc<Tls>>,
    ) -> Self {
        Self {
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            connections: TaskTracker::new(),
            streams: TaskTracker::new(),
            runtimes,
            turn: AtomicUsize::new(0),
            most: limits.client_connections,
            header_time: limits.header_timeout,
            write_time: limits.write_timeout,
            tls,
            metrics,
            memory,
        }
    }

    /// Takes connections until `closing`, then waits until the last one has ended.
    pub async fn run<S: Serve>(self: Arc<Self>, listener: TcpListener, service: Arc<S>) {
        loop {
            let accepted = tokio::select! {
                () = self.closing.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                // Closed at once: one that waits unseen would look to its client like a server that hangs.
                Ok(_) if self.connections.len() >= self.most => self.metrics.closed(Closed::Full),
                Ok((socket, _)) => self.take(socket, service.clone()),
                Err(error) if is_theirs(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connections can be taken for a moment");
                    sleep(REST).await;
                }
            }
        }
        drop(listener);
        self.drained().await;
    }

    fn take<S: Serve>(self: &Arc<Self>, socket: TcpStream, service: Arc<S>) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(self.runtimes.len());
        let Some(runtime) = turn.and_then(|turn| self.runtimes.get(turn)) else {
            self.connections.spawn(self.clone().connection(socket, service));
            return;
        };
        // It was registered with the runtime of this thread; a socket that cannot be moved is as good as closed.
        let Ok(socket) = socket.into_std() else { return };
        let server = self.clone();
        let connection = async move {
            if let Ok(socket) = TcpStream::from_std(socket) {
                server.connection(socket, service).await;
            }
        };
        self.connections.spawn_on(connection, runtime);
    }

    /// Waits, after `closing`, until the last connection has ended.
    pub async fn drained(&self) {
        self.connections.close();
        self.connections.wait().await;
        self.streams.close();
        self.streams.wait().await;
    }
}

/// Errors of accepting that concern one connection alone.
fn is_theirs(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
