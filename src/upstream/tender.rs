//! The task that keeps one caller's own link.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::behalf::Whom;
use super::ear::{Ear, Heard};
use super::era::Memory;
use super::greet::refuses;
use super::handshake::{Attempt, Face};
use super::levels;
use super::own::{Line, Stage};
use super::pace::Pace;
use super::running::{Running, finished};
use super::state::{Ready, State, Unavailable};
use super::{LATE_CALLS, Upstream};
use crate::config::Reach;
use crate::mcp::{Abilities, Level, abilities_for};
use crate::transport::Failure;

/// How long the server may take to hear of the session's log level before its first call.
const GREETING: Duration = Duration::from_secs(2);

/// Keeps one caller's own link: dials when a call wants it, listens, and ends with the session or the request whose it is,
/// with the upstream, or when nobody has used it for a while.
#[derive(Debug)]
pub(super) struct Tender {
    upstream: Arc<Upstream>,
    line: Arc<Line>,
    /// Under which the session holds it.
    key: String,
    pace: Pace,
    /// How often a lost session may be opened again whatever `pace` says.
    renewals: Pace,
}

/// Why a link is no longer tended.
enum End {
    Lost(Failure),
    Left(Option<Ear>),
}

impl Tender {
    pub(super) fn new(upstream: Arc<Upstream>, line: Arc<Line>) -> Self {
        let interval = upstream.shared.limits.reconnect_interval;
        let number = upstream.generation(); // a successor of this upstream must not meet its key
        let key = format!("link {} {number}", upstream.server.load().name);
        Self { upstream, line, key, pace: Pace::new(interval), renewals: Pace::new(interval) }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) async fn run(mut self) {
        while self.wanted().await {
            let (lease, closing) = (self.line.lease.clone(), self.upstream.closing.clone());
            let dialed = tokio::select! {
                () = lease.cancelled() => break,
                () = closing.cancelled() => break,
                dialed = self.dial() => dialed,
            };
            match dialed {
                Ok(ready) => {
                    self.line.stage.send_replace(Stage::Ready(ready.clone()));
                    match self.tend(&ready).await {
                        End::Left(ear) => {
                            self.drain(&ready, ear).await;
                            break;
                        }
                        End::Lost(failure) => self.lost(ready, &failure),
                    }
                }
                Err(why) => {
                    let next = self.pace.next().max(Instant::now());
                    self.line.stage.send_replace(Stage::Lost { why, next });
                }
            }
        }
        self.upstream.own.take(&self.line);
        self.line.stage.send_replace(Stage::Over);
        if let Some(session) = self.line.session() {
            session.give_back(&self.key);
        }
    }

    /// Waits until a call wants the link. `false` where none will.
    async fn wanted(&self) -> bool {
        let mut stage = self.line.stage.subscribe();
        let dialing = pin!(stage.wait_for(|stage| matches!(stage, Stage::Dialing)));
        tokio::select! {
            biased;
            () = self.line.lease.cancelled() => false,
            dialing = dialing => dialing.is_ok(),
            () = self.upstream.stop.cancelled() => false,
            () = self.idle() => false,
        }
    }

    /// One attempt, if the pace allows it.
    async fn dial(&mut self) -> Result<Arc<Ready>, Unavailable> {
        let (upstream, line) = (&self.upstream, &self.line);
        if self.pace.take().is_err() {
            return Err(Unavailable::soon("has lost the connection of this session"));
        }
        let server = upstream.server();
        let server = match &line.values {
            None => server,
            Some(values) => match server.filled(values) {
                Some(filled) => Arc::new(filled),
                None => return Err(Unavailable::lasting("cannot be reached with what this request brings")),
            },
        };
        let session = line.session();
        let face = match (&line.owner, &session) {
            (None, _) => Face::Anyone,
            (Some(_), None) => return Err(Unavailable::soon("has nobody to connect for")),
            (Some(owner), Some(session)) => {
                let capabilities = abilities_for(&session.agreed().capabilities, !server.roots.is_empty());
                Face::One(owner.clone(), capabilities)
            }
        };
        let attempt = Attempt {
            dialer: &upstream.shared.dialer,
            server: &server,
            series: Some(&upstream.series),
            generation: upstream.generation(),
            limit: server.connect_timeout,
            face,
            order: upstream.order_for(&line.key.whom),
            // A personal link has no kept one to learn from.
            gate: upstream.gate.clone(),
            memory: if line.values.is_some() { &upstream.memory } else { &Memory::default() },
        };
        let mut ready = match attempt.connect().await {
            Ok(ready) => ready,
            Err(failure) => return Err(self.failed(&failure)),
        };
        upstream.own.succeeded();
        (ready.hearers, ready.filled) = (line.hearers(), line.values.is_some());
        let ready = Arc::new(ready);
        if let Some(level) = session.and_then(|session| session.level()) {
            drop(timeout(GREETING, tell(ready.clone(), level)).await);
        }
        Ok(ready)
    }

    /// Why there is no link, for whoever wants it.
    fn failed(&mut self, failure: &Failure) -> Unavailable {
        let (upstream, line) = (&self.upstream, &self.line);
        let mirrors = line.values.is_none() && matches!(line.key.whom, Whom::Session(_));
        if mirrors && upstream.is_mirrored() && refuses(failure) {
            upstream.modern_only.store(true, Ordering::Release);
            if let State::Ready(kept) = upstream.state()
                && !kept.is_modern()
            {
                kept.suspected.notify_one(); // it was another server that the keeper met
            }
            return Unavailable::soon("speaks no revision with sessions");
        }
        tracing::warn!(server = %upstream.server().name, "a caller's own connection could not be made: {failure}");
        // What a caller brings may be what is wrong, and must not keep others away.
        let theirs = line.values.is_some() && !matches!(failure, Failure::Unreachable(_));
        if theirs {
            upstream.own.succeeded(); // it was reached
        } else if !matches!(line.key.whom, Whom::Request(_)) {
            upstream.own.failed(upstream.shared.limits.reconnect_interval);
        }
        if let Some(after) = failure.retry_after() {
            self.pace.put_off(after);
        }
        upstream.unavailable_after(failure)
    }

