//! One server kept connected.
//!
//! An [`Upstream`] is shared by everybody who calls the server; a keeper task of its own is the only one that changes
//! its [`State`]. Knows of no other upstream.

mod ear;
mod exchange;
mod flights;
mod handshake;
mod keeper;
mod levels;
mod news;
mod pace;
mod state;
mod subscriptions;
mod unasked;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use exchange::Exchange;
pub use handshake::try_once;
pub use levels::LevelWish;
pub use news::{News, Notice};
pub use state::{Ready, State, Status, Unavailable, Why};
pub use subscriptions::Subscription;

use crate::catalog::Listing;
use crate::config::{Limits, Server};
use crate::mcp::{Features, Hello, Level};
use crate::metrics::ServerSeries;
use crate::session::Session;
use crate::transport::{Dialer, Failure};
use keeper::Keeper;
use levels::Levels;
use subscriptions::{Missed, Subscriptions};
use unasked::Usher;

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
    usher: Arc<Usher>,
    wishes: Wishes,
    series: Arc<ServerSeries>,
    stop: CancellationToken,
    /// The whole process ends, so no late calls can come.
    closing: AtomicBool,
    tasks: TaskTracker,
    since: Instant,
    /// How long after a lost link the next attempt may have to wait.
    interval: Duration,
}

/// What callers want of the keeper.
#[derive(Debug, Default)]
struct Wishes {
    woken: Notify,
    relist: AtomicBool,
    /// What the server said has changed, in calls.
    changed: AtomicU8,
    doubted: std::sync::Mutex<Option<(u64, Failure)>>,
}

impl Wishes {
    fn changed(&self) -> Features {
        Features::from_bits(self.changed.swap(0, Ordering::AcqRel))
    }
}

/// Why there is no subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscribeError {
    /// The server cannot be asked now.
    Unavailable(Unavailable),
    /// The server does not want it: its raw error object, or ours in its place where it offers no subscriptions.
    Refused(Bytes),
}

/// Of a server that offers no subscriptions.
const NO_SUBSCRIPTIONS: &[u8] = br#"{"code":-32601,"message":"this server offers no subscriptions"}"#;

/// How long a call waits for a connection that is just being made.
const PATIENCE: Duration = Duration::from_secs(3);

impl Upstream {
    /// Starts to keep `server` connected. It goes on with what is known of its predecessor and wanted of it, if it has
    /// one.
    pub fn spawn(
        server: Arc<Server>,
        before: Option<&Self>,
        series: Arc<ServerSeries>,
        shared: &Shared,
    ) -> Arc<Self> {
        let first = if server.eager { State::Connecting } else { State::Idle };
        let name = server.name.clone();
        let subscriptions = before.map_or_else(
            || Subscriptions::new(name.clone(), shared.news.clone(), shared.tasks.clone()),
            |before| before.subscriptions.clone(),
        );
        let usher = Usher::new(name, shared.news.clone(), series.clone(), subscriptions.clone());
        let upstream = Arc::new(Self {
            server: ArcSwap::new(server),
            status: watch::Sender::new(Status { state: first, listings: 0 }),
            listing: ArcSwapOption::new(before.and_then(Self::listing)),
            unlisted: ArcSwapOption::empty(),
            hello: ArcSwapOption::new(before.and_then(Self::hello)),
            changes: [const { AtomicU64::new(0) }; 4],
            generations: before.map(|before| before.generations.clone()).unwrap_or_default(),
            subscriptions,
            levels: before.map(|before| before.levels.clone()).unwrap_or_default(),
            usher: Arc::new(usher),
            wishes: Wishes::default(),
            series,
            stop: CancellationToken::new(),
            closing: AtomicBool::new(false),
            tasks: shared.tasks.clone(),
            since: Instant::now(),
            interval: shared.limits.reconnect_interval,
        });
        shared.tasks.spawn(Keeper::new(upstream.clone(), shared).run());
        upstream
    }

    /// Its settings.
    pub fn server(&self) -> Arc<Server> {
        self.server.load_full()
    }

    /// Gives it other settings that need no other link.
    pub fn retune(&self, server: Arc<Server>) {
        self.server.store(server);
    }

    /// Its metrics.
    pub fn series(&self) -> &Arc<ServerSeries> {
        &self.series
    }

    /// How it is.
    pub fn state(&self) -> State {
        self.status.borrow().state.clone()
    }

    /// What it last said it has.
    pub fn listing(&self) -> Option<Arc<Listing>> {
        self.listing.load_full()
    }

    /// Why the last attempt to list its tools failed, if it did.
    pub fn unlisted(&self) -> Option<Arc<String>> {
        self.unlisted.load_full()
    }

