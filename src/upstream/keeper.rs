//! The task that keeps one server connected.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::ear::{Ear, Heard};
use super::handshake::{Attempt, Face};
use super::lists::{Found, list};
use super::news::Hearers;
use super::pace::Pace;
use super::pulse::Pulse;
use super::refresh::{jittered, offered, refresh, soon, tells_all};
use super::running::{Running, due, finished};
use super::state::{Ready, State, Why};
use super::{LATE_CALLS, Upstream};
use crate::catalog::Listing;
use crate::config::{Limits, Reach};
use crate::mcp::{Feature, Features};
use crate::names::ServerName;
use crate::transport::Failure;

pub(super) struct Keeper {
    upstream: Arc<Upstream>,
    limits: Limits,
    pace: Pace,
    /// How often a lost session may be opened again whatever `pace` says: the server answers, so it is not away.
    renewals: Pace,
    /// How many links there were.
    links: u64,
    attempt: u32,
    /// What was last logged, so that an outage makes one line and not one per attempt.
    logged: Option<String>,
    /// The server wants to be asked for its lists no sooner than so much later.
    list_after: Duration,
    down_since: Option<Instant>,
}

/// Why a link is no longer tended.
enum End {
    Failed(Failure),
    Stopped(Box<Ear>),
}

type Relisting = Running<Result<Found, Failure>>;

impl Keeper {
    pub(super) fn new(upstream: Arc<Upstream>) -> Self {
        let limits = upstream.shared.limits.clone();
        Self {
            pace: Pace::new(limits.reconnect_interval),
            renewals: Pace::new(limits.reconnect_interval),
            limits,
            links: 0,
            attempt: 0,
            logged: None,
            list_after: Duration::ZERO,
            down_since: None,
            upstream,
        }
    }

    /// Connects, tends, and connects again, until the upstream is stopped.
    pub(super) async fn run(mut self) {
        let stop = self.upstream.stop.clone();
        self.publish(self.upstream.state());
        if matches!(self.upstream.state(), State::PerCaller) {
            stop.cancelled().await;
            return self.publish(State::Stopped);
        }
        if matches!(self.upstream.state(), State::Idle) {
            tokio::select! {
                () = stop.cancelled() => return self.publish(State::Stopped),
                () = self.upstream.wishes.woken.notified() => {}
            }
        }
        loop {
            let connected = tokio::select! {
                () = stop.cancelled() => break,
                connected = self.connect() => connected,
            };
            let failure = match connected {
                Ok(ready) => match self.tend(&ready).await {
                    End::Stopped(ear) => {
                        self.drain(&ready, *ear).await;
                        break;
                    }
                    End::Failed(failure) => {
                        self.release(ready);
                        if failure == Failure::SessionGone && self.renewals.take().is_ok() {
                            self.pace.open();
                        }
                        failure
                    }
                },
                Err(failure) => failure,
            };
            self.fail(&failure);
        }
        self.publish(State::Stopped);
    }

    /// One attempt, as soon as the pace allows it.
    async fn connect(&mut self) -> Result<Arc<Ready>, Failure> {
        if self.pace.next() > Instant::now() {
            self.upstream.series.throttled();
            sleep_until(self.pace.next()).await;
        }
        while let Err(next) = self.pace.take() {
            sleep_until(next).await;
        }
        self.attempt += 1;
        if self.links > 0 || self.attempt > 1 {
            self.upstream.series.reconnect("lost");
        }
        let server = self.upstream.server();
        let mut limit = server.connect_timeout;
        if !matches!(self.upstream.state(), State::Down(_)) {
            self.publish(State::Connecting);
        } else if matches!(server.reach, Reach::Http(_)) {
            // An attempt that hangs must not put off the one that would succeed. Children may need long to start.
            limit = limit.min(RETRY_TIME);
        }
        let attempt = Attempt {
            dialer: &self.upstream.shared.dialer,
            server: &server,
            series: Some(&self.upstream.series),
            generation: self.upstream.generation(),
            limit,
            face: Face::Anyone,
            order: None,
            memory: &self.upstream.memory,
            gate: self.upstream.gate.clone(),
        };
        let mut ready = attempt.connect().await?;
        (ready.kept, ready.hearers) = (true, Some(Hearers::All));
        self.links += 1;
        self.attempt = 0;
        self.down_since = None;
        let ready = Arc::new(ready);
        self.upstream.modern_only.store(false, Ordering::Release);
        let before = self.upstream.hello.swap(Some(ready.hello.clone()));
        if before.is_some_and(|before| before.revision.is_modern() != ready.is_modern()) {
            self.upstream.own.disown_all();
        }
        if self.logged.take().is_some() || self.links == 1 {
            let hello = &ready.hello;
            tracing::info!(server = %server.name, revision = %hello.revision, name = hello.server.name, "connected");
        }
        self.upstream.subscriptions.attach(&ready);
        self.upstream.gate.breaker.renew();
        self.publish(State::Ready(ready.clone()));
        Ok(ready)
    }

