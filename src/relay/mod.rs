//! One message of a client in, where it goes, the answer out.
//!
//! No HTTP; no state but which unknown tools were asked for lately, and which URIs servers named.

mod answer;
mod asides;
mod caching;
mod call;
mod discover;
mod follow;
mod forward;
mod hold;
mod initialize;
mod legs;
mod level;
mod listen;
mod misses;
mod notes;
mod own;
mod pass;
mod project;
mod refusal;
mod request;
mod resources;
mod rounds;
mod route;
mod tasks;
mod tool;
mod uris;
mod visits;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

pub use call::{Call, Step};
pub use listen::Listen;
pub use refusal::Refusal;

use crate::auth::Handed;
use crate::catalog::{Audience, BadCursor, Start, View};
use crate::clock::Clock;
use crate::fleet::{Fleet, Snapshot};
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::{Feature, IDENTITY, Shown, method};
use crate::metrics::Metrics;
use crate::session::{BeginError, Keyring, Session};
use crate::upstream::{Behalf, Upstream};
use crate::wire::{self, Kind, Message};
use hold::{Holds, State};
use misses::Misses;
use request::Errand;
use tasks::Awaited;
use uris::Sightings;

/// Takes clients' messages to where they belong.
#[derive(Debug)]
pub struct Relay {
    fleet: Arc<Fleet>,
    /// Deadlines of calls.
    clock: Arc<Clock>,
    metrics: Arc<Metrics>,
    /// Seals ids of tasks.
    keys: Arc<Keyring>,
    holds: Arc<Holds>,
    /// Tasks that we wait for in place of clients that look at them.
    awaited: Awaited,
    misses: Misses,
    sightings: Sightings,
    /// Calls whose clients have hung up, since a hang-up is not a cancellation; and what is told to servers.
    orphans: TaskTracker,
    /// Clients' notifications on their way to servers.
    telling: Arc<Semaphore>,
    /// Clients without sessions that listen.
    listening: Arc<Semaphore>,
}

/// Most clients' notifications that are on their way at a time.
const TELLING: usize = 256;

/// Who sent a message, and to which view.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The client's stay.
    pub session: Arc<Session>,
    /// The path.
    pub view: View,
    /// The client takes a stream of events as the answer.
    pub events: bool,
    /// The arguments that its headers repeat.
    pub shown: Shown,
    /// Those of its headers that servers get.
    pub handed: Option<Arc<Handed>>,
}

impl Caller {
    /// For whom its requests are.
    fn behalf(&self) -> Behalf<'_> {
        Behalf { session: &self.session, handed: self.handed.as_ref() }
    }
}

/// What becomes of a message.
#[derive(Debug)]
pub enum Handled {
    /// Its answer.
    Now(Bytes),
    /// Its answer takes time.
    Later(Call),
    /// There is no room for it now: this is its answer, and the client should come again.
    Busy(Bytes),
    /// It wants none.
    Accepted,
}

impl Handled {
    /// What becomes of the request `id` that cannot begin.
    fn unbegun(error: BeginError, id: &[u8]) -> Self {
        let answer = Refusal::Begin(error).answer(Some(id));
        if error == BeginError::Overloaded { Self::Busy(answer) } else { Self::Now(answer) }
    }
}

