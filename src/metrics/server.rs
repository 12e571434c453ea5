//! One server's series.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
};
use tokio::time::Instant;

use super::VALID;
use super::label::{BreakerState, Dropped, Held, Method, Outcome, State, Turned};

/// Upper bounds in seconds. From 0.01 on they are those of the OpenTelemetry MCP conventions
/// (`mcp.client.operation.duration`); the finer ones below are ours: a local stdio server answers within a few
/// milliseconds, and with 0.01 as the first bound everything healthy would look alike.
const SECONDS: [f64; 17] =
    [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

const METHODS: usize = Method::ALL.len();
const OUTCOMES: usize = Outcome::ALL.len();

/// The series of one server. Handles are looked up once and kept: counting takes no lock and hashes no label.
#[derive(Debug)]
pub struct ServerSeries {
    requests: IntCounterVec,
    seconds: HistogramVec,
    in_flight: IntGauge,
    up: IntGauge,
    links: IntGauge,
    state: IntGaugeVec,
    reconnects: IntCounterVec,
    throttled: IntCounter,
    stubs: IntCounter,
    tools: IntGauge,
    truncated: IntCounter,
    dropped_tools: IntCounter,
    holds: IntGauge,
    held: IntCounterVec,
    dropped_notices: IntCounter,
    breaker: IntGaugeVec,
    turned_away: IntCounterVec,
    dropped: IntCounterVec,
    held_back: IntGauge,
    /// The children of `requests`, by method, then outcome; made when first counted, so idle servers stay short.
    counted: [[OnceLock<IntCounter>; OUTCOMES]; METHODS],
    /// The children of `seconds`.
    timed: [OnceLock<Histogram>; METHODS],
}

impl ServerSeries {
    pub(super) fn new(server: &str) -> Self {
        let opts = |name: &str, help: &str| {
            Opts::new(format!("trunkline_{name}"), help).const_label("server", server)
        };
        let count = |name, help| IntCounter::with_opts(opts(name, help)).expect(VALID);
        let counts = |name, help, labels| IntCounterVec::new(opts(name, help), labels).expect(VALID);
        let gauge = |name, help| IntGauge::with_opts(opts(name, help)).expect(VALID);
        let seconds =
            opts("request_duration_seconds", "Time a server took for a request; stubs not included.");
        let seconds = HistogramOpts::from(seconds).buckets(SECONDS.to_vec());
        Self {
            requests: counts(
                "requests_total",
                "Requests for a server by method and outcome.",
                &["method", "outcome"],
            ),
            seconds: HistogramVec::new(seconds, &["method"]).expect(VALID),
            in_flight: gauge("requests_in_flight", "Requests that a server has not answered yet."),
            up: gauge("upstream_up", "Whether a server takes calls (1) or not (0)."),
            links: gauge(
                "upstream_links",
                "Connections to a server: the one for all, and those of single sessions.",
            ),
            state: IntGaugeVec::new(
                opts("upstream_state", "1 for the state of the connection to a server, 0 for all others."),
                &["state"],
            )
            .expect(VALID),
            reconnects: counts(
                "upstream_reconnects_total",
                "Attempts to connect again, by reason.",
                &["reason"],
            ),
            throttled: count(
                "upstream_reconnects_suppressed_total",
                "Attempts to connect again that were put off because the last was too recent.",
            ),
            stubs: count("stub_calls_total", "Calls answered by us because the server was away."),
            tools: gauge("upstream_tools", "Tools in a server's last complete listing, after filters."),
            truncated: count("upstream_listings_truncated_total", "Listings cut at a budget."),
            dropped_tools: count(
                "upstream_tools_dropped_total",
                "Tools left out of a listing because they ask for headers in a wrong way.",
            ),
            dropped_notices: count(
                "upstream_notices_dropped_total",
                "Notifications dropped for lack of room.",
            ),
            breaker: IntGaugeVec::new(
                opts(
                    "upstream_breaker",
                    "1 for whether a server that fails calls gets any, 0 for the others.",
                ),
                &["state"],
            )
            .expect(VALID),
            turned_away: counts(
                "upstream_calls_turned_away_total",
                "Calls not given to a server that is connected, by reason.",
                &["reason"],
            ),
            dropped: counts(
                "upstream_messages_dropped_total",
                "What a server said that belongs to nobody, by reason.",
                &["reason"],
            ),
            held_back: gauge(
                "upstream_settings_held_back",
                "Whether a server goes on with old settings because the new ones do not work (1) or not (0).",
            ),
            holds: gauge("held_calls", "Calls that have asked a client without a session something."),
            held: counts(
                "held_calls_total",
                "Calls that asked a client without a session something, by what became of them.",
                &["result"],
            ),
            counted: [const { [const { OnceLock::new() }; OUTCOMES] }; METHODS],
            timed: [const { OnceLock::new() }; METHODS],
        }
    }

    /// Counts a request in. It counts out when the guard ends or, as cancelled, when it is dropped.
    pub fn begin(self: &Arc<Self>, method: Method) -> Running {
        self.in_flight.inc();
        Running { series: Arc::clone(self), method, since: Instant::now(), outcome: Outcome::Cancelled }
    }

    /// Whether calls go through.
    pub fn up(&self, up: bool) {
        self.up.set(up.into());
    }

    /// Counts a connection in, and out when the guard is dropped.
    pub fn link(&self) -> LinkGuard {
        self.links.inc();
        LinkGuard(self.links.clone())
    }

    /// Where the connection stands.
    pub fn state(&self, now: State) {
        for state in State::ALL {
            self.state.with_label_values(&[state.label()]).set((state == now).into());
        }
    }

    /// An attempt to connect again; `why` is one of few fixed words of ours.
    pub fn reconnect(&self, why: &'static str) {
        self.reconnects.with_label_values(&[why]).inc();
    }

    /// An attempt to connect again that had to wait for its time.
    pub fn throttled(&self) {
        self.throttled.inc();
    }

    /// Whether a server that fails calls gets any.
    pub fn breaker(&self, now: BreakerState) {
        for state in BreakerState::ALL {
            self.breaker.with_label_values(&[state.label()]).set((state == now).into());
        }
    }

    /// A call that was not given to a server although that is connected.
    pub fn turned_away(&self, why: Turned) {
        self.turned_away.with_label_values(&[why.label()]).inc();
    }

    /// Something of the server that belongs to nobody.
    pub fn dropped(&self, why: Dropped) {
        self.dropped.with_label_values(&[why.label()]).inc();
    }

    /// A call that we answered in the server's place.
    pub fn stub(&self) {
        self.stubs.inc();
    }

    /// Whether it goes on with old settings because the new ones do not work.
    pub fn held_back(&self, held: bool) {
        self.held_back.set(held.into());
    }

    /// How many tools the last complete listing has.
    pub fn tools(&self, n: usize) {
        self.tools.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// A listing that was cut at a budget.
    pub fn listing_truncated(&self) {
        self.truncated.inc();
    }

    /// A tool that is of no use and was left out.
    pub fn tool_dropped(&self) {
        self.dropped_tools.inc();
    }

    /// Counts a call in that asks a client without a session something, unless there are `most` of them. It counts out
    /// when the guard ends or, as cancelled, when it is dropped.
    pub fn hold(self: &Arc<Self>, most: usize) -> Option<HoldGuard> {
        self.holds.inc();
        if usize::try_from(self.holds.get()).unwrap_or_default() > most {
            self.holds.dec();
            self.held.with_label_values(&[Held::Refused.label()]).inc();
            return None;
        }
        Some(HoldGuard { series: Arc::clone(self), result: Held::Cancelled })
    }

    /// Notifications that found no room.
    pub fn dropped_notices(&self, n: u64) {
        self.dropped_notices.inc_by(n);
    }

    fn count(&self, method: Method, outcome: Outcome) {
        let slot = self.counted.get(method as usize).and_then(|row| row.get(outcome as usize));
        if let Some(slot) = slot {
            slot.get_or_init(|| self.requests.with_label_values(&[method.label(), outcome.label()])).inc();
        }
    }

    fn time(&self, method: Method, since: Instant) {
        if let Some(slot) = self.timed.get(method as usize) {
            slot.get_or_init(|| self.seconds.with_label_values(&[method.label()]))
                .observe(since.elapsed().as_secs_f64());
        }
    }

    fn parts(&self) -> [&dyn Collector; 19] {
        [
            &self.requests,
            &self.seconds,
            &self.in_flight,
            &self.up,
            &self.links,
            &self.state,
            &self.reconnects,
            &self.throttled,
            &self.stubs,
            &self.tools,
            &self.truncated,
            &self.dropped_tools,
            &self.dropped_notices,
            &self.breaker,
            &self.turned_away,
            &self.dropped,
            &self.holds,
            &self.held,
            &self.held_back,
        ]
    }
}

/// The series of all servers that are shown, by name. Those of one come and go together, and a handle that outlives them
/// counts on unseen.
///
/// They are one collector for the registry: it tells collectors apart by a sum of hashes, and that of two servers can be
/// the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown(Arc<Mutex<HashMap<String, Arc<ServerSeries>>>>);

impl Shown {
    pub(super) fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<ServerSeries>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Shown {
    fn desc(&self) -> Vec<&Desc> {
        Vec::new() // they change
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.all().values().flat_map(|series| series.parts()).flat_map(Collector::collect).collect()
    }
}

/// A connection to a server; dropped, it counts as gone.
#[derive(Debug)]
#[must_use = "a guard that is dropped counts its connection out"]
pub struct LinkGuard(IntGauge);

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A call that has asked a client without a session something.
#[derive(Debug)]
#[must_use = "a guard that is dropped counts its call as cancelled"]
pub struct HoldGuard {
    series: Arc<ServerSeries>,
    result: Held,
}

impl HoldGuard {
    /// Counts the call out.
    pub fn end(mut self, result: Held) {
        self.result = result;
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.series.holds.dec();
        self.series.held.with_label_values(&[self.result.label()]).inc();
    }
}

/// A request under way.
#[derive(Debug)]
#[must_use = "a request that is dropped counts as cancelled"]
pub struct Running {
    series: Arc<ServerSeries>,
    method: Method,
    since: Instant,
    outcome: Outcome,
}

impl Running {
    /// Since when.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Counts the request out.
    pub fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.series.in_flight.dec();
        self.series.count(self.method, self.outcome);
        // A stub takes no time at all and would make a dead server look like a fast one.
        if self.outcome != Outcome::Stub {
            self.series.time(self.method, self.since);
        }
    }
}