    /// What it last said of itself, also while it is down.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        self.hello.load_full()
    }

    /// How often clients were to be told of a change of each [kind](Feature::index).
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

    /// Waits until the first attempt to connect and list is over, well or badly.
    pub async fn settled(&self) {
        let mut status = self.status.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        drop(status.wait_for(|status| status.listings > 0 || status.state.is_settled()).await);
    }

    /// Asks the server again for what it has, connecting first where need be, and waits at most `patience` for it.
    pub async fn look_again(&self, patience: Duration) {
        let mut status = self.status.subscribe();
        let before = status.borrow_and_update().listings;
        self.wishes.relist.store(true, Ordering::Release);
        self.wishes.woken.notify_one();
        let listed = status.wait_for(|status| status.listings > before || status.state.is_settled());
        drop(tokio::time::timeout(patience, listed).await);
    }

    /// Why calls cannot be made now, if so.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let state = self.state();
        (!matches!(state, State::Ready(_))).then(|| state.unavailable())
    }

    /// What a call that met `failure` is to be told.
    pub fn unavailable_after(&self, failure: &Failure) -> Unavailable {
        let mut unavailable = Unavailable::of(failure);
        if state::ends_link(failure) && unavailable.retry_after.is_zero() {
            unavailable.retry_after = self.interval;
        }
        unavailable
    }

    /// The server told in the middle of a call that what it lists changed.
    pub fn changed(&self, features: Features) {
        self.wishes.changed.fetch_or(features.bits(), Ordering::AcqRel);
        self.wishes.woken.notify_one();
    }

    /// Sends a request of `session`'s client that `write` makes for an id of ours.
    ///
    /// # Errors
    /// Where the server is not connected: at once, but for a connection that is just being made for the first time.
    pub async fn begin(
        self: &Arc<Self>,
        session: &Arc<Session>,
        write: &(dyn Fn(u64) -> Bytes + Sync),
    ) -> Result<Exchange, Unavailable> {
        let ready = self.ready().await?;
        self.exchange(ready, session, write).await
    }

    /// As [`begin`](Self::begin), on a link younger than the one that `failed` with a lost session.
    ///
    /// # Errors
    /// As there.
    pub async fn begin_anew(
        self: &Arc<Self>,
        session: &Arc<Session>,
        failed: &Exchange,
        write: &(dyn Fn(u64) -> Bytes + Sync),
    ) -> Result<Exchange, Unavailable> {
        let ready = self.ready_after(failed.generation()).await?;
        self.exchange(ready, session, write).await
    }

    /// Wants to hear of the resource `uri`, the server's own URI, by [`Notice::Updated`]. Whatever the number of those who
    /// do, the server is asked once; the last one's end tells it so, and after a reconnect it is asked again.
    ///
    /// # Errors
    /// Where the server cannot be asked, or does not want it.
    pub async fn subscribe(self: &Arc<Self>, uri: &str) -> Result<Subscription, SubscribeError> {
        let ready = self.ready().await.map_err(SubscribeError::Unavailable)?;
        if !ready.hello.offers.subscribe {
            return Err(SubscribeError::Refused(Bytes::from_static(NO_SUBSCRIPTIONS)));
        }
        self.subscriptions.subscribe(uri).await.map_err(|missed| match missed {
            Missed::Full => {
                let what = format!("has {} subscriptions already, the limit", subscriptions::MOST);
                SubscribeError::Unavailable(Unavailable::soon(what))
            }
            Missed::Away => SubscribeError::Unavailable(self.state().unavailable()),
            Missed::Refused(error) => SubscribeError::Refused(error),
            Missed::Failed(generation, failure) => {
                self.doubt(generation, &failure);
                SubscribeError::Unavailable(self.unavailable_after(&failure))
            }
        })
    }

    /// Wants log messages of the server from `level` on, for as long as the wish is held. What comes is what the loudest
    /// wish of all asks for.
    pub fn want_level(&self, level: Level) -> LevelWish {
        self.levels.wish(level)
    }

    async fn exchange(
        self: &Arc<Self>,
        ready: Arc<Ready>,
        session: &Arc<Session>,
        write: &(dyn Fn(u64) -> Bytes + Sync),
    ) -> Result<Exchange, Unavailable> {
        match Exchange::open(ready, session, write).await {
            Ok(exchange) => Ok(exchange),
            Err((ready, failure)) => {
                self.doubt(ready.generation, &failure);
                Err(self.unavailable_after(&failure))
            }
        }
    }

    async fn ready(&self) -> Result<Arc<Ready>, Unavailable> {
        match self.state() {
            State::Ready(ready) => Ok(ready),
            State::Idle | State::Connecting | State::Down(_) | State::Stopped => self.ready_after(0).await,
        }
    }

    async fn ready_after(&self, generation: u64) -> Result<Arc<Ready>, Unavailable> {
        self.wishes.woken.notify_one(); // an idle one starts to connect
        let mut status = self.status.subscribe();
        let usable = |status: &Status| match &status.state {
            State::Ready(ready) => ready.generation > generation,
            State::Idle | State::Connecting => false,
            State::Down(_) | State::Stopped => true,
        };
        let state = match tokio::time::timeout(PATIENCE, status.wait_for(usable)).await {
            Ok(Ok(status)) => status.state.clone(),
            Ok(Err(_)) | Err(_) => self.state(),
        };
        if let State::Ready(ready) = &state
            && ready.generation > generation
        {
            return Ok(ready.clone());
        }
        Err(state.unavailable())
    }

    /// Tells the keeper that a call on the link `generation` met `failure`: it looks whether the link is still good.
    pub fn doubt(&self, generation: u64, failure: &Failure) {
        if state::ends_link(failure) {
            *self.wishes.doubted.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                Some((generation, failure.clone()));
            self.wishes.woken.notify_one();
        }
    }

    /// Tells the server in the background that nobody waits for `exchange` any more.
    pub fn cancel(&self, exchange: Exchange, reason: &'static str) {
        self.tasks.spawn(async move { drop(tokio::time::timeout(PATIENCE, exchange.cancel(reason)).await) });
    }

    /// Ends it: calls in flight may finish, late ones of an older snapshot too, then the link is closed. Returns at
    /// once.
    pub fn retire(&self) {
        self.stop.cancel();
    }

    /// As [`retire`](Self::retire), at the end of the process.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.stop.cancel();
    }
}
