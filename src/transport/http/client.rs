//! The HTTP client of one link: its connections, and the tasks that drive them.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper::rt::Executor;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use rustls::ClientConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

/// A client with connections of its own.
pub(super) type Client = legacy::Client<Timed, Full<Bytes>>;

const TCP_CONNECT: Duration = Duration::from_secs(3);
/// Looking the name up, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(8);
/// Unused connections are kept for this long; most servers close them earlier.
const IDLE: Duration = Duration::from_secs(90);
/// How soon a dead peer is noticed on a connection that waits.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The tasks of one link. They end with it.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    end: CancellationToken,
}

impl Tasks {
    pub(super) fn start(&self, task: impl Future<Output: Send> + Send + 'static) {
        drop(self.tracker.spawn(self.end.clone().run_until_cancelled_owned(task)));
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Ends them all without waiting.
    pub(super) fn cancel(&self) {
        self.end.cancel();
    }

    /// Ends them all.
    pub(super) async fn end(&self) {
        self.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.start(task);
    }
}

/// A client whose connections are driven by `tasks`.
pub(super) fn client(tls: ClientConfig, tasks: Tasks) -> Client {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(TCP_CONNECT));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(tcp);
    legacy::Client::builder(tasks)
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .build(Timed(connector))
}

/// A connector with a deadline: neither hyper-util nor hyper-rustls ends a TLS handshake that stalls.
#[derive(Debug, Clone)]
pub(super) struct Timed(HttpsConnector<HttpConnector>);

type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Uri> for Timed {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async {
            let late =
                || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT:?}"));
            tokio::time::timeout(CONNECT, connecting).await.unwrap_or_else(|_| Err(late().into()))
        })
    }
}
