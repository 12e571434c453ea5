//! The links of single callers to one server, where not all may share one: by whose they are, and by what of the server's
//! settings was filled in for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::behalf::{Behalf, Key, Linked, Whom};
use super::news::Hearers;
use super::pace::Pace;
use super::state::{Owner, RESTING, Ready, State, Unavailable};
use super::tender::Tender;
use super::{Doubt, Upstream};
use crate::config::{Reach, Values};
use crate::session::Session;
use crate::transport::Failure;

/// As many children as one server may have: each is a process, often of some hundred MiB.
const CHILDREN: usize = 64;
/// As many connections as one server over HTTP may have.
const SESSIONS: usize = 1000;

/// The links of single callers to one server.
#[derive(Debug, Default)]
pub(super) struct Own(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    lines: HashMap<Key, Arc<Line>>,
    /// After a failure attempts are few, whoever makes them.
    failing: Option<Pace>,
}

/// One caller's link through all its stages.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) key: Key,
    /// What is filled into the server's settings.
    pub(super) values: Option<Values>,
    /// The only session that uses it, if there is but one.
    pub(super) owner: Option<Owner>,
    pub(super) stage: watch::Sender<Stage>,
    /// Something is wanted of the tender.
    pub(super) woken: Notify,
    pub(super) doubted: Doubt,
    /// Ends with the session, or the request, whose it is; else when it is idle.
    pub(super) lease: CancellationToken,
    /// Its tender hears what the server says unasked.
    pub(super) hears: AtomicBool,
    used: Mutex<Instant>,
}

/// Which link a call wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) key: Key,
    pub(super) values: Option<Values>,
}

/// How a caller's link is.
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
    /// The caller's link, if it stands: his session's, or else his principal's.
    pub(super) fn standing(&self, behalf: Behalf<'_>) -> Option<Arc<Ready>> {
        let table = self.table();
        let of = |whom| table.lines.get(&Key { whom, values: None });
        let line = of(Whom::Session(behalf.session.serial()));
        let line = line.or_else(|| of(Whom::Principal(Some(behalf.session.principal()?.clone()))))?;
        line.touch();
        line.ready()
    }

    /// The session's link, if it stands.
    pub(super) fn of_session(&self, serial: u128) -> Option<Arc<Ready>> {
        let table = self.table();
        let line = table.lines.values().find(|line| line.is_of_session(serial))?;
        line.touch();
        line.ready()
    }

    /// The longest time for which one of the links is to be left alone, if any is.
    pub(super) fn resting(&self) -> Option<Duration> {
        self.table().lines.values().filter_map(|line| line.ready()?.resting()).max()
    }

    /// Has the tenders of a session's links look at what is wanted.
    pub(super) fn wake(&self, serial: u128) {
        for line in self.table().lines.values().filter(|line| line.is_of_session(serial)) {
            line.woken.notify_one();
        }
    }

    /// Ends a link: its calls may finish, and there are no new ones.
    pub(super) fn end(&self, key: &Key) {
        if let Some(line) = self.table().lines.remove(key) {
            line.lease.cancel();
        }
    }

    /// Tells whoever keeps the link `generation` what a call met. `false` where that is the keeper.
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
        let due = line.used() + idle;
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
        if self.lines.get(&line.key).is_some_and(|other| Arc::ptr_eq(other, line)) {
            self.lines.remove(&line.key);
        }
    }

    /// Whether somebody may dial now.
    fn may_dial(&mut self) -> Result<(), Instant> {
        self.failing.as_mut().map_or(Ok(()), Pace::take)
    }
}

impl Line {
    fn new(session: &Arc<Session>, Wanted { key, values }: Wanted) -> Self {
        let owner = || Owner { serial: session.serial(), session: Arc::downgrade(session) };
        let owner = match key.whom {
            Whom::Session(_) | Whom::Request(_) => Some(owner()),
            Whom::Anybody | Whom::Principal(_) => None,
        };
        Self {
            key,
            values,
            owner,
            stage: watch::Sender::new(Stage::Dialing),
            woken: Notify::new(),
            doubted: Doubt::default(),
            lease: CancellationToken::new(),
            hears: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
        }
    }

    /// The only session that uses it, as long as there is one.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.owner.as_ref()?.session.upgrade()
    }

    /// Who hears what comes over it and belongs to no call.
    pub(super) fn hearers(&self) -> Option<Hearers> {
        match (&self.key.whom, &self.values) {
            (Whom::Session(serial), _) => Some(Hearers::Session(*serial)),
            (Whom::Request(_), _) => self.owner.as_ref().map(|owner| Hearers::Session(owner.serial)),
            (Whom::Principal(Some(text)), _) => Some(Hearers::Principal(text.clone())),
            (Whom::Principal(None), None) => Some(Hearers::All),
            (Whom::Principal(None) | Whom::Anybody, _) => None,
        }
    }

    fn is_of_session(&self, serial: u128) -> bool {
        self.key.whom == Whom::Session(serial)
    }

    /// Whether nobody uses it just now. One of a single request goes with that.
    fn is_spare(&self) -> bool {
        let busy = || self.ready().is_some_and(|ready| !ready.calls.is_empty());
        let once = matches!(self.key.whom, Whom::Request(_));
        !once && !matches!(*self.stage.borrow(), Stage::Dialing) && !busy()
    }

    /// Whether a client is there that may hear what comes over it.
    fn is_followed(&self) -> bool {
        self.session().is_some_and(|session| session.attached())
    }

    fn ready(&self) -> Option<Arc<Ready>> {
        if let Stage::Ready(ready) = &*self.stage.borrow() { Some(ready.clone()) } else { None }
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When a call last wanted it, or ended on it.
    fn used(&self) -> Instant {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.ready().and_then(|ready| ready.flights.ended()).map_or(used, |ended| ended.max(used))
    }
}

