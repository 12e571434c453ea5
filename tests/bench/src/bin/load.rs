//! The load generator: closed-loop MCP calls at a given concurrency. Every answer is checked; prints one JSON
//! line and ends with 1 if any was wrong.
//!
//! One thread, one connection and one session per worker. Sessions are opened and the path is warmed before
//! the clock starts, and closed after it stopped.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Parser, ValueEnum};
use hyper::{HeaderMap, Uri};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};
use trunkline_bench::answer::{Busy, Known, check_text, check_tools, read};
use trunkline_bench::client::Target;
use trunkline_bench::process::{Usage, Watched};
use trunkline_bench::session::Session;
use trunkline_bench::tally::Tally;

/// A worker that met this many errors in a row stops: the server is gone or does not fit.
const MOST_ERRORS_IN_A_ROW: u32 = 10;

/// What one turn of a worker is.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Call the tool with a text that differs each time; it must come back.
    Call,
    /// Call the tool for a text of `--bytes`.
    Blob,
    /// List the tools (the first page).
    List,
    /// Open a session; it is closed outside the turn.
    Open,
}

/// How the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Speech {
    /// Streamable HTTP after a handshake, up to 2025-11-25.
    Handshake,
    /// 2026-07-28, which has no sessions.
    Modern,
    /// HTTP+SSE, the transport of 2024-11-05.
    Older,
}

/// Closed-loop load on an MCP endpoint; prints one JSON line.
#[derive(Debug, Parser)]
struct Options {
    #[arg(value_enum)]
    mode: Mode,
    /// The endpoint.
    #[arg(long)]
    url: Uri,
    /// The tool to call.
    #[arg(long, default_value = "echo")]
    tool: String,
    /// How many workers, each with a connection of its own.
    #[arg(long, default_value_t = 1)]
    conc: u64,
    /// How long, in seconds.
    #[arg(long, default_value_t = 3.0, conflicts_with = "count")]
    secs: f64,
    /// How many turns in all instead.
    #[arg(long)]
    count: Option<u64>,
    /// Turns before the clock starts, in seconds.
    #[arg(long, default_value_t = 0.2)]
    warm: f64,
    /// Length of the text: sent by `call` (at least its 20 digits), asked for by `blob`.
    #[arg(long, default_value_t = 200)]
    bytes: usize,
    /// How many turns a second all workers together take at most; as many as they can where it is not said.
    #[arg(long)]
    rate: Option<f64>,
    /// With `--rate`: open loop. No turn is left out, and the clock of one that had to wait starts when it was due.
    #[arg(long, requires = "rate")]
    open: bool,
    /// `blob`: read every answer as a client would, instead of comparing it with the first one.
    #[arg(long)]
    read: bool,
    /// What to speak.
    #[arg(long, value_enum, default_value_t = Speech::Handshake)]
    speak: Speech,
    /// All workers are one client: they share the session of the first.
    #[arg(long)]
    share: bool,
    /// Where a busy server is no error: after how many milliseconds a worker that was turned away comes again.
    #[arg(long)]
    back_off: Option<u64>,
    /// Processes whose processor time and memory to report, as NAME=PID.
    #[arg(long, value_delimiter = ',')]
    watch: Vec<Watched>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Arc::new(Options::parse());
    let mut watched = options.watch.clone();
    watched.push(Watched::myself("load"));

    let first = if options.share { Some(Worker::start(Arc::clone(&options), 0, None).await?) } else { None };
    let shared = first.as_ref().map(|first| first.session.headers().clone());
    let workers = (0..options.conc).map(|number| Worker::start(Arc::clone(&options), number, shared.clone()));
    let workers = all(workers).await.context("no session")?;
    let warming = Arc::<Tallies>::default();
    let workers = turns(workers, Limit::after(options.warm)?, &warming).await?;
    if let Some(error) = warming.right.counts().first_error {
        bail!("before the clock started: {error}");
    }

    let limit = options.count.map_or_else(|| Limit::after(options.secs), |count| Ok(Limit::turns(count)))?;
    let tallies = Arc::<Tallies>::default();
    let before = usages(&watched)?;
    let started = Instant::now();
    let workers = turns(workers, limit, &tallies).await?;
    let took = started.elapsed();
    let after = usages(&watched)?;

