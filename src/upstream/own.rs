//! The links of single sessions to one server, where sessions must not share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::state::{Owner, Ready, Unavailable};
use super::tender::Tender;
use super::{Doubt, Upstream};
use crate::config::Reach;
use crate::session::Session;
use crate::transport::Failure;

/// As many children as one server may have: each is a process, often of some hundred MiB.
const CHILDREN: usize = 64;
/// As many sessions as one server over HTTP may have.
const SESSIONS: usize = 1000;

/// The links of single sessions to one server, by the sessions' serials.
#[derive(Debug, Default)]
pub(super) struct Own(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    lines: HashMap<u128, Arc<Line>>,
    /// After a failure attempts are few, whoever makes them.
    failing: Option<Pace>,
}

/// One session's link through all its stages.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) owner: Owner,
    pub(super) stage: watch::Sender<Stage>,
    /// Something is wanted of the tender.
    pub(super) woken: Notify,
    pub(super) doubted: Doubt,
    /// Ends with the session.
    pub(super) lease: CancellationToken,
    used: Mutex<Instant>,
}

/// How a session's link is.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// Being connected. Whoever wants a call may bring a lost one to this.
    Dialing,
    Ready(Arc<Ready>),
    /// Gone; dialled again when it is wanted, not before `next`.
    Lost {
        why: Unavailable,
        next: Instant,
    },
    /// Gone for good.
    Over,
}

impl Own {
    /// The session's link, if it stands.
    pub(super) fn ready(&self, session: &Session) -> Option<Arc<Ready>> {
        let table = self.table();
        let line = table.lines.get(&session.serial())?;
        line.touch();
        line.ready()
    }

    /// Has the tender of a session's link look at what is wanted.
    pub(super) fn wake(&self, serial: u128) {
        if let Some(line) = self.table().lines.get(&serial) {
            line.woken.notify_one();
        }
    }

    /// Tells whoever keeps the link `generation` what a call met. `false` where it is no session's own.
    pub(super) fn doubt(&self, generation: u64, failure: &Failure) -> bool {
        let table = self.table();
        let is_it = |line: &&Arc<Line>| line.ready().is_some_and(|ready| ready.generation == generation);
        let Some(line) = table.lines.values().find(is_it) else { return false };
        line.doubted.tell(generation, failure);
        line.woken.notify_one();
        true
    }

    /// The server speaks another era now: what was agreed with it on these links holds no more.
    pub(super) fn disown_all(&self) {
        for line in self.table().lines.values() {
            if let Some(ready) = line.ready() {
                line.doubted.tell(ready.generation, &Failure::SessionGone);
                line.woken.notify_one();
            }
        }
    }

    /// An attempt has failed: until the next one that succeeds there is one per interval.
    pub(super) fn failed(&self, interval: Duration) {
        self.table().failing.get_or_insert_with(|| {
            let mut pace = Pace::new(interval);
            pace.take().ok();
            pace
        });
    }

    pub(super) fn succeeded(&self) {
        self.table().failing = None;
    }

    /// Takes a link out that has been idle so long; `Err` is when to look again.
    pub(super) fn take_idle(&self, line: &Arc<Line>, idle: Duration) -> Result<(), Instant> {
        let mut table = self.table();
        let ready = line.ready();
        if ready.as_ref().is_some_and(|ready| !ready.calls.is_empty()) {
            return Err(Instant::now() + idle);
        }
        let ended = ready.and_then(|ready| ready.flights.ended());
        let due = line.used().max(ended.unwrap_or(line.used())) + idle;
        if due > Instant::now() {
            return Err(due);
        }
        table.take(line);
        Ok(())
    }

