//! Connections in, requests to whoever serves them.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::Body;

/// Answers requests.
pub trait Serve: Send + Sync + 'static {
    /// Answers one request; whatever is wrong with it is an answer too.
    fn serve(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// A listener and the connections that came of it.
#[derive(Debug)]
pub struct Server {
    http: Builder<TokioExecutor>,
    /// No more connections are taken, and those there are end after what they are doing.
    pub closing: CancellationToken,
    /// They end now.
    pub ended: CancellationToken,
    connections: TaskTracker,
    /// Where connections run, in turn; on the thread that takes them where there are none.
    runtimes: Vec<Handle>,
    turn: AtomicUsize,
}

/// How long a client may take to send headers.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Headers of a request, in bytes.
const HEADERS: usize = 32 << 10;
/// Streams of one HTTP/2 connection: hyper's own default, made visible.
const STREAMS: u32 = 200;
/// How long accepting rests when the machine is out of file descriptors.
const REST: Duration = Duration::from_millis(100);

impl Server {
    /// A server whose connections run on `runtimes` in turn, or where they are taken if there are none.
    pub fn new(runtimes: Vec<Handle>) -> Self {
        let mut http = Builder::new(TokioExecutor::new());
        http.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(2 * HEADERS);
        let headers = u32::try_from(HEADERS).unwrap_or(u32::MAX);
        http.http2().timer(TokioTimer::new()).max_header_list_size(headers).max_concurrent_streams(STREAMS);
        Self {
            http,
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            connections: TaskTracker::new(),
            runtimes,
            turn: AtomicUsize::new(0),
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
    }

    async fn connection<S: Serve>(self: Arc<Self>, socket: TcpStream, service: Arc<S>) {
        drop(socket.set_nodelay(true)); // without it answers are late, not wrong
        // The version of HTTP is told by the first bytes, and nothing else limits the wait for them.
        if timeout(HEADER_TIME, socket.readable()).await.is_err() {
            return;
        }
        let service = service_fn(move |request| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.serve(request).await) }
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(socket), service));
        // Not both at once: whatever is waited for is looked at each time the connection moves.
        tokio::select! {
            ended = connection.as_mut() => return ended.unwrap_or_else(|error| broke(&*error)),
            () = self.closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = connection.as_mut() => ended.unwrap_or_else(|error| broke(&*error)),
            () = self.ended.cancelled() => {}
        }
    }
}

fn broke(error: &(dyn std::error::Error + Send + Sync + 'static)) {
    tracing::debug!(error, "a connection broke");
}

/// Errors of accepting that concern one connection alone.
fn is_theirs(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