    if let Err(error) = all(workers.into_iter().chain(first).map(Worker::end)).await {
        tallies.right.wrong(&error.context("cannot close a session"));
    }
    let used = watched.iter().zip(before.iter().zip(&after)).map(|(watched, usage)| used(watched, usage));
    report(&options, &tallies, took, &used.collect())
}

/// Runs one future per worker to its end; the first error ends all.
async fn all<T: Send + 'static>(
    futures: impl Iterator<Item = impl Future<Output = anyhow::Result<T>> + Send + 'static>,
) -> anyhow::Result<Vec<T>> {
    let mut tasks: JoinSet<_> = futures.collect();
    let mut done = Vec::with_capacity(tasks.len());
    while let Some(ended) = tasks.join_next().await {
        done.push(ended??);
    }
    Ok(done)
}

/// What was answered, and what was turned away.
#[derive(Debug, Default)]
struct Tallies {
    right: Tally,
    refused: Tally,
}

async fn turns(workers: Vec<Worker>, limit: Limit, tally: &Arc<Tallies>) -> anyhow::Result<Vec<Worker>> {
    let limit = Arc::new(limit);
    all(workers.into_iter().map(|worker| worker.run(Arc::clone(&limit), Arc::clone(tally)))).await
}

/// When to stop.
#[derive(Debug)]
enum Limit {
    At(Instant),
    Turns(AtomicU64),
}

impl Limit {
    fn after(secs: f64) -> anyhow::Result<Self> {
        Ok(Self::At(Instant::now() + Duration::try_from_secs_f64(secs)?))
    }

    fn turns(count: u64) -> Self {
        Self::Turns(AtomicU64::new(count))
    }

    /// Whether a turn that starts `now` is still wanted.
    fn allows(&self, now: Instant) -> bool {
        match self {
            Self::At(end) => now < *end,
            Self::Turns(left) => {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            }
        }
    }
}

#[derive(Debug)]
struct Worker {
    options: Arc<Options>,
    session: Session,
    /// The headers of the session that all workers share.
    shared: Option<HeaderMap>,
    /// First digits of every text, so that no two workers ever send the same.
    number: u64,
    turn: u64,
    /// What every text ends with.
    filler: String,
    /// The answer that all are alike, where they are.
    known: Known,
    tools: Option<usize>,
}

impl Worker {
    async fn start(options: Arc<Options>, number: u64, shared: Option<HeaderMap>) -> anyhow::Result<Self> {
        let session = Self::connect(&options, shared.as_ref(), number).await?;
        let length = match options.mode {
            Mode::Call => options.bytes.saturating_sub(20),
            Mode::Blob => options.bytes,
            Mode::List | Mode::Open => 0,
        };
        let filler = "x".repeat(length);
        Ok(Self { options, session, shared, number, turn: 0, filler, known: Known::default(), tools: None })
    }

    async fn connect(options: &Options, shared: Option<&HeaderMap>, number: u64) -> anyhow::Result<Session> {
        let target = Target::try_from(&options.url)?;
        let mut session = match options.speak {
            Speech::Older => Session::connect_older(&target).await?,
            Speech::Handshake | Speech::Modern => Session::connect(target).await?,
        };
        match shared {
            Some(shared) => session.join(shared, number),
            None if options.speak == Speech::Modern => session.modern(),
            None if matches!(options.mode, Mode::Open) => {}
            None => drop(session.open().await?),
        }
        Ok(session)
    }

    /// When the worker takes its turns, where a rate was asked for: not all of them at once.
    fn pace(&self) -> anyhow::Result<Option<Interval>> {
        let Some(rate) = self.options.rate else { return Ok(None) };
        let workers = u32::try_from(self.options.conc)?;
        let apart = Duration::try_from_secs_f64(f64::from(workers) / rate)?;
        let number = u32::try_from(self.number)?;
        let mut pace = interval_at(Instant::now() + apart * (number % workers) / workers, apart);
        let missed = if self.options.open { MissedTickBehavior::Burst } else { MissedTickBehavior::Skip };
        pace.set_missed_tick_behavior(missed);
        Ok(Some(pace))
    }

    /// Waits for the next turn; when its clock starts. That a timer rings late is not the server's affair.
    async fn due(&self, pace: Option<&mut Interval>) -> Instant {
        let Some(pace) = pace else { return Instant::now() };
        let before = Instant::now();
        let due = pace.tick().await;
        if self.options.open && due < before { due } else { Instant::now() }
    }

