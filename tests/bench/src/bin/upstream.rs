//! A fast MCP server over streamable HTTP or stdio, to stand behind what is measured.
//!
//! It is there to cost little: one thread, no JSON tree, lists rendered once. Over HTTP it prints its address first.
#![forbid(unsafe_code)]

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{Instant, interval_at, sleep};
use trunkline_bench::mcp::{self, Manner};
use trunkline_bench::pieces::Pieces;
use trunkline_bench::server::{MOST_BYTES, Reply, Server};
use trunkline_bench::{net, stdio};

/// So that a client that never ends its sessions cannot fill the memory.
const MOST_SESSIONS: usize = 1_000_000;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A fast MCP server (2024-11-05 … 2026-07-28) at /mcp with the tools echo, blob, sleep and progress.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    addr: SocketAddr,
    /// Serve standard input and output instead.
    #[arg(long, conflicts_with_all = ["sessions", "sse", "delay"])]
    stdio: bool,
    /// How many tools the list holds.
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// How long, in milliseconds, every call takes.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// Mint sessions and insist on them.
    #[arg(long, conflicts_with = "modern")]
    sessions: bool,
    /// Answer requests by event streams instead of JSON.
    #[arg(long)]
    sse: bool,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Debug)]
struct Upstream {
    options: Options,
    server: Server,
    minted: AtomicU64,
    open: Mutex<HashSet<u64>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let server = Server::new(options.tools, options.manner);
    if options.stdio {
        // Nothing else runs in this process, so it may block.
        return stdio::serve(&server, std::io::stdin().lock(), std::io::stdout().lock());
    }
    let listener = net::listen(options.addr).await?;
    let upstream = Arc::new(Upstream { server, minted: AtomicU64::new(0), open: Mutex::default(), options });
    net::serve(listener, move |request| Arc::clone(&upstream).serve(request)).await
}

type Answer = Response<Pieces>;

impl Upstream {
    async fn serve(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Infallible> {
        if request.uri().path() != "/mcp" {
            return Ok(bare(StatusCode::NOT_FOUND));
        }
        Ok(match *request.method() {
            Method::POST => self.post(request).await,
            Method::DELETE => self.delete(request.headers()),
            _ => {
                let mut answer = bare(StatusCode::METHOD_NOT_ALLOWED);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
                answer
            }
        })
    }

    async fn post(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MOST_BYTES).collect().await else {
            return bare(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        let Ok(message) = serde_json::from_slice::<mcp::Request<'_>>(&body) else {
            return json(StatusCode::BAD_REQUEST, mcp::error(None, -32700, "not a JSON-RPC message"));
        };
        let opens = message.method == "initialize" && !self.server.is_modern();
        if let Err(status) = if opens { Ok(None) } else { self.session(&head.headers) } {
            return bare(status);
        }
        if self.options.delay > 0 && message.method == "tools/call" {
            sleep(Duration::from_millis(self.options.delay)).await;
        }
        let answer = match self.server.answer(&message) {
            None => bare(StatusCode::ACCEPTED),
            Some(Reply::Now(pieces)) => self.send(pieces),
            Some(Reply::After(time, pieces)) => {
                sleep(time).await;
                self.send(pieces)
            }
            Some(Reply::Events(stream, apart)) => {
                events(stream, Some(interval_at(Instant::now() + apart, apart)))
            }
        };
        if opens && self.options.sessions { self.mint(answer) } else { answer }
    }

    /// Opens a session and tells its id with the answer.
    fn mint(&self, mut answer: Answer) -> Answer {
        let session = self.minted.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MOST_SESSIONS {
            return bare(StatusCode::SERVICE_UNAVAILABLE);
        }
        open.insert(session);
        answer.headers_mut().insert("mcp-session-id", session.into());
        answer
    }

    /// The request's session, which must be open. `Ok(None)`: this server has none.
    fn session(&self, headers: &HeaderMap) -> Result<Option<u64>, StatusCode> {
        if !self.options.sessions {
            return Ok(None);
        }
        let id = headers.get("mcp-session-id").ok_or(StatusCode::BAD_REQUEST)?;
        let id = id.to_str().ok().and_then(|id| id.parse().ok()).ok_or(StatusCode::NOT_FOUND)?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains(&id) { Ok(Some(id)) } else { Err(StatusCode::NOT_FOUND) }
    }

    fn delete(&self, headers: &HeaderMap) -> Answer {
        match self.session(headers) {
            Ok(Some(id)) => {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                bare(StatusCode::OK)
            }
            Ok(None) => bare(StatusCode::OK),
            Err(status) => bare(status),
        }
    }

    /// Answers a request in the form that was asked for at start.
    fn send(&self, message: VecDeque<Bytes>) -> Answer {
        if self.options.sse { events(mcp::event(message), None) } else { json(StatusCode::OK, message) }
    }
}

fn bare(status: StatusCode) -> Answer {
    let mut answer = Response::new(Pieces::default());
    *answer.status_mut() = status;
    answer
}

fn json(status: StatusCode, message: VecDeque<Bytes>) -> Answer {
    let mut answer = Response::new(Pieces::sized(message));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

fn events(stream: VecDeque<Bytes>, tick: Option<tokio::time::Interval>) -> Answer {
    let mut answer = Response::new(Pieces::streamed(stream, tick));
    answer.headers_mut().insert(CONTENT_TYPE, EVENTS);
    answer
}
