//! One server kept connected.
//!
//! An [`Upstream`] is shared by everybody who calls the server; a keeper task of its own is the only one that changes
//! its [`State`]. Knows of no other upstream.

mod ask;
mod behalf;
mod breaker;
mod calls;
mod ear;
mod era;
mod exchange;
mod flights;
mod gate;
mod greet;
mod handshake;
mod keeper;
mod legs;
mod levels;
mod listen;
mod listener;
mod lists;
mod news;
mod own;
mod pace;
mod personal;
mod pulse;
mod refresh;
mod running;
mod state;
mod subscriptions;
mod tender;
mod unasked;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use behalf::Behalf;
pub use breaker::{Open, Pass};
pub use calls::SubscribeError;
pub use exchange::{Exchange, Write};
pub use handshake::try_once;
pub use legs::elicitation;
pub use levels::LevelWish;
pub use news::{Hearers, News, Notice};
pub use state::{Ready, Remedy, State, Status, Unavailable, Why};
pub use subscriptions::Subscription;

use crate::catalog::Listing;
use crate::config::{Limits, Server};
use crate::mcp::{Feature, Features, Hello, method};
use crate::metrics::{self, ServerSeries};
use crate::transport::{Dialer, Failure};
use crate::wire::{self, Message};
use era::Memory;
use gate::Gate;
use keeper::Keeper;
use levels::Levels;
use own::Own;
use subscriptions::Subscriptions;
use unasked::Allowances;

/// What all upstreams share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Dials.
    pub dialer: Arc<Dialer>,
    /// Told whenever an upstream's listing or usability changed, and of what servers say to all.
    pub news: Arc<News>,
    /// Intervals.
    pub limits: Limits,
    /// Owns every task of every upstream.
    pub tasks: TaskTracker,
}

/// One server kept connected.
#[derive(Debug)]
pub struct Upstream {
    server: ArcSwap<Server>,
    status: watch::Sender<Status>,
    listing: ArcSwapOption<Listing>,
    /// Why the last attempt to list failed, if it did.
    unlisted: ArcSwapOption<String>,
    /// What it last said of itself.
    hello: ArcSwapOption<Hello>,
    /// Counts what clients are to be told of, by kind, whether or not the listing differs.
    changes: [AtomicU64; 4],
    /// Counts the links, the shared ones and those of sessions; its successor counts on.
    generations: Arc<AtomicU64>,
    subscriptions: Arc<Subscriptions>,
    levels: Arc<Levels>,
    /// The links of single callers, by whose they are.
    own: Own,
    /// Which calls it gets.
    gate: Arc<Gate>,
    /// What single callers have listed, where each reaches the server by himself.
    lists: personal::Lists,
    /// A server that each caller reaches by himself keeps something per session.
    keeps_state: AtomicBool,
    /// How it stands with the eras of the protocol.
    memory: Arc<Memory>,
    /// It speaks the modern era, and refused a session's own link of the legacy one.
    modern_only: AtomicBool,
    allowances: Allowances,
    wishes: Wishes,
    series: Arc<ServerSeries>,
    /// Its state is the one that metrics show: it is in use.
    shown: AtomicBool,
    /// When its settings were last changed, in milliseconds since 1970.
    updated: AtomicU64,
    stop: CancellationToken,
    /// The whole process ends, so no late calls can come.
    closing: CancellationToken,
    since: Instant,
    shared: Shared,
    /// The runtime that keeps servers connected; calls are made from others.
    home: Handle,
}

/// What callers want of the keeper.
#[derive(Debug, Default)]
struct Wishes {
    woken: Notify,
    relist: AtomicBool,
    /// What the server said has changed, in calls.
    changed: AtomicU8,
    doubted: Doubt,
}

impl Wishes {
    fn changed(&self) -> Features {
        Features::from_bits(self.changed.swap(0, Ordering::AcqRel))
    }
}

/// What a call met that speaks against a link.
#[derive(Debug, Default)]
struct Doubt(Mutex<Option<(u64, Failure)>>);

impl Doubt {
    fn tell(&self, generation: u64, failure: &Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, failure.clone()));
    }

    /// What was met on this link, if anything was.
    fn of(&self, ready: &Ready) -> Option<Failure> {
        let mut doubt = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        doubt.take().filter(|(generation, _)| *generation == ready.generation).map(|(_, failure)| failure)
    }
}

