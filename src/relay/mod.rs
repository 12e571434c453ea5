//! One message of a client in, where it goes, the answer out.
//!
//! No HTTP; no state but which unknown tools were asked for lately.

mod answer;
mod asides;
mod call;
mod forward;
mod initialize;
mod legs;
mod level;
mod misses;
mod own;
mod refusal;
mod request;
mod tool;

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::TaskTracker;

pub use call::{Call, Step};
pub use refusal::Refusal;

use crate::catalog::View;
use crate::clock::Clock;
use crate::fleet::{Fleet, Snapshot};
use crate::mcp::method;
use crate::session::Session;
use crate::wire::{self, Kind, Message};
use misses::Misses;
use request::Errand;

/// Takes clients' messages to where they belong.
#[derive(Debug)]
pub struct Relay {
    fleet: Arc<Fleet>,
    /// Deadlines of calls.
    clock: Arc<Clock>,
    misses: Misses,
    /// Calls whose clients have hung up; a hang-up is not a cancellation.
    orphans: TaskTracker,
}

/// Who sent a message, and to which view.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The client's stay.
    pub session: Arc<Session>,
    /// The path.
    pub view: View,
    /// The client takes a stream of events as the answer.
    pub events: bool,
}

/// What becomes of a message.
#[derive(Debug)]
pub enum Handled {
    /// Its answer.
    Now(Bytes),
    /// Its answer takes time.
    Later(Call),
    /// It wants none.
    Accepted,
}

impl Relay {
    /// A relay to the servers of `fleet`.
    pub fn new(fleet: Arc<Fleet>, clock: Arc<Clock>) -> Arc<Self> {
        Arc::new(Self { fleet, clock, misses: Misses::default(), orphans: TaskTracker::new() })
    }

    /// Whether there is such a view.
    pub fn has_view(&self, view: &View) -> bool {
        match view {
            View::All => true,
            View::One(server) => self.fleet.snapshot().upstreams.contains_key(server),
        }
    }

    /// Takes any other message.
    pub fn handle(self: &Arc<Self>, caller: &Caller, message: Message) -> Handled {
        match message.kind() {
            Kind::Request => self.request(caller, message),
            Kind::Notification => {
                notification(&caller.session, message);
                Handled::Accepted
            }
            Kind::Result | Kind::Error => {
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
            method::TOOLS_LIST => self.list(caller, &message, id),
            method::TOOLS_CALL => self.later(caller, message, tool::call),
            method::SET_LEVEL => {
                Handled::Now(level::set(caller, &message).unwrap_or_else(|refusal| refusal.answer(Some(&id))))
            }
            _ if matches!(caller.view, View::One(_)) => self.later(caller, message, own::pass),
            other => Handled::Now(Refusal::UnknownMethod(other.into()).answer(Some(&id))),
        }
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
        let id = message.id().unwrap_or_default();
        match caller.session.begin(&id) {
            Ok(guard) => Handled::Later(Call::start(&self.orphans, |asides| {
                let (view, events) = (caller.view.clone(), caller.events);
                run(Errand { relay: self.clone(), view, events, guard, asides }, message)
            })),
            Err(error) => Handled::Now(Refusal::Begin(error).answer(Some(&id))),
        }
    }

    fn list(self: &Arc<Self>, caller: &Caller, message: &Message, id: Bytes) -> Handled {
        let cursor = message.params_members(["cursor"]).map(|[cursor]| cursor);
        match cursor {
            Ok(None) => {}
            Ok(Some(span)) if message.slice(span.clone()) == Some("null") => {}
            // Every list is one page, so no cursor is ours.
            Ok(Some(_)) => return Handled::Now(Refusal::BadCursor.answer(Some(&id))),
            Err(bad) => return Handled::Now(Refusal::BadParams(bad.to_string()).answer(Some(&id))),
        }
        let snapshot = self.fleet.snapshot();
        let asleep = asleep(&snapshot, &caller.view);
        if self.fleet.first_round_done() && asleep.is_none() {
            return Handled::Now(wire::response(&id, &snapshot.catalog.tools(&caller.view)));
        }
        let (relay, view) = (self.clone(), caller.view.clone());
        Handled::Later(Call::start(&self.orphans, |_| async move {
            relay.fleet.first_round().await;
            if let Some(upstream) = asleep {
                upstream.look_again(relay.fleet.limits().first_list_wait).await;
                relay.fleet.rebuild().await;
            }
            Some(wire::response(&id, &relay.fleet.snapshot().catalog.tools(&view)))
        }))
    }

    /// Waits until the calls that clients left behind have ended. No new ones may come in.
    pub async fn drained(&self) {
        self.orphans.close();
        self.orphans.wait().await;
    }
}

/// The server of `view` if it starts only when needed and was never needed.
fn asleep(snapshot: &Snapshot, view: &View) -> Option<Arc<crate::upstream::Upstream>> {
    let View::One(server) = view else { return None };
    let upstream = snapshot.upstreams.get(server)?;
    matches!(upstream.state(), crate::upstream::State::Idle).then(|| upstream.clone())
}

fn notification(session: &Arc<Session>, message: Message) {
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
        other => tracing::debug!(method = other, "a notification that concerns no server"),
    }
}
