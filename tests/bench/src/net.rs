//! Listening: one accept loop for both servers of the benchmark.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;

use anyhow::Context;
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Binds `addr` and prints the bound address as the first line of stdout, so that a script can ask for port 0
/// and read back what it got.
pub async fn listen(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr}"))?;
    let bound = listener.local_addr()?;
    let mut out = std::io::stdout();
    writeln!(out, "{bound}")?;
    out.flush()?;
    Ok(listener)
}

/// Serves HTTP/1.1 until accepting fails; every request goes to a clone of `handle`.
///
/// # Errors
/// Only what the listener says. A client that breaks its connection ends that connection alone.
pub async fn serve<H, F, B, E>(listener: TcpListener, handle: H) -> anyhow::Result<()>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    let tasks = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let handle = handle.clone();
        tasks.spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(handle));
            connection.await.ok(); // how a client ends its connection is its own affair
        });
    }
}