    /// Looks after a link: listens, lists, until it fails or the upstream is stopped.
    async fn tend(&mut self, ready: &Arc<Ready>) -> End {
        let upstream = self.upstream.clone();
        let process = matches!(upstream.server().reach, Reach::Stdio(_));
        let interval = self.limits.reconnect_interval;
        let mut ear = if ready.is_modern() {
            Ear::listener(ready.clone(), upstream.subscriptions.clone(), interval)
        } else {
            Ear::new(ready.clone(), process, interval)
        };
        let mut levels = pin!(upstream.levels.keep(ready));
        let (mut hears, mut heard_before) = (false, false);
        let (mut relisting, mut pulse): (Option<Relisting>, _) = (None, Pulse::default());
        let mut next_list = Some(Instant::now());
        let mut listed_at = None;
        // After a reconnect anything may have changed.
        let (mut wanted, mut announce) = (Features::ALL, Features::NONE);
        if self.links > 1 {
            announce = offered(&ready.hello.offers);
        }
        loop {
            let due = due(next_list.filter(|_| relisting.is_none()));
            tokio::select! {
                () = upstream.stop.cancelled() => return End::Stopped(Box::new(ear)),
                said = ear.hear() => match said {
                    Ok(Heard::Message(message)) => {
                        let changed = self.upstream.heard(ready, message).await;
                        if !changed.is_empty() {
                            (wanted, announce) = (wanted.and(changed), announce.and(changed));
                            next_list = Some(soon(next_list, listed_at));
                        }
                    }
                    Ok(Heard::Open) => {
                        hears = tells_all(&ready.hello.offers);
                        if std::mem::replace(&mut heard_before, true) {
                            wanted = Features::ALL; // what it told meanwhile was missed
                            next_list = Some(soon(next_list, listed_at));
                        }
                    }
                    Ok(Heard::Deaf) => {
                        hears = false;
                        if heard_before {
                            wanted = Features::ALL; // whether it still is what it was
                            next_list = Some(soon(next_list, listed_at));
                        }
                    }
                    Err(failure) => return End::Failed(failure),
                },
                () = ready.suspected.notified() => {
                    wanted = Features::ALL;
                    next_list = Some(soon(next_list, listed_at));
                }
                () = upstream.wishes.woken.notified() => {
                    if let Some(failure) = upstream.wishes.doubted.of(ready) {
                        return End::Failed(failure);
                    }
                    let changed = upstream.wishes.changed();
                    if upstream.wishes.relist.swap(false, Ordering::AcqRel) {
                        wanted = Features::ALL;
                    }
                    (wanted, announce) = (wanted.and(changed), announce.and(changed));
                    if !wanted.is_empty() {
                        next_list = Some(soon(next_list, listed_at));
                    }
                }
                () = &mut levels => {} // never
                failure = pulse.stops(ready, interval, upstream.server().connect_timeout) => return End::Failed(failure),
                () = due => {
                    next_list = None;
                    listed_at = Some(Instant::now());
                    relisting = Some(self.relist(ready, std::mem::take(&mut wanted)));
                }
                listed = finished(&mut relisting) => {
                    relisting = None;
                    if let Some(failure) = self.listed(listed, std::mem::take(&mut announce)) {
                        return End::Failed(failure);
                    }
                    // A wish in the meantime stands.
                    let refresh = if upstream.unlisted().is_some() {
                        pulse.doubt();
                        interval.min(self.limits.refresh_interval).max(self.list_after)
                    } else {
                        refresh(&self.limits, hears, upstream.listing().as_deref())
                    };
                    if next_list.is_none() {
                        wanted = Features::ALL;
                        next_list = Some(Instant::now() + jittered(refresh, self.links));
                    }
                }
            }
        }
    }

    fn relist(&self, ready: &Arc<Ready>, features: Features) -> Relisting {
        let (ready, limit) = (ready.clone(), self.upstream.server().connect_timeout);
        self.upstream.status.send_modify(|status| status.lists_begun += 1);
        let known = self.upstream.listing().map(|known| (*known).clone()).unwrap_or_default();
        Box::pin(list(ready, features, known, limit))
    }