    /// Takes a link out, so that no more calls come.
    pub(super) fn take(&self, line: &Arc<Line>) {
        self.table().take(line);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn take(&mut self, line: &Arc<Line>) {
        let serial = line.owner.serial;
        if self.lines.get(&serial).is_some_and(|other| Arc::ptr_eq(other, line)) {
            self.lines.remove(&serial);
        }
    }

    /// Whether somebody may dial now.
    fn may_dial(&mut self) -> Result<(), Instant> {
        self.failing.as_mut().map_or(Ok(()), Pace::take)
    }
}

impl Line {
    fn new(session: &Arc<Session>) -> Self {
        Self {
            owner: Owner { serial: session.serial(), session: Arc::downgrade(session) },
            stage: watch::Sender::new(Stage::Dialing),
            woken: Notify::new(),
            doubted: Doubt::default(),
            lease: CancellationToken::new(),
            used: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn session(&self) -> &Weak<Session> {
        &self.owner.session
    }

    fn ready(&self) -> Option<Arc<Ready>> {
        if let Stage::Ready(ready) = &*self.stage.borrow() { Some(ready.clone()) } else { None }
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstream {
    /// The session's own link, younger than `generation`; opened now if need be.
    pub(super) async fn own_link(
        self: &Arc<Self>,
        session: &Arc<Session>,
        generation: u64,
    ) -> Result<Arc<Ready>, Unavailable> {
        let line = self.line(session, generation)?;
        let mut stage = line.stage.subscribe();
        let settled = |stage: &Stage| match stage {
            Stage::Ready(ready) => ready.generation > generation,
            Stage::Dialing => false,
            Stage::Lost { .. } | Stage::Over => true,
        };
        match stage.wait_for(settled).await.as_deref() {
            Ok(Stage::Ready(ready)) => Ok(ready.clone()),
            Ok(Stage::Lost { why, next }) => Err(why.until(*next)),
            Ok(Stage::Dialing | Stage::Over) | Err(_) => {
                Err(Unavailable::soon("has just closed the connection of this session"))
            }
        }
    }

    /// The session's line, standing or on its way.
    fn line(self: &Arc<Self>, session: &Arc<Session>, generation: u64) -> Result<Arc<Line>, Unavailable> {
        let mut table = self.own.table();
        let known = table.lines.get(&session.serial()).filter(|line| !line.lease.is_cancelled()).cloned();
        let Some(line) = known else { return self.open(&mut table, session) };
        line.touch();
        let stage = line.stage.borrow().clone();
        match stage {
            Stage::Dialing => {}
            Stage::Ready(ready) if ready.generation > generation => {
                // The tender looks at what the session wants of its link by now.
                line.woken.notify_one();
            }
            Stage::Lost { why, next } if next > Instant::now() => return Err(why.until(next)),
            Stage::Lost { why, .. } => {
                table.may_dial().map_err(|next| why.until(next))?;
                line.redial();
            }
            Stage::Ready(_) => line.redial(), // a call has found it lost
            Stage::Over => return self.open(&mut table, session),
        }
        Ok(line)
    }

    fn open(self: &Arc<Self>, table: &mut Table, session: &Arc<Session>) -> Result<Arc<Line>, Unavailable> {
        let most = self.shared.limits.connections.unwrap_or(match self.server.load().reach {
            Reach::Http(_) => SESSIONS,
            Reach::Stdio(_) => CHILDREN,
        });
        if table.lines.len() >= most {
            let what = format!("has {most} connections already, one for each session, which is the limit");
            return Err(Unavailable::soon(what));
        }
        let failed = |next| Unavailable::soon("could not be connected a moment ago").until(next);
        table.may_dial().map_err(failed)?;
        let line = Arc::new(Line::new(session));
        let tender = Tender::new(self.clone(), line.clone());
        if !session.hold(tender.key(), line.lease.clone().drop_guard()) {
            return Err(Unavailable::soon("cannot be connected: this session has ended, or holds too much"));
        }
        table.lines.insert(session.serial(), line.clone());
        drop(self.shared.tasks.spawn_on(tender.run(), &self.home));
        Ok(line)
    }
}

impl Line {
    fn redial(&self) {
        self.stage.send_replace(Stage::Dialing);
        self.woken.notify_one();
    }
}