impl Relay {
    /// A relay to the servers of `fleet`.
    pub fn new(fleet: Arc<Fleet>, clock: Arc<Clock>, keys: Arc<Keyring>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            holds: Arc::new(Holds::new(fleet.limits())),
            awaited: Awaited::default(),
            listening: Arc::new(Semaphore::new(fleet.limits().sessions.min(Semaphore::MAX_PERMITS))),
            fleet,
            clock,
            metrics,
            keys,
            misses: Misses::default(),
            sightings: Sightings::default(),
            orphans: TaskTracker::new(),
            telling: Arc::new(Semaphore::new(TELLING)),
        })
    }

    /// Whether there is such a view.
    pub fn has_view(&self, view: &View) -> bool {
        match view {
            View::All => true,
            View::One(server) => self.fleet.snapshot().upstreams.contains_key(server),
            View::Named(name) => self.fleet.snapshot().config.views.contains_key(name),
        }
    }

    /// Takes any other message.
    pub fn handle(self: &Arc<Self>, caller: &Caller, message: Message) -> Handled {
        match message.kind() {
            Kind::Request => self.request(caller, message),
            Kind::Notification => {
                self.notification(caller, message);
                Handled::Accepted
            }
            Kind::Result | Kind::Error => {
                let message = self.open_tasks(caller.session.principal(), &message).unwrap_or(message);
                if !caller.session.answered(message) {
                    tracing::debug!("an answer to what nobody asks any more");
                }
                Handled::Accepted
            }
        }
    }

    fn request(self: &Arc<Self>, caller: &Caller, message: Message) -> Handled {
        let id = message.id().unwrap_or_default();
        match message.method() {
            method::PING => Handled::Now(wire::response(&id, b"{}")),
            method::DISCOVER if caller.session.is_guest() => Handled::Now(self.discover(&caller.view, &id)),
            method::TOOLS_CALL => self.asking(caller, message, tool::call),
            method::PROMPTS_GET => self.asking(caller, message, route::prompt),
            method::COMPLETE => self.later(caller, message, route::complete),
            method::RESOURCES_READ => self.asking(caller, message, resources::read),
            method::RESOURCES_SUBSCRIBE => self.later(caller, message, resources::subscribe),
            method::RESOURCES_UNSUBSCRIBE => self.later(caller, message, resources::unsubscribe),
            method::TASKS_GET | method::TASKS_RESULT | method::TASKS_UPDATE | method::TASKS_CANCEL => {
                self.later(caller, message, tasks::about)
            }
            method::TASKS_LIST => self.later(caller, message, tasks::list),
            method::SET_LEVEL => Handled::Now(
                level::set(self, caller, &message).unwrap_or_else(|refusal| refusal.answer(Some(&id))),
            ),
            other => match Feature::listed_by(other) {
                Some(feature) => self.list(caller, &message, id, feature),
                None if matches!(caller.view, View::One(_)) => self.later(caller, message, own::pass),
                None => Handled::Now(Refusal::UnknownMethod(other.into()).answer(Some(&id))),
            },
        }
    }

    /// A request that `run` answers, in whose middle the client may be asked something: also one without a session.
    fn asking<F>(
        self: &Arc<Self>,
        caller: &Caller,
        message: Message,
        run: impl FnOnce(Errand, Message) -> F,
    ) -> Handled
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        if caller.session.is_guest() {
            return self.later_or_again(caller, message, run);
        }
        self.later(caller, message, run)
    }

    /// A request that `run` answers.
    fn later<F>(
        self: &Arc<Self>,
        caller: &Caller,
        message: Message,
        run: impl FnOnce(Errand, Message) -> F,
    ) -> Handled
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        // A client without a session can only be asked by an answer, which not all methods have.
        let asked = caller.events && !caller.session.is_guest();
        self.started(caller, message, asked, None, run).map_or_else(|unbegun| unbegun, Handled::Later)
    }

    /// The call that `run` is; the client can be `asked` something. `Err` is what becomes of it where it cannot begin.
    fn started<F>(
        self: &Arc<Self>,
        caller: &Caller,
        message: Message,
        asked: bool,
        state: Option<State>,
        run: impl FnOnce(Errand, Message) -> F,
    ) -> Result<Call, Handled>
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        let id = message.id().unwrap_or_default();
        let guard = caller.session.begin(&id).map_err(|error| Handled::unbegun(error, &id))?;
        let call = Call::start(&self.orphans, |asides| {
            let state = state.map(Box::new);
            let (relay, view) = (self.clone(), caller.view.clone());
            let (shown, handed) = (caller.shown.clone(), caller.handed.clone());
            run(Errand { relay, view, events: asked, guard, asides, shown, handed, state }, message)
        });
        Ok(call.guarded(id, &self.metrics))
    }

    fn list(self: &Arc<Self>, caller: &Caller, message: &Message, id: Bytes, feature: Feature) -> Handled {
        let cursor = match message.params_members(["cursor"]) {
            Ok([span]) => span.filter(|span| message.slice(span.clone()) != Some("null")),
            Err(bad) => return Handled::Now(Refusal::BadParams(bad.to_string()).answer(Some(&id))),
        };
        let cursor = match cursor.map(|span| message.string(span).ok_or(BadCursor)).transpose() {
            Ok(cursor) => cursor.map(std::borrow::Cow::into_owned),
            Err(BadCursor) => return Handled::Now(Refusal::BadCursor.answer(Some(&id))),
        };
        let (view, agreed) = (caller.view.clone(), caller.session.agreed());
        let audience = Audience::of(&agreed.revision, &agreed.capabilities);
        let relay = self.clone();
        let whose = caller.session.principal().cloned();
        let listed = move |snapshot: &Snapshot, id: &[u8]| match snapshot.catalog.list(
            &view,
            feature,
            audience,
            Start { cursor: cursor.as_deref(), principal: whose.as_deref() },
        ) {
            Ok(result) if audience.modern => {
                let caching = relay.caching(snapshot, &view, feature);
                let start =
                    format!(r#"{{"resultType":"complete",{caching},"_meta":{{"{SERVER_INFO}":{IDENTITY}}},"#);
                wire::response_of(id, &[start.as_bytes(), result.get(1..).unwrap_or_default()])
            }
            Ok(result) => wire::response(id, &result),
            Err(BadCursor) => Refusal::BadCursor.answer(Some(id)),
        };
        let snapshot = self.fleet.sees(caller.behalf());
        let asleep = asleep(&snapshot, &caller.view);
        let behind = !snapshot.personal.is_empty() && self.fleet.is_behind(&caller.view, caller.behalf());
        if self.fleet.first_round_done() && asleep.is_none() && !behind {
            return Handled::Now(listed(&snapshot, &id));
        }
        let (relay, caller) = (self.clone(), caller.clone());
        Handled::Later(Call::start(&self.orphans, |_| async move {
            relay.first_round().await;
            if let Some(upstream) = asleep {
                relay.look_again(&upstream).await;
            }
            if behind {
                relay.look_for(&caller.view, caller.behalf()).await;
            }
            Some(listed(&relay.fleet.sees(caller.behalf()), &id))
        }))
    }

    fn notification(&self, caller: &Caller, message: Message) {
        let session = &caller.session;
        match message.method() {
            method::INITIALIZED => session.set_initialized(),
            method::CANCELLED => {
                if let Ok([Some(id)]) = message.params_members(["requestId"]) {
                    // One that has ended, or never was, is none of our business.
                    session.cancel(message.slice(id).unwrap_or_default().as_bytes());
                }
            }
            method::PROGRESS => {
                if !session.progressed(message) {
                    tracing::debug!("progress of what nobody asks any more");
                }
            }
            method::ROOTS_CHANGED => self.pass(caller, &message),
            _ if matches!(caller.view, View::One(_)) => self.pass(caller, &message),
            other => tracing::debug!(method = other, "a notification that concerns no server"),
        }
    }

    /// Brings the servers of the caller's view what its client tells them, in the background.
    fn pass(&self, caller: &Caller, message: &Message) {
        let Ok(turn) = self.telling.clone().try_acquire_owned() else {
            return tracing::debug!(method = message.method(), "dropped: too many notifications at a time");
        };
        let snapshot = self.fleet.snapshot();
        let servers = snapshot.catalog.servers(&caller.view);
        let upstreams: Vec<_> = servers.filter_map(|name| snapshot.upstreams.get(name)).cloned().collect();
        let (session, text) = (caller.session.clone(), message.text().clone());
        self.orphans.spawn(async move {
            for upstream in upstreams {
                upstream.tell(&session, text.clone()).await;
            }
            drop(turn);
        });
    }

    /// Waits until every server was tried once, or the process ends.
    async fn first_round(&self) {
        self.clock.to_the_end(self.fleet.first_round()).await.unwrap_or_default(); // late, there is what there is
    }

    /// Asks those servers of `view` what they have that each caller reaches by himself.
    async fn look_for(&self, view: &View, behalf: Behalf<'_>) {
        self.clock.to_the_end(self.fleet.look_for(view, behalf)).await.unwrap_or_default(); // as above
    }

    /// Asks `upstream` again for what it has, for as long as a first list may take, and puts that into the catalog.
    async fn look_again(&self, upstream: &Upstream) {
        let looking = upstream.look_again(self.fleet.limits().first_list_wait);
        self.clock.to_the_end(looking).await.unwrap_or_default();
        self.fleet.rebuild().await;
    }

    /// Answers all calls in flight, and all to come: nobody is waited for any longer.
    pub fn end(&self) {
        self.clock.end();
        self.holds.close();
    }

    /// Ends the calls that wait for their clients, and waits until those that clients left behind have ended. No new ones may
    /// come in.
    pub async fn drained(&self) {
        self.holds.close();
        self.orphans.close();
        self.orphans.wait().await;
    }
}

/// The server of `view` if it starts only when needed and was never needed.
fn asleep(snapshot: &Snapshot, view: &View) -> Option<Arc<Upstream>> {
    let View::One(server) = view else { return None };
    let upstream = snapshot.upstreams.get(server)?;
    matches!(upstream.state(), crate::upstream::State::Idle).then(|| upstream.clone())
}