    /// Takes turns until `limit`, or until nothing but errors come.
    async fn run(mut self, limit: Arc<Limit>, tallies: Arc<Tallies>) -> anyhow::Result<Self> {
        let mut errors_in_a_row = 0;
        let (mut pace, tally) = (self.pace()?, &tallies.right);
        while errors_in_a_row < MOST_ERRORS_IN_A_ROW {
            let started = self.due(pace.as_mut()).await;
            if !limit.allows(started) {
                break;
            }
            let turn = self.take_turn().await;
            let Err(error) = turn else {
                tally.right(started.elapsed());
                errors_in_a_row = 0;
                if matches!(self.options.mode, Mode::Open) {
                    self.session.close().await?;
                }
                continue;
            };
            if let (Some(back_off), true) = (self.options.back_off, error.is::<Busy>()) {
                tallies.refused.right(started.elapsed());
                sleep(Duration::from_millis(back_off)).await;
                continue;
            }
            tally.wrong(&error);
            errors_in_a_row += 1;
            // The connection or the session may be what is wrong.
            match Self::connect(&self.options, self.shared.as_ref(), self.number).await {
                Ok(session) => self.session = session,
                Err(error) => tally.wrong(&error),
            }
        }
        Ok(self)
    }

    async fn take_turn(&mut self) -> anyhow::Result<()> {
        let tool = &self.options.tool;
        match self.options.mode {
            Mode::Call => {
                self.turn += 1;
                let text = format!("{:06}-{:012}-{}", self.number, self.turn, self.filler);
                let (head, body, id) = self.session.call(tool, &format!(r#"{{"message":"{text}"}}"#)).await?;
                check_text(&read(&head, &body, id)?, &text)
            }
            Mode::Blob => {
                let arguments = format!(r#"{{"bytes":{}}}"#, self.options.bytes);
                let (head, body, id) = self.session.call(tool, &arguments).await?;
                if self.options.read {
                    return check_text(&read(&head, &body, id)?, &self.filler);
                }
                self.known.check((&head, &body, id), |outcome| check_text(outcome, &self.filler))
            }
            Mode::List => {
                let (head, body, id) = self.session.request("tools/list", "").await?;
                self.known.check((&head, &body, id), |outcome| check_tools(outcome, &mut self.tools))
            }
            Mode::Open => {
                ensure!(self.session.open().await?, "the server mints no sessions");
                Ok(())
            }
        }
    }

    async fn end(mut self) -> anyhow::Result<()> {
        if self.shared.is_some() {
            return Ok(());
        }
        self.session.close().await
    }
}

fn usages(watched: &[Watched]) -> anyhow::Result<Vec<Usage>> {
    watched.iter().map(Watched::usage).collect()
}

/// What a process used between two readings, and its memory at the second.
fn used(watched: &Watched, (before, after): (&Usage, &Usage)) -> (String, Value) {
    let cpu_s = ((after.cpu_s - before.cpu_s) * 100.0).round() / 100.0;
    (watched.name.clone(), json!({"cpu_s": cpu_s, "rss_kib": after.rss_kib}))
}

fn report(
    options: &Options,
    tallies: &Tallies,
    took: Duration,
    used: &Map<String, Value>,
) -> anyhow::Result<ExitCode> {
    let (counts, refused) = (tallies.right.counts(), tallies.refused.counts());
    let calls = u32::try_from(counts.calls()).context("too many calls for one run")?;
    let line = json!({
        "mode": options.mode.to_possible_value().map(|mode| mode.get_name().to_owned()),
        "conc": options.conc,
        "secs": took.as_secs_f64(),
        "calls": calls,
        "per_s": (f64::from(calls) / took.as_secs_f64()).round(),
        "p50_us": counts.quantile_us(0.5),
        "p90_us": counts.quantile_us(0.9),
        "p99_us": counts.quantile_us(0.99),
        "max_us": counts.quantile_us(1.0),
        "refused": refused.calls(),
        "refused_p99_us": refused.quantile_us(0.99),
        "errors": counts.errors,
        "first_error": counts.first_error,
        "used": used,
    });
    writeln!(std::io::stdout(), "{line}")?;
    let right = counts.errors == 0 && calls > 0;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
