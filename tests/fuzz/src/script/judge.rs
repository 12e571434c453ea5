//! What must hold after a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing_subscriber::fmt::MakeWriter;

use super::client::{Call, Told};
use super::inside::Inside;
use super::server::Server;
use super::{SECRET, SOON};

/// Panics of the whole process, in whatever task.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Sees what happens beside the answers.
#[derive(Debug)]
pub(super) struct Judge {
    log: Log,
    panics: usize,
    tasks: std::sync::OnceLock<usize>,
}

/// What is logged, from all scripts: they come one after another.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

/// More is not kept.
const KEPT: usize = 1 << 20;

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() < KEPT {
            log.extend_from_slice(text);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Judge {
    pub(super) fn new() -> Self {
        static LOG: LazyLock<Log> = LazyLock::new(|| {
            let log = Log::default();
            let subscriber =
                tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
            drop(subscriber.with_ansi(false).with_writer(log.clone()).try_init());
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICS.fetch_add(1, Ordering::Relaxed);
                hook(panic);
            }));
            log
        });
        LOG.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Self { log: LOG.clone(), panics: PANICS.load(Ordering::Relaxed), tasks: std::sync::OnceLock::new() }
    }

    /// Takes note of what there is before the first client.
    pub(super) async fn before(&self, inside: &Inside) -> Result<(), String> {
        let up = || sum(&inside.metrics(), "trunkline_upstream_up");
        within("both servers are there", || up() > 1.5).await?;
        self.tasks.get_or_init(|| inside.tasks());
        Ok(())
    }

    /// I1, I2 and I4.
    pub(super) fn answers(all: &[Told]) -> Result<(), String> {
        for told in all {
            told.calls.iter().try_for_each(one)?;
            for other in all.iter().filter(|other| other.number != told.number) {
                let theirs = format!("client-{}-", other.number);
                if told.all.contains(&theirs) {
                    return Err(format!(
                        "I2: client {} was told of client {}: {}",
                        told.number, other.number, told.all
                    ));
                }
            }
            if told.all.contains(SECRET) {
                return Err(format!("I6: client {} was told a secret", told.number));
            }
        }
        Ok(())
    }

    /// I7: each call that reached a server is counted, and none twice.
    pub(super) async fn counts(
        &self,
        all: &[Told],
        good: &Server,
        odd: &Server,
        inside: &Inside,
    ) -> Result<(), String> {
        let made = all.iter().flat_map(|told| &told.calls).filter(|call| call.good).count();
        let counted = |server: &str| {
            let name = format!("server=\"{server}\"");
            let text = inside.metrics();
            let lines = text.lines().filter(|line| line.starts_with("trunkline_requests_total{"));
            let calls = lines.filter(|line| line.contains(&name) && line.contains("tools/call"));
            calls.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
        };
        within("I7: the good server's calls are counted", || counted("good") == made).await?;
        let seen = good.calls.load(Ordering::Relaxed);
        if seen != made {
            return Err(format!("I7: {made} calls were made of the good server, which saw {seen}"));
        }
        let seen = || odd.calls.load(Ordering::Relaxed);
        within("I7: what the odd server saw is counted", || counted("odd") >= seen()).await
    }

    /// I3, I5 and I6.
    pub(super) async fn after(&self, inside: &Inside) -> Result<(), String> {
        let gone = |series: &'static str| move || sum(&inside.metrics(), series) < 0.5;
        within("I5: no session is left", gone("trunkline_sessions")).await?;
        within("I5: no call is in flight", gone("trunkline_requests_in_flight")).await?;
        within("I5: no stream is open", gone("trunkline_streams")).await?;
        let before = self.tasks.get().copied().unwrap_or_default();
        within("I5: no task is left", || inside.tasks() <= before + 2).await?;
        if PANICS.load(Ordering::Relaxed) != self.panics {
            return Err("I3: something panicked".into());
        }
        if inside.metrics().contains(SECRET) {
            return Err("I6: a secret is in the metrics".into());
        }
        let log = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        if String::from_utf8_lossy(&log).contains(SECRET) {
            return Err("I6: a secret is in the log".into());
        }
        Ok(())
    }
}

fn one(call: &Call) -> Result<(), String> {
    let Some(answers) = &call.answers else { return Ok(()) };
    let count = answers.len();
    if count > 1 || count == 0 && !call.may_be_none {
        return Err(format!("I1: {} has {count} answers: {answers:?}", call.said));
    }
    let Some(answer) = answers.first() else { return Ok(()) };
    let text = answer.pointer("/result/content/0/text").and_then(|text| text.as_str());
    let failed = answer.get("error").is_some() || answer.pointer("/result/isError") == Some(&true.into());
    if !failed && text != Some(&call.said) {
        return Err(format!("I1: {} was answered {answer}", call.said));
    }
    if call.good && failed {
        return Err(format!("I4: {} of the good server failed: {answer}", call.said));
    }
    Ok(())
}

/// The sum of a series over all servers.
fn sum(metrics: &str, series: &str) -> f64 {
    let own = |line: &&str| line.strip_prefix(series).is_some_and(|rest| rest.starts_with([' ', '{']));
    metrics.lines().filter(own).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn within(what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
    let end = Instant::now() + SOON;
    while !holds() {
        if Instant::now() > end {
            return Err(format!("not within {SOON:?}: {what}"));
        }
        sleep(Duration::from_millis(5)).await; // there is no signal but the state itself
    }
    Ok(())
}
