//! The floor: a reverse proxy that only passes bytes on, as plainly as hyper lets one write it.
//!
//! hyper-util's pooled client, tokio's default runtime, bodies streamed. It reads nothing of MCP, so what a
//! proxy costs beyond it is what its features cost. Prints its address first.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::net::SocketAddr;

use clap::Parser;
use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use trunkline_bench::net;

/// A reverse proxy that only passes bytes on.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    addr: SocketAddr,
    /// Whom to pass everything to.
    #[arg(long)]
    to: Authority,
}

type Pool = Client<HttpConnector, Incoming>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let listener = net::listen(options.addr).await?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
    net::serve(listener, move |request| pass(pool.clone(), options.to.clone(), request)).await
}

async fn pass(
    pool: Pool,
    to: Authority,
    mut request: Request<Incoming>,
) -> Result<Response<Either<Incoming, Empty<Bytes>>>, Infallible> {
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(to);
    let Ok(uri) = Uri::from_parts(uri) else { return Ok(refuse(StatusCode::BAD_REQUEST)) };
    *request.uri_mut() = uri;
    Ok(match pool.request(request).await {
        Ok(answer) => answer.map(Either::Left),
        Err(_) => refuse(StatusCode::BAD_GATEWAY),
    })
}

fn refuse(status: StatusCode) -> Response<Either<Incoming, Empty<Bytes>>> {
    let mut answer = Response::new(Either::Right(Empty::new()));
    *answer.status_mut() = status;
    answer
}
