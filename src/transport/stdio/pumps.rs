//! What moves the lines of a child's three streams.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

use super::lines::{Line, Lines};
use crate::names::ServerName;
use crate::transport::allowance::Allowance;
use crate::transport::table::Table;
use crate::transport::text::{SHORT, Secrets, plain};
use crate::transport::{Failure, Sizes, batch};

/// Logged standard error, per second.
const STDERR_RATE: u64 = 64 << 10;
/// A longer line of standard error is cut into several.
const STDERR_LINE: usize = 4 << 10;
/// What a logged line costs beside its own text: the time, the level, the server.
const LOG_LINE: u64 = 96;
/// How many lines are kept, shortened, to explain an exit.
const KEPT: usize = 16;

/// What every part of a child's care knows.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) name: ServerName,
    pub(super) table: Arc<Table>,
    pub(super) sizes: Sizes,
    pub(super) secrets: Secrets,
    /// The handshake is done. What a child says before that is only kept to explain its end: one that dies at every
    /// start would say it again each time.
    pub(super) settled: CancellationToken,
    /// What the child said last on standard error.
    pub(super) tail: Mutex<VecDeque<String>>,
}

/// Writes queued lines until `stop`, then what is still queued, and closes the child's input.
pub(super) async fn write(
    to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Bytes>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let mut to = BufWriter::new(to);
    loop {
        let line = tokio::select! {
            line = queue.recv() => line,
            () = stop.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        let Some(mut line) = line else { return Ok(()) };
        let written = async {
            // Whatever is queued goes out in one write.
            loop {
                to.write_all(&line).await?;
                to.write_all(b"\n").await?;
                match queue.try_recv() {
                    Ok(next) => line = next,
                    Err(_) => return to.flush().await,
                }
            }
        };
        written.await.map_err(|_| Failure::Cut("it closed its input".into()))?;
    }
}

/// Reads messages and brings them to where they belong, until the child closes its output.
pub(super) async fn read(from: impl AsyncRead + Unpin, common: Arc<Common>) -> Result<(), Failure> {
    let mut lines = Lines::new(from, common.sizes.message);
    let mut allowance = Allowance::new(3, Duration::from_secs(10));
    while let Ok(Some((line, whole))) = lines.next().await {
        if whole == Line::Part || line.len() > common.sizes.message {
            return Err(Failure::TooLarge(common.sizes.message));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let routed = batch::each(line.clone(), common.sizes.depth, |message| common.table.route(message));
        if let Err(why) = routed {
            common.table.tally.skip();
            if let Some(more) = allowance.take(1) {
                let text = common.secrets.plain(&line, SHORT);
                if common.settled.is_cancelled() {
                    tracing::warn!(server = %common.name, %why, more, "a line of its output is no message: {text}");
                } else {
                    tracing::debug!(server = %common.name, %why, "a line of its output is no message: {text}");
                    common.keep(text);
                }
            }
        }
        consume_budget().await; // one read may hold thousands of lines
    }
    Ok(())
}

/// Logs standard error. Whatever the child writes is read, or it would stop at a full pipe.
pub(super) async fn log(from: impl AsyncRead + Unpin, common: Arc<Common>) -> Result<(), Failure> {
    let mut lines = Lines::new(from, STDERR_LINE);
    let mut allowance = Allowance::new(STDERR_RATE, Duration::from_secs(1));
    while let Ok(Some((line, _))) = lines.next().await {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(hushed) = allowance.take(line.len() as u64 + LOG_LINE) {
            if hushed > 0 {
                tracing::warn!(server = %common.name, "{hushed} bytes of its standard error were not logged");
            }
            let text = common.secrets.plain(&line, STDERR_LINE);
            if common.settled.is_cancelled() {
                tracing::info!(target: "trunkline::stderr", server = %common.name, "{text}");
            } else {
                tracing::debug!(target: "trunkline::stderr", server = %common.name, "{text}");
            }
            common.keep(plain(&text, SHORT));
        } else {
            common.table.tally.hushed.add(line.len() as u64);
        }
        consume_budget().await; // one read may hold thousands of lines
    }
    Ok(())
}

impl Common {
    fn keep(&self, line: String) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_empty() {
            return;
        }
        tail.push_back(line);
        if tail.len() > KEPT {
            tail.pop_front();
        }
    }

    /// What explains an exit best: the lines of standard error that speak of an error, or the last one.
    pub(super) fn last_words(&self) -> Option<String> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let is_error = |line: &&String| line.to_ascii_lowercase().contains("error");
        let mut words = tail.iter().filter(is_error).cloned().collect::<Vec<_>>();
        if words.is_empty() {
            words.push(tail.back()?.clone());
        }
        Some(plain(&words.join("; "), SHORT))
    }
}
