//! Where log lines go. Writing them never makes a request wait: when nobody reads standard error, lines are dropped and
//! counted.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Lines that may wait to be written.
const WAITING: usize = 4096;
/// How long lines are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(5);

/// Keeps the log going. Dropped at the very end, it gives the writer a moment for what still waits.
#[derive(Debug)]
pub struct Log {
    lines: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
    /// Ends when the writer does.
    written: Receiver<()>,
}

impl Log {
    /// Where it counts the lines that it lost: whoever reports them may set it back.
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }
}

/// How long the end of the process waits for the log's last lines: a reader may have stopped reading.
const LAST: Duration = Duration::from_millis(500);

impl Drop for Log {
    fn drop(&mut self) {
        // A full queue means that nobody reads: then nobody is waited for either.
        if self.lines.try_send(Vec::new()).is_ok() {
            let _ended_or_late = self.written.recv_timeout(LAST);
        }
    }
}

/// Starts logging what `filter` lets through.
///
/// # Errors
/// Where the filter makes no sense, or a log is kept already.
pub fn start(filter: &str, format: Format) -> Result<Log, String> {
    if !filter.contains(['=', ',', ':']) && filter.parse::<LevelFilter>().is_err() {
        return Err(format!("bad log level {filter:?}; there are error, warn, info, debug and trace"));
    }
    let filter: Targets = filter.parse().map_err(|error| format!("bad log filter: {error}"))?;
    let (lines, waiting) = sync_channel(WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let (ended, written) = sync_channel::<()>(0);
    std::thread::Builder::new()
        .name("log".into())
        .spawn({
            let dropped = dropped.clone();
            move || {
                write(&waiting, &dropped);
                drop(ended);
            }
        })
        .map_err(|error| format!("no thread for the log: {error}"))?;
    let last = lines.clone();
    let total = Arc::new(AtomicU64::new(0));
    let lines = Lines { queue: lines, dropped, lost: total.clone() };
    let layer = tracing_subscriber::fmt::layer().with_writer(lines).with_target(false);
    let filtered = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => filtered.with(layer.with_ansi(io::IsTerminal::is_terminal(&io::stderr()))).try_init(),
        Format::Json => filtered.with(layer.json().flatten_event(true).with_current_span(false)).try_init(),
    }
    .map_err(|error| error.to_string())?;
    Ok(Log { lines: last, lost: total, written })
}

/// An empty line ends the writer: a real one is never empty.
fn write(lines: &Receiver<Vec<u8>>, dropped: &AtomicU64) {
    let mut out = io::stderr();
    while let Ok(first) = lines.recv() {
        // Waking this thread for every line would cost the senders more than the line itself.
        std::thread::sleep(GATHER);
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            drop(writeln!(out, "{lost} log lines were lost: standard error was not read in time"));
        }
        let (mut text, mut ended) = (Vec::new(), false);
        for line in std::iter::once(first).chain(lines.try_iter().take(WAITING)) {
            ended |= line.is_empty();
            text.extend_from_slice(&line);
        }
        if out.write_all(&text).is_err() || ended {
            return; // nobody will ever read it, or it is the end
        }
    }
}

#[derive(Debug, Clone)]
struct Lines {
    queue: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

/// One line on its way.
struct Line<'a> {
    lines: &'a Lines,
    text: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;
    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, text: Vec::with_capacity(160) }
    }
}

impl io::Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.lines.queue.try_send(std::mem::take(&mut self.text)).is_err() {
            self.lines.dropped.fetch_add(1, Ordering::Relaxed);
            self.lines.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
