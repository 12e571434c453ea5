//! A fast MCP server over streamable HTTP, to stand behind what is measured.
//!
//! It is there to cost little: one thread, no JSON tree, lists rendered once. Prints its address first.
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
use serde_json::value::RawValue;
use tokio::time::{Instant, interval_at, sleep};
use trunkline_bench::mcp::{self, Params};
use trunkline_bench::pieces::Pieces;
use trunkline_bench::{NEWEST, REVISIONS, net};

/// A request above this is refused; a blob above it as well.
const MOST_BYTES: usize = 32 << 20;
/// So that a client that never ends its sessions cannot fill the memory.
const MOST_SESSIONS: usize = 1_000_000;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A fast MCP server (2024-11-05 … 2025-11-25) at /mcp with the tools echo, blob, sleep and progress.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    addr: SocketAddr,
    /// How many tools the list holds.
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// How long, in milliseconds, every call takes.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// Mint sessions and insist on them.
    #[arg(long)]
    sessions: bool,
    /// Answer requests by event streams instead of JSON.
    #[arg(long)]
    sse: bool,
}

#[derive(Debug)]
struct Upstream {
    options: Options,
    list: Bytes,
    filler: Bytes,
    minted: AtomicU64,
    open: Mutex<HashSet<u64>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let listener = net::listen(options.addr).await?;
    let upstream = Arc::new(Upstream {
        list: mcp::tool_list(options.tools),
        filler: vec![b'x'; MOST_BYTES].into(),
        minted: AtomicU64::new(0),
        open: Mutex::default(),
        options,
    });
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
        if message.method == "initialize" {
            return self.initialize(message.id, &message.params);
        }
        if let Err(status) = self.session(&head.headers) {
            return bare(status);
        }
        let Some(id) = message.id else { return bare(StatusCode::ACCEPTED) };
        match &*message.method {
            "tools/call" => self.call(id, &message.params).await,
            "tools/list" => self.send(mcp::result(id, [self.list.clone()])),
            "ping" => self.send(mcp::result(id, [Bytes::from_static(b"{}")])),
            _ => self.send(mcp::error(Some(id), -32601, "no such method")),
        }
    }

    fn initialize(&self, id: Option<&RawValue>, params: &Params<'_>) -> Answer {
        let Some(id) = id else { return bare(StatusCode::BAD_REQUEST) };
        let asked = params.protocol_version.as_deref().unwrap_or(NEWEST);
        let revision = if REVISIONS.contains(&asked) { asked } else { NEWEST };
        let server = r#""capabilities":{"tools":{}},"serverInfo":{"name":"bench-upstream","version":"1"}"#;
        let result = format!(r#"{{"protocolVersion":"{revision}",{server}}}"#);
        let mut answer = self.send(mcp::result(id, [result.into()]));
        if self.options.sessions {
            let session = self.minted.fetch_add(1, Ordering::Relaxed);
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= MOST_SESSIONS {
                return bare(StatusCode::SERVICE_UNAVAILABLE);
            }
            open.insert(session);
            answer.headers_mut().insert("mcp-session-id", session.into());
        }
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

    async fn call(&self, id: &RawValue, params: &Params<'_>) -> Answer {
        if self.options.delay > 0 {
            sleep(Duration::from_millis(self.options.delay)).await;
        }
        let arguments = &params.arguments;
        match (params.name.as_deref(), arguments.message) {
            (Some("echo"), Some(message)) if message.get().starts_with('"') => {
                self.send(mcp::echo(id, message))
            }
            (Some("blob"), _) if arguments.bytes <= MOST_BYTES => {
                let text = self.filler.slice(..arguments.bytes);
                let head = Bytes::from_static(br#"{"content":[{"type":"text","text":""#);
                self.send(mcp::result(id, [head, text, Bytes::from_static(br#""}]}"#)]))
            }
            (Some("sleep"), _) => {
                sleep(Duration::from_millis(arguments.ms)).await;
                self.send(mcp::result(id, [done()]))
            }
            (Some("progress"), _) => progress(id, params),
            _ => self.send(mcp::error(Some(id), -32602, "no such tool, or not its arguments")),
        }
    }

    /// Answers a request in the form that was asked for at start.
    fn send(&self, message: VecDeque<Bytes>) -> Answer {
        if self.options.sse { events(mcp::event(message), None) } else { json(StatusCode::OK, message) }
    }
}

/// `steps` notifications, `ms` apart, then the answer; without a token only the answer.
fn progress(id: &RawValue, params: &Params<'_>) -> Answer {
    let mut stream = VecDeque::new();
    if let Some(token) = params.meta.progress_token {
        let steps = params.arguments.steps.min(10_000);
        stream.extend((1..=steps).map(|step| mcp::progress(token, step, steps)));
    }
    let answer = mcp::event(mcp::result(id, [done()]));
    stream.push_back(answer.into_iter().flatten().collect::<Vec<u8>>().into());
    let apart = Duration::from_millis(params.arguments.ms.max(1));
    events(stream, Some(interval_at(Instant::now() + apart, apart)))
}

fn done() -> Bytes {
    Bytes::from_static(br#"{"content":[{"type":"text","text":"done"}]}"#)
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
