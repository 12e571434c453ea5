//! The floor of stdio: HTTP in front, a child's pipe behind, and nothing but bytes between.
//!
//! A request is a line to the child; the child's next line answers the oldest request that has none. So it reads no
//! id and knows no name, and is right only before a child that answers in order. Prints its address first.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Mutex, oneshot};
use trunkline_bench::net;

/// More than these wait for no answer; the load is never that wide.
const MOST_WAITING: usize = 4096;

/// HTTP before a child that speaks MCP on its standard input and output.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    addr: SocketAddr,
    /// The child and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

type Waiting = std::sync::Mutex<VecDeque<oneshot::Sender<Bytes>>>;

#[derive(Debug)]
struct Floor {
    /// Held while a line is written, so that the order of lines is that of those who wait.
    input: Mutex<ChildStdin>,
    waiting: Waiting,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let (program, arguments) = options.command.split_first().context("no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let input = Mutex::new(child.stdin.take().context("no standard input")?);
    let output = child.stdout.take().context("no standard output")?;
    let floor = Arc::new(Floor { input, waiting: Waiting::default() });
    let listener = net::listen(options.addr).await?;
    let serving = Arc::clone(&floor);
    tokio::select! {
        ended = read_lines(output, &floor.waiting) => ended.and_then(|()| anyhow::bail!("the child ended")),
        ended = net::serve(listener, move |request| Arc::clone(&serving).pass(request)) => ended,
    }
}

async fn read_lines(output: impl AsyncRead + Unpin, waiting: &Waiting) -> anyhow::Result<()> {
    let mut output = BufReader::with_capacity(64 << 10, output);
    loop {
        let mut line = Vec::new();
        if output.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let oldest = lock(waiting).pop_front().context("an answer that nobody waits for")?;
        oldest.send(line.into()).ok(); // whoever asked may be gone
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, VecDeque<oneshot::Sender<Bytes>>> {
    waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Floor {
    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        Ok(match self.answer(request).await {
            Ok(answer) => answer,
            Err(_) => bare(StatusCode::BAD_GATEWAY),
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        if request.method() != Method::POST {
            return Ok(bare(StatusCode::METHOD_NOT_ALLOWED));
        }
        let mut line = Vec::from(request.into_body().collect().await?.to_bytes());
        // The one thing that it must know: a notification is not answered.
        let notice = line.starts_with(br#"{"jsonrpc":"2.0","method":"#);
        line.push(b'\n');
        let mut input = self.input.lock().await;
        let answer = if notice { None } else { Some(self.line_up()?) };
        input.write_all(&line).await?;
        drop(input);
        let Some(answer) = answer else { return Ok(bare(StatusCode::ACCEPTED)) };
        let mut answer = Response::new(Full::new(answer.await?));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(answer)
    }

    fn line_up(&self) -> anyhow::Result<oneshot::Receiver<Bytes>> {
        let (sender, answer) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        ensure!(waiting.len() < MOST_WAITING, "too many wait");
        waiting.push_back(sender);
        Ok(answer)
    }
}

fn bare(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}
