//! Every series, declared once: who counts something asks for its handle or guard here and knows no names.
//!
//! No global registry, no label whose values a peer could choose: methods, outcomes, states and reasons are closed
//! sets, servers are those of the configuration, and the series of a server that it no longer has are gone.

mod label;
mod process;
mod server;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

pub use label::{BreakerState, Closed, Dropped, Held, Method, Outcome, Rejection, Resumption, State, Turned};
pub use server::{HoldGuard, LinkGuard, Running, ServerSeries};

use process::Process;
use server::Shown;

/// Why making a series cannot fail.
const VALID: &str = "names and labels are constants, checked by the tests";

/// All series of the process. Shared; every method takes `&self` and may be called from anywhere.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    servers: Shown,
    reloads: IntCounterVec,
    reload_ok: IntGauge,
    reload_time: Gauge,
    watching: IntGauge,
    sessions: IntGauge,
    streams: IntGauge,
    resumed: IntCounterVec,
    rejected: IntCounterVec,
    panics: IntCounter,
    connections: IntGauge,
    closed: IntCounterVec,
    buffered: IntGauge,
    certificates: IntCounterVec,
    log_lost: IntCounter,
    /// What the log has lost, as it counts itself.
    log: OnceLock<Arc<AtomicU64>>,
}

impl Metrics {
    /// The series of a process of our version `version`.
    pub fn new(version: &str) -> Arc<Self> {
        let count = |name: &str, help: &str| IntCounter::new(name, help).expect(VALID);
        let counts =
            |name: &str, help: &str, label| IntCounterVec::new(Opts::new(name, help), &[label]).expect(VALID);
        let gauge = |name: &str, help: &str| IntGauge::new(name, help).expect(VALID);
        let info = Opts::new("trunkline_build_info", "1, with the version of this build.");
        let info = IntGauge::with_opts(info.const_label("version", version)).expect(VALID);
        info.set(1);
        let metrics = Self {
            registry: Registry::new(),
            servers: Shown::default(),
            reloads: counts("trunkline_config_reloads_total", "Configurations loaded, by result.", "result"),
            reload_ok: gauge(
                "trunkline_config_last_reload_successful",
                "Whether the configuration as it stands was taken (1) or refused (0).",
            ),
            reload_time: Gauge::new(
                "trunkline_config_last_reload_success_timestamp_seconds",
                "When a configuration was last taken, in seconds since 1970.",
            )
            .expect(VALID),
            watching: gauge(
                "trunkline_config_watched",
                "Whether the system tells of changes of the configuration (1), or it is read now and then only (0).",
            ),
            sessions: gauge("trunkline_sessions", "Sessions in memory."),
            streams: gauge("trunkline_streams", "Open event streams to clients."),
            resumed: counts(
                "trunkline_streams_resumed_total",
                "Streams that clients came back for, by what there was.",
                "result",
            ),
            rejected: counts(
                "trunkline_rejected_total",
                "Requests refused at the door, by reason.",
                "reason",
            ),
            panics: count("trunkline_panics_total", "Panics that were caught: each one is a bug."),
            connections: gauge("trunkline_connections", "Connections of clients."),
            closed: counts(
                "trunkline_connections_closed_total",
                "Connections of clients that were closed in their middle, by reason.",
                "reason",
            ),
            buffered: gauge(
                "trunkline_buffered_bytes",
                "Bytes of large requests and unread answers that are held.",
            ),
            certificates: counts(
                "trunkline_tls_reloads_total",
                "Looks at changed certificate files of the endpoint, by result.",
                "result",
            ),
            log_lost: count("trunkline_log_lines_lost_total", "Log lines that nobody read in time."),
            log: OnceLock::new(),
        };
        metrics.show(Box::new(info));
        metrics.show(Box::new(metrics.servers.clone()));
        metrics.show(Box::new(metrics.reloads.clone()));
        metrics.show(Box::new(metrics.reload_ok.clone()));
        metrics.show(Box::new(metrics.reload_time.clone()));
        metrics.show(Box::new(metrics.watching.clone()));
        metrics.show(Box::new(metrics.sessions.clone()));
        metrics.show(Box::new(metrics.streams.clone()));
        metrics.show(Box::new(metrics.resumed.clone()));
        metrics.show(Box::new(metrics.rejected.clone()));
        metrics.show(Box::new(metrics.panics.clone()));
        metrics.show(Box::new(metrics.connections.clone()));
        metrics.show(Box::new(metrics.closed.clone()));
        metrics.show(Box::new(metrics.buffered.clone()));
        metrics.show(Box::new(metrics.certificates.clone()));
        metrics.show(Box::new(metrics.log_lost.clone()));
        metrics.show(Box::new(Process::new()));
        Arc::new(metrics)
    }