    /// Looks after a link until it is lost or may go.
    async fn tend(&self, ready: &Arc<Ready>) -> End {
        let (upstream, line) = (&self.upstream, &self.line);
        let mut ear = self.ear(ready);
        let mut told = line.session().and_then(|session| session.level());
        let mut telling: Option<Running<()>> = None;
        // Of a link that several sessions use the server is told the loudest wish.
        let mut levels = pin!(async {
            match line.owner {
                None => upstream.levels.keep(ready).await,
                Some(_) => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                () = line.lease.cancelled() => return End::Left(ear),
                () = upstream.stop.cancelled() => return End::Left(ear),
                () = self.idle() => return End::Left(ear),
                heard = hear(&mut ear) => match heard {
                    Ok(Heard::Message(message)) => {
                        let changed = upstream.heard(ready, message).await;
                        if !changed.is_empty() {
                            upstream.changed_on(line, changed);
                        }
                    }
                    Ok(Heard::Open | Heard::Deaf) => {}
                    Err(failure) => return End::Lost(failure),
                },
                // Whether it is so shows with the next greeting.
                () = ready.suspected.notified() => return End::Lost(Failure::SessionGone),
                () = line.woken.notified() => {
                    if let Some(failure) = line.doubted.of(ready) {
                        return End::Lost(failure);
                    }
                    if matches!(*line.stage.borrow(), Stage::Dialing) {
                        return End::Lost(Failure::SessionGone);
                    }
                    if ear.is_none() {
                        ear = self.ear(ready);
                    }
                    let level = line.session().and_then(|session| session.level());
                    if level != told && telling.is_none() {
                        told = level;
                        telling = level.map(|level| tell(ready.clone(), level));
                    }
                }
                () = &mut levels => {} // never
                () = finished(&mut telling) => {
                    telling = None;
                    line.woken.notify_one(); // it may be another one by now
                }
            }
        }
    }

    /// What hears the server speak unasked. Where that takes a stream more, only for a client that would hear it.
    fn ear(&self, ready: &Arc<Ready>) -> Option<Ear> {
        let process = matches!(self.upstream.server().reach, Reach::Stdio(_));
        let listens = || {
            self.line
                .session()
                .is_some_and(|session| session.attached() || session.abilities() != Abilities::default())
        };
        let interval = self.upstream.shared.limits.reconnect_interval;
        let hears = ready.link.has_one_stream() || listens();
        self.line.hears.store(hears, Ordering::Relaxed);
        hears.then(|| Ear::new(ready.clone(), process, interval))
    }

    /// Waits until the link has not been used for a while, and takes it out of the table.
    async fn idle(&self) {
        let limit = self.upstream.shared.limits.connection_idle;
        while let Err(later) = self.upstream.own.take_idle(&self.line, limit) {
            sleep_until(later).await;
        }
    }

    /// The link is gone. It is dialled again when a call wants it.
    fn lost(&mut self, ready: Arc<Ready>, failure: &Failure) {
        let server = self.upstream.server();
        tracing::debug!(server = %server.name, "a session's own connection is lost: {failure}");
        ready.over.cancel();
        let limit = self.upstream.shared.limits.drain_timeout;
        self.upstream.shared.tasks.spawn(async move {
            ready.calls.close();
            drop(timeout(limit, ready.calls.wait()).await);
            ready.link.close().await;
        });
        if *failure == Failure::SessionGone && self.renewals.take().is_ok() {
            self.pace.open();
        }
        let (why, next) = (Unavailable::of(failure), self.pace.next());
        self.line.stage.send_if_modified(|stage| {
            // A call may want the next one already.
            let stands = matches!(stage, Stage::Ready(_));
            if stands {
                *stage = Stage::Lost { why, next };
            }
            stands
        });
    }

    /// Lets calls in flight finish, and late ones of an older snapshot come in, then closes the link.
    async fn drain(&self, ready: &Arc<Ready>, mut ear: Option<Ear>) {
        let upstream = &self.upstream;
        let drained = pin!(async {
            if upstream.closing.is_cancelled() {
                return ready.last_words().await;
            }
            if upstream.stop.is_cancelled() && !self.line.lease.is_cancelled() {
                sleep(LATE_CALLS).await;
            }
            upstream.own.take(&self.line);
            ready.calls.close();
            drop(timeout(upstream.shared.limits.drain_timeout, ready.calls.wait()).await);
        });
        let hearing = pin!(async {
            while let Ok(heard) = hear(&mut ear).await {
                if let Heard::Message(message) = heard {
                    upstream.heard(ready, message).await;
                }
            }
            std::future::pending::<()>().await;
        });
        tokio::select! {
            () = drained => {}
            () = hearing => {}
        }
        ready.over.cancel();
        ready.link.close().await;
    }
}

/// Tells the server the level of log messages that the session wants, if it logs at all.
fn tell(ready: Arc<Ready>, level: Level) -> Running<()> {
    Box::pin(async move {
        if ready.hello.offers.logging {
            levels::set(&ready, level).await;
        }
    })
}

async fn hear(ear: &mut Option<Ear>) -> Result<Heard, Failure> {
    match ear {
        Some(ear) => ear.hear().await,
        None => std::future::pending().await,
    }
}