/// How long after a reload calls may still come in on the link that it replaced.
const LATE_CALLS: Duration = Duration::from_secs(1);

impl Upstream {
    /// Starts to keep `server` connected. It goes on with what is known of its predecessor and wanted of it, if it has
    /// one; `known` is what it has, as far as that is known before it is asked.
    pub fn spawn(
        server: Arc<Server>,
        before: Option<&Self>,
        known: Option<Arc<Listing>>,
        series: Arc<ServerSeries>,
        shared: &Shared,
    ) -> Arc<Self> {
        let first = match (&server.personal, server.eager) {
            (Some(_), _) => State::PerCaller,
            (None, true) => State::Connecting,
            (None, false) => State::Idle,
        };
        let subscriptions = before.map_or_else(
            || Subscriptions::new(server.name.clone(), shared.news.clone(), shared.tasks.clone()),
            |before| before.subscriptions.clone(),
        );
        let memory = before
            .filter(|before| before.server.load().reach == server.reach)
            .map(|before| before.memory.clone())
            .unwrap_or_default();
        let gate = Arc::new(Gate::new(&server, &shared.limits, series.clone()));
        let upstream = Arc::new(Self {
            updated: AtomicU64::new(stamp(&server)),
            shown: AtomicBool::new(before.is_none()),
            server: ArcSwap::new(server),
            status: watch::Sender::new(Status { state: first, lists_begun: 0, listed: 0 }),
            listing: ArcSwapOption::new(known),
            unlisted: ArcSwapOption::empty(),
            hello: ArcSwapOption::new(before.and_then(Self::hello)),
            changes: [const { AtomicU64::new(0) }; 4],
            generations: before.map(|before| before.generations.clone()).unwrap_or_default(),
            subscriptions,
            levels: before.map(|before| before.levels.clone()).unwrap_or_default(),
            own: Own::default(),
            gate,
            lists: personal::Lists::default(),
            keeps_state: AtomicBool::new(false),
            memory,
            modern_only: AtomicBool::new(false),
            allowances: Allowances::default(),
            wishes: Wishes::default(),
            series,
            stop: CancellationToken::new(),
            closing: CancellationToken::new(),
            since: Instant::now(),
            shared: shared.clone(),
            home: Handle::current(),
        });
        shared.tasks.spawn(Keeper::new(upstream.clone()).run());
        upstream
    }

    /// Its settings.
    pub fn server(&self) -> Arc<Server> {
        self.server.load_full()
    }

    /// Gives it other settings that need no other link.
    pub fn retune(&self, server: Arc<Server>) {
        self.gate.retune(&server, &self.shared.limits);
        self.updated.store(stamp(&server), Ordering::Relaxed);
        self.server.store(server);
    }

    /// When its settings were last changed, or when they say they were: milliseconds since 1970.
    pub fn updated_at(&self) -> u64 {
        self.updated.load(Ordering::Relaxed)
    }

    /// It has come into use in the place of its predecessor: from now on its state is the one that metrics show.
    pub fn show(&self) {
        self.shown.store(true, Ordering::Release);
        // Under the lock of whoever changes the state, so that the newest is what stays.
        self.status.send_if_modified(|status| {
            self.measure(&status.state);
            false
        });
    }

    /// Shows `state` in the metrics.
    fn measure(&self, state: &State) {
        let shown = match state {
            State::Idle | State::PerCaller => metrics::State::Idle,
            State::Connecting => metrics::State::Connecting,
            State::Ready(_) => metrics::State::Ready,
            State::Down(why) if why.unauthorized => metrics::State::NeedsAuthorization,
            State::Down(_) => metrics::State::Down,
            State::Stopped => return, // its successor, if any, shows under the same name
        };
        if self.shown.load(Ordering::Acquire) {
            self.series.up(matches!(state, State::Ready(_)));
            self.series.state(shown);
        }
    }

    /// Its metrics.
    pub fn series(&self) -> &Arc<ServerSeries> {
        &self.series
    }

    /// How it is.
    pub fn state(&self) -> State {
        self.status.borrow().state.clone()
    }

    /// Why it gets no calls although it is connected, if so.
    pub fn open_breaker(&self) -> Option<Open> {
        self.gate.breaker.shown()
    }

