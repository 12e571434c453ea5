//! A crowd: many clients that do next to nothing. Opens them, prints a JSON line, holds them until standard input ends,
//! lets go of them and prints another. What was lost meanwhile is an error; ends with 1 if there was one.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Parser, ValueEnum};
use hyper::{HeaderMap, Uri};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use trunkline_bench::client::Target;
use trunkline_bench::session::Session;
use trunkline_bench::tally::Tally;

/// How many come in at a time: a crowd, not a stampede.
const AT_ONCE: usize = 64;
/// Longest head of an answer.
const HEAD: usize = 8 << 10;

/// What each of them holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A stream of a session's own, by GET. At the end the session is ended as well.
    Streams,
    /// A stream of a client without a session, by `subscriptions/listen`.
    Listens,
    /// A connection with a session, and a ping now and then.
    Connections,
    /// A session, and no connection: nobody ever ends it.
    Sessions,
}

/// Many clients that do next to nothing.
#[derive(Debug, Parser)]
struct Options {
    #[arg(value_enum)]
    mode: Mode,
    /// The endpoint.
    #[arg(long)]
    url: Uri,
    /// How many.
    #[arg(long)]
    count: usize,
    /// Seconds between two pings of a connection.
    #[arg(long, default_value_t = 8.0)]
    every: f64,
}

/// What all of them share.
#[derive(Debug)]
struct Crowd {
    options: Options,
    target: Target,
    door: Semaphore,
    tally: Tally,
    /// How many are in, and whether they are to go.
    inside: watch::Sender<usize>,
    over: watch::Sender<bool>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let crowd = Arc::new(Crowd {
        target: Target::try_from(&options.url)?,
        door: Semaphore::new(AT_ONCE),
        tally: Tally::default(),
        inside: watch::Sender::new(0),
        over: watch::Sender::new(false),
        options,
    });
    let started = Instant::now();
    let mut members = JoinSet::new();
    for _ in 0..crowd.members() {
        members.spawn(Arc::clone(&crowd).member());
    }
    let mut inside = crowd.inside.subscribe();
    inside.wait_for(|inside| *inside >= crowd.options.count).await?;
    crowd.report(started.elapsed())?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    crowd.over.send_replace(true);
    while members.join_next().await.is_some() {}
    crowd.report(started.elapsed())?;
    Ok(if crowd.tally.counts().errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Crowd {
    /// Sessions need no one who stays, so a few open them all.
    fn members(&self) -> usize {
        if self.options.mode == Mode::Sessions { AT_ONCE.min(self.options.count) } else { self.options.count }
    }

    async fn member(self: Arc<Self>) {
        let mut in_already = false;
        if let Err(error) = self.stay(&mut in_already).await {
            self.tally.wrong(&error);
        }
        if !in_already {
            self.enter(&mut in_already); // so that whoever waits for all of them learns of the error
        }
    }

    fn enter(&self, in_already: &mut bool) {
        *in_already = true;
        self.inside.send_modify(|inside| *inside += 1);
    }

    async fn stay(&self, in_already: &mut bool) -> anyhow::Result<()> {
        if self.options.mode == Mode::Sessions {
            return self.abandon(in_already).await;
        }
        let permit = self.door.acquire().await?;
        match self.options.mode {
            Mode::Streams | Mode::Listens => {
                let (stream, session) = self.stream().await?;
                drop(permit);
                self.enter(in_already);
                self.hold(stream).await?;
                self.leave(&session).await
            }
            Mode::Connections | Mode::Sessions => {
                let mut session = Session::connect(self.target.clone()).await?;
                session.open().await?;
                drop(permit);
                self.enter(in_already);
                self.ping(session).await
            }
        }
    }

    /// Opens sessions over one connection, one after another, until there are enough, and ends none.
    async fn abandon(&self, in_already: &mut bool) -> anyhow::Result<()> {
        let mut session = Session::connect(self.target.clone()).await?;
        let share = self.options.count.div_ceil(self.members());
        for _ in 0..share {
            if *self.inside.borrow() >= self.options.count {
                break;
            }
            self.enter(in_already);
            session.forget();
            ensure!(session.open().await?, "the server mints no sessions");
        }
        Ok(())
    }

    async fn ping(&self, mut session: Session) -> anyhow::Result<()> {
        let every = Duration::try_from_secs_f64(self.options.every)?;
        loop {
            tokio::select! {
                () = self.end() => return Ok(()),
                () = sleep(every) => {
                    let (head, _, _) = session.request("ping", "").await?;
                    ensure!(head.status.is_success(), "a ping: status {}", head.status);
                }
            }
        }
    }

    /// Ends the session that has these headers, if there is one: what is left then is what the streams leave.
    async fn leave(&self, headers: &HeaderMap) -> anyhow::Result<()> {
        if headers.is_empty() {
            return Ok(());
        }
        let _permit = self.door.acquire().await?;
        let mut session = Session::connect(self.target.clone()).await?;
        session.join(headers, 0);
        session.close().await
    }

    /// A connection on which a stream of events has begun, and the headers of its session.
    async fn stream(&self) -> anyhow::Result<(TcpStream, HeaderMap)> {
        let (request, session) = if self.options.mode == Mode::Listens {
            (self.listen(), HeaderMap::new())
        } else {
            self.get().await?
        };
        let mut stream = self.target.tcp().await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            ensure!(head.len() < HEAD, "an endless head");
            ensure!(stream.read_buf(&mut head).await? > 0, "no answer");
        }
        ensure!(head.starts_with(b"HTTP/1.1 200"), "no stream: {}", String::from_utf8_lossy(&head));
        Ok((stream, session))
    }

    async fn get(&self) -> anyhow::Result<(String, HeaderMap)> {
        let mut session = Session::connect(self.target.clone()).await?;
        session.open().await?;
        let mut request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n", self.target.path(), self.target.host());
        for (name, value) in session.headers() {
            write!(request, "{name}: {}\r\n", value.to_str().context("a header")?)?;
        }
        Ok((request + "\r\n", session.headers().clone()))
    }

    fn listen(&self) -> String {
        let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
        let params = format!(r#"{{"_meta":{{{meta}}},"notifications":{{"toolsListChanged":true}}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{params}}}"#);
        let headers = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                       MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
        let (path, host, length) = (self.target.path(), self.target.host(), body.len());
        format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
    }

    /// Reads what comes until all are to go. That it ends before is an error.
    async fn hold(&self, mut stream: TcpStream) -> anyhow::Result<()> {
        let mut read = [0; 1024];
        loop {
            tokio::select! {
                () = self.end() => return Ok(()),
                count = stream.read(&mut read) => if count? == 0 { bail!("a stream ended") },
            }
        }
    }

    /// Waits until all are to go.
    async fn end(&self) {
        drop(self.over.subscribe().wait_for(|over| *over).await);
    }

    fn report(&self, took: Duration) -> anyhow::Result<()> {
        let counts = self.tally.counts();
        let line = json!({
            "count": self.options.count,
            "secs": took.as_secs_f64(),
            "errors": counts.errors,
            "first_error": counts.first_error,
        });
        let mut out = std::io::stdout();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}