impl Upstream {
    /// For how long it wants no calls although it is connected, if it asked for that, and as what to tell it; on one of its
    /// links at least, be it a single caller's.
    pub fn resting(&self) -> Option<(Duration, &'static str)> {
        let kept = match &self.status.borrow().state {
            State::Ready(ready) => ready.resting(),
            State::Idle | State::Connecting | State::Down(_) | State::PerCaller | State::Stopped => None,
        };
        Some((kept.max(self.own.resting())?, RESTING))
    }

    /// The link that is `wanted` on `behalf`, younger than `generation`; opened now if need be.
    pub(super) async fn own_link(
        self: &Arc<Self>,
        behalf: Behalf<'_>,
        wanted: Wanted,
        generation: u64,
    ) -> Result<Linked, Unavailable> {
        let line = self.line(behalf.session, wanted, generation)?;
        let once = matches!(line.key.whom, Whom::Request(_));
        let lease = once.then(|| line.lease.clone().drop_guard());
        let mut stage = line.stage.subscribe();
        let settled = |stage: &Stage| match stage {
            Stage::Ready(ready) => ready.generation > generation,
            Stage::Dialing => false,
            Stage::Lost { .. } | Stage::Over => true,
        };
        match stage.wait_for(settled).await.as_deref() {
            Ok(Stage::Ready(ready)) => Ok(Linked { ready: ready.clone(), lease }),
            Ok(Stage::Lost { why, next }) => Err(if once { why.clone() } else { why.until(*next) }),
            Ok(Stage::Dialing | Stage::Over) | Err(_) => {
                Err(Unavailable::soon("has just closed the connection of this session"))
            }
        }
    }

    /// The wanted line, standing or on its way.
    fn line(
        self: &Arc<Self>,
        session: &Arc<Session>,
        wanted: Wanted,
        generation: u64,
    ) -> Result<Arc<Line>, Unavailable> {
        let mut table = self.own.table();
        let known = table.lines.get(&wanted.key).filter(|line| !line.lease.is_cancelled()).cloned();
        let Some(line) = known else { return self.open(&mut table, session, wanted) };
        line.touch();
        let stage = line.stage.borrow().clone();
        match stage {
            Stage::Dialing => {}
            Stage::Ready(ready) if ready.generation > generation => {
                // Its client may listen by now. Waking the tender costs more than the call, so it is not done for nothing.
                if line.owner.is_some() && !line.hears.load(Ordering::Relaxed) && session.attached() {
                    line.woken.notify_one();
                }
            }
            Stage::Lost { why, next } if next > Instant::now() => return Err(why.until(next)),
            Stage::Lost { why, .. } => {
                table.may_dial().map_err(|next| why.until(next))?;
                line.redial();
            }
            Stage::Ready(_) => line.redial(), // a call has found it lost
            Stage::Over => return self.open(&mut table, session, wanted),
        }
        Ok(line)
    }

    fn open(
        self: &Arc<Self>,
        table: &mut Table,
        session: &Arc<Session>,
        wanted: Wanted,
    ) -> Result<Arc<Line>, Unavailable> {
        let most = self.shared.limits.connections.unwrap_or(match self.server.load().reach {
            Reach::Http(_) => SESSIONS,
            Reach::Stdio(_) => CHILDREN,
        });
        if table.lines.len() >= most && !table.make_room() {
            let what =
                format!("has {most} connections in use already, one for each caller, which is the limit");
            return Err(Unavailable::soon(what));
        }
        if !matches!(wanted.key.whom, Whom::Request(_)) {
            let failed = |next| Unavailable::soon("could not be connected a moment ago").until(next);
            table.may_dial().map_err(failed)?;
        }
        let line = Arc::new(Line::new(session, wanted));
        let tender = Tender::new(self.clone(), line.clone());
        if matches!(line.key.whom, Whom::Session(_))
            && !session.hold(tender.key(), line.lease.clone().drop_guard())
        {
            return Err(Unavailable::soon("cannot be connected: this session has ended, or holds too much"));
        }
        table.lines.insert(line.key.clone(), line.clone());
        drop(self.shared.tasks.spawn_on(tender.run(), &self.home));
        Ok(line)
    }
}

impl Table {
    /// Ends the link that nobody has used for longest, of those without a call: its client may have gone without a word, and
    /// where not, its next call dials anew. Those whose clients listen go last. `false` where all are in use.
    fn make_room(&mut self) -> bool {
        let spare = self.lines.values().filter(|line| line.is_spare());
        let spare = spare.min_by_key(|line| (line.is_followed(), line.used())).cloned();
        if let Some(line) = &spare {
            line.lease.cancel();
            self.take(line);
        }
        spare.is_some()
    }
}

impl Line {
    fn redial(&self) {
        self.stage.send_replace(Stage::Dialing);
        self.woken.notify_one();
    }
}