    /// What it last said it has.
    pub fn listing(&self) -> Option<Arc<Listing>> {
        self.listing.load_full()
    }

    /// How old what it last said of `feature` is; `None` where it is not connected, or has not been asked since it is.
    pub fn list_age(&self, feature: Feature) -> Option<Duration> {
        let State::Ready(ready) = &self.status.borrow().state else { return None };
        Some(ready.since.elapsed().saturating_sub(ready.listed.at(feature)?))
    }

    /// Why the last attempt to list its tools failed, if it did.
    pub fn unlisted(&self) -> Option<Arc<String>> {
        self.unlisted.load_full()
    }

    /// What it last said of itself, also while it is down.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        self.hello.load_full()
    }

    /// How often clients were to be told of a change of each [kind](crate::mcp::Feature::index).
    pub fn changes(&self) -> [u64; 4] {
        self.changes.each_ref().map(|count| count.load(Ordering::Acquire))
    }

    fn count_changes(&self, features: Features) {
        for count in features.iter().filter_map(|feature| self.changes.get(feature.index())) {
            count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The number of the next link.
    fn generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// When it was made.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Whether it is connected and has listed what it has: nothing is known that speaks against its use.
    pub fn has_proven(&self) -> bool {
        let status = self.status.borrow();
        status.listed > 0 && matches!(status.state, State::Ready(_)) && self.unlisted.load().is_none()
    }

    /// Waits until the first attempt to connect and list is over, well or badly.
    pub async fn settled(&self) {
        let mut status = self.status.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        drop(status.wait_for(|status| status.listed > 0 || status.state.is_settled()).await);
    }

    /// Asks the server again for what it has, connecting first where need be, and waits at most `patience` for it.
    pub async fn look_again(&self, patience: Duration) {
        let mut status = self.status.subscribe();
        let before = status.borrow_and_update().lists_begun;
        self.wishes.relist.store(true, Ordering::Release);
        self.wishes.woken.notify_one();
        let listed = status.wait_for(|status| status.listed > before || status.state.is_settled());
        drop(tokio::time::timeout(patience, listed).await);
    }

    /// Why calls cannot be made now, if so.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let state = self.state();
        (!matches!(state, State::Ready(_) | State::PerCaller)).then(|| state.unavailable())
    }

    /// What a call that met `failure` is to be told.
    pub fn unavailable_after(&self, failure: &Failure) -> Unavailable {
        let mut unavailable = Unavailable::of(failure);
        if state::ends_link(failure) && unavailable.retry_after.is_zero() {
            unavailable.retry_after = self.shared.limits.reconnect_interval;
        }
        if unavailable.remedy == Remedy::Operator && self.is_personal() {
            unavailable.what += " with what this request brings";
            unavailable.remedy = Remedy::Caller;
        }
        unavailable
    }

    /// What we answer a server's own request ourselves, whoever is connected: `ping`, and `roots/list` where the
    /// configuration has roots.
    pub fn own_answer(&self, request: &Message) -> Option<Bytes> {
        let id = request.id().unwrap_or_default();
        match request.method() {
            method::PING => Some(wire::response(&id, b"{}")),
            method::ROOTS_LIST => {
                let server = self.server.load();
                let roots = (!server.roots.is_empty()).then(|| legs::roots(&server.roots))?;
                Some(wire::response(&id, roots.as_bytes()))
            }
            _ => None,
        }
    }

    /// The server told in the middle of a call that what it lists changed.
    pub fn changed(&self, features: Features) {
        self.wishes.changed.fetch_or(features.bits(), Ordering::AcqRel);
        self.wishes.woken.notify_one();
    }

    /// Ends it: calls in flight may finish, late ones of an older snapshot too, then the link is closed. Returns at
    /// once.
    pub fn retire(&self) {
        self.stop.cancel();
    }

    /// As [`retire`](Self::retire), at the end of the process.
    pub fn close(&self) {
        self.closing.cancel();
        self.stop.cancel();
    }
}

/// What settings say of their age, or else now: milliseconds since 1970.
fn stamp(server: &Server) -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    server.updated_at.unwrap_or_else(|| u64::try_from(now()).unwrap_or(u64::MAX))
}