    fn show(&self, series: Box<dyn prometheus::core::Collector>) {
        self.registry.register(series).expect(VALID);
    }

    /// The series of the server `name`: the same ones until they are forgotten.
    pub fn server(&self, name: &str) -> Arc<ServerSeries> {
        let mut servers = self.servers.all();
        let series = servers.entry(name.to_owned()).or_insert_with(|| Arc::new(ServerSeries::new(name)));
        Arc::clone(series)
    }

    /// Takes the series of a server that is gone out of the text. What still holds them counts on unseen.
    pub fn forget(&self, name: &str) {
        self.servers.all().remove(name);
    }

    /// All series as text (Prometheus exposition format 0.0.4).
    pub fn render(&self) -> String {
        let lost = self.log.get().map_or(0, |lost| lost.swap(0, Ordering::Relaxed));
        self.log_lost.inc_by(lost);
        TextEncoder::new().encode_to_string(&self.registry.gather()).expect("writing to memory cannot fail")
    }

    /// A configuration was taken, or refused.
    pub fn reloaded(&self, ok: bool) {
        self.reloads.with_label_values(&[if ok { "success" } else { "failure" }]).inc();
        self.reload_ok.set(ok.into());
        if ok {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.reload_time.set(now.as_secs_f64());
        }
    }

    /// Whether the system tells of changes of the configuration.
    pub fn watching(&self, told: bool) {
        self.watching.set(told.into());
    }

    /// How many sessions there are.
    pub fn sessions(&self, n: usize) {
        self.sessions.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// Counts an event stream to a client in, and out when the guard is dropped.
    pub fn stream(&self) -> StreamGuard {
        self.streams.inc();
        StreamGuard(self.streams.clone())
    }

    /// A client came back for the rest of a stream.
    pub fn resumed(&self, result: Resumption) {
        self.resumed.with_label_values(&[result.label()]).inc();
    }

    /// A request was refused at the door.
    pub fn rejected(&self, reason: Rejection) {
        self.rejected.with_label_values(&[reason.label()]).inc();
    }

    /// How many event streams to clients are open.
    pub fn open_streams(&self) -> usize {
        usize::try_from(self.streams.get()).unwrap_or(0)
    }

    /// Counts a client's connection in, and out when the guard is dropped.
    pub fn connection(&self) -> StreamGuard {
        self.connections.inc();
        StreamGuard(self.connections.clone())
    }

    /// A client's connection was closed in its middle.
    pub fn closed(&self, why: Closed) {
        self.closed.with_label_values(&[why.label()]).inc();
    }

    /// How many bytes are held of large requests and unread answers.
    pub fn buffered(&self, bytes: usize) {
        self.buffered.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Changed certificate files were taken, or refused.
    pub fn certificates(&self, ok: bool) {
        self.certificates.with_label_values(&[if ok { "success" } else { "failure" }]).inc();
    }

    /// `lost` is where the log counts the lines that it lost; what stands there is taken over with each look.
    pub fn log(&self, lost: Arc<AtomicU64>) {
        drop(self.log.set(lost));
    }

    /// A panic was caught.
    pub fn panicked(&self) {
        self.panics.inc();
    }
}

/// An open event stream or connection of a client; dropped, it counts as closed.
#[derive(Debug)]
#[must_use = "a guard that is dropped counts its stream out"]
pub struct StreamGuard(IntGauge);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