    /// Takes a listing in. An incomplete one never replaces a good one.
    fn listed(&mut self, listed: Result<Found, Failure>, announce: Features) -> Option<Failure> {
        let upstream = self.upstream.clone();
        let name = &upstream.server().name;
        let (found, failed, fatal) = match listed {
            Ok(found) => (Some(found.listing), found.failed, None),
            Err(fatal) => (None, Some(fatal.clone()), Some(fatal)),
        };
        if let Some(listing) = found {
            if listing.cut().is_some() {
                upstream.series.listing_truncated();
            }
            upstream.series.tools(listing.of(Feature::Tool).len());
            let known = upstream.listing.load();
            let differs = |feature: &Feature| {
                known.as_deref().is_none_or(|known| known.of(*feature) != listing.of(*feature))
            };
            let changed = Feature::ALL.into_iter().filter(differs).collect();
            if known.as_deref() != Some(&listing) {
                warn_of(name, &listing);
                upstream.listing.store(Some(Arc::new(listing)));
            }
            upstream.count_changes(announce.and(changed));
        }
        if let Some(failure) = &failed {
            tracing::warn!(server = %name, "what it has could not be listed: {failure}");
        }
        self.list_after = failed.as_ref().and_then(Failure::retry_after).unwrap_or_default();
        upstream.unlisted.store(failed.map(|failure| Arc::new(failure.to_string())));
        if fatal.is_none() {
            upstream.status.send_modify(|status| status.listed = status.lists_begun);
        }
        upstream.shared.news.tell();
        fatal
    }

    /// The link is lost or could not be made.
    fn fail(&mut self, failure: &Failure) {
        let upstream = self.upstream.clone();
        let server = upstream.server();
        let what = failure.to_string();
        if self.logged.as_ref() != Some(&what) {
            tracing::warn!(server = %server.name, "not connected: {what}; tried again every {:?}", self.limits.reconnect_interval);
            self.logged = Some(what.clone());
        }
        let since = *self.down_since.get_or_insert_with(Instant::now);
        let unauthorized = matches!(failure, Failure::Unauthorized { .. });
        if let Some(after) = failure.retry_after() {
            self.pace.put_off(after);
        }
        let next = self.pace.next();
        if next <= Instant::now() && !unauthorized && self.attempt == 0 {
            return; // connected again at once: no outage
        }
        self.publish(State::Down(Arc::new(Why { since, what, next, unauthorized })));
        self.upstream.shared.news.tell();
    }

    /// Lets calls in flight finish and late ones of an older snapshot come in, then closes the link.
    async fn drain(&self, ready: &Arc<Ready>, mut ear: Ear) {
        let drained = pin!(async {
            if self.upstream.closing.is_cancelled() {
                return ready.last_words().await; // whoever closes everything has drained the calls before
            }
            sleep(LATE_CALLS).await;
            ready.calls.close();
            drop(timeout(self.limits.drain_timeout, ready.calls.wait()).await);
        });
        let hearing = pin!(async {
            while let Ok(heard) = ear.hear().await {
                if let Heard::Message(message) = heard {
                    self.upstream.heard(ready, message).await;
                }
            }
            std::future::pending::<()>().await;
        });
        tokio::select! {
            () = drained => {}
            () = hearing => {}
        }
        self.publish(State::Stopped);
        self.upstream.subscriptions.detach(ready);
        ready.over.cancel();
        ready.link.close().await;
    }

    /// Closes a lost link in the background; the next attempt need not wait for it. Calls in flight may finish: where a
    /// session is gone, each of them hears so itself and is sent again.
    fn release(&self, ready: Arc<Ready>) {
        let limit = self.limits.drain_timeout;
        self.upstream.subscriptions.detach(&ready);
        ready.over.cancel();
        self.upstream.shared.tasks.spawn(async move {
            ready.calls.close();
            drop(timeout(limit, ready.calls.wait()).await);
            ready.link.close().await;
        });
    }

    fn publish(&self, state: State) {
        self.upstream.status.send_modify(|status| {
            self.upstream.measure(&state);
            status.state = state;
        });
    }
}

/// How long an attempt may take while an HTTP server is down: as long as the usual pace.
const RETRY_TIME: Duration = Duration::from_secs(10);

/// Says what of its lists is not there, once for each that is another.
fn warn_of(server: &ServerName, listing: &Listing) {
    if let Some(cut) = listing.cut() {
        tracing::warn!(%server, "only a part of what it has is listed: {cut}");
    }
    let left_out = listing.dropped();
    if left_out.count() > 0 {
        let (bad, twins) = (left_out.bad, left_out.twins);
        tracing::warn!(%server, bad, twins, "left out of its lists: without a name or schema, or with another's name");
    }
}
