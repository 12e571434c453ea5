//! One message of a client in, where it goes, the answer out.
//!
//! No HTTP; no state but which unknown tools were asked for lately.

mod call;
mod forward;
mod misses;
mod refusal;
mod tool;

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::TaskTracker;

pub use call::{Call, Step};
pub use refusal::Refusal;

use crate::catalog::{BadCursor, View};
use crate::clock::Clock;
use crate::fleet::{Fleet, Snapshot};
use crate::mcp::{Asked, Feature, Revision, initialize_result, method};
use crate::session::{Agreed, Session};
use crate::wire::{self, Kind, Message};
use misses::Misses;

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
            View::Named(name) => self.fleet.snapshot().config.views.contains_key(name),
        }
    }

    /// The answer to `initialize`, and what it agrees on. No server is asked.
    ///
    /// # Errors
    /// The refusal, where the message's `params` are of no use.
    pub fn initialize(&self, view: &View, message: &Message) -> Result<(Bytes, Agreed), Refusal> {
        let asked = Asked::parse(message.params().unwrap_or("{}")).map_err(Refusal::BadParams)?;
        let revision = Revision::negotiate(&asked.protocol_version);
        let result =
            initialize_result(revision, r#"{"tools":{"listChanged":true}}"#, &self.instructions(view));
        let agreed = Agreed {
            revision: revision.as_str().into(),
            capabilities: asked.capabilities.map_or("{}", |raw| raw.get()).into(),
            client: asked.client_info.unwrap_or_default().name,
        };
        Ok((wire::response(&message.id().unwrap_or_default(), result.as_bytes()), agreed))
    }

    /// What a client should know about the names it sees.
    fn instructions(&self, view: &View) -> String {
        match view {
            View::One(_) => String::new(),
            View::All | View::Named(_) => {
                let delimiter = &self.fleet.snapshot().config.naming.delimiter;
                format!("Tools of several servers are joined here; each is named <tool>{delimiter}<server>.")
            }
        }
    }

    /// Takes any other message.
    pub fn handle(self: &Arc<Self>, caller: &Caller, message: Message) -> Handled {
        match message.kind() {
            Kind::Request => self.request(caller, message),
            Kind::Notification => {
                notification(&caller.session, &message);
                Handled::Accepted
            }
            // We ask clients nothing yet, so no answer of theirs is awaited.
            Kind::Result | Kind::Error => Handled::Accepted,
        }
    }

    fn request(self: &Arc<Self>, caller: &Caller, message: Message) -> Handled {
        let id = message.id().unwrap_or_default();
        match message.method() {
            method::PING => Handled::Now(wire::response(&id, b"{}")),
            method::TOOLS_CALL => match caller.session.begin(&id) {
                Ok(guard) => Handled::Later(Call::start(&self.orphans, |asides| {
                    tool::call(self.clone(), caller.view.clone(), message, guard, asides)
                })),
                Err(error) => Handled::Now(Refusal::Begin(error).answer(Some(&id))),
            },
            other => match Feature::listed_by(other) {
                Some(feature) => self.list(caller, &message, id, feature),
                None => Handled::Now(Refusal::UnknownMethod(other.into()).answer(Some(&id))),
            },
        }
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
        let view = caller.view.clone();
        let listed = move |snapshot: &Snapshot, id: &[u8]| match snapshot.catalog.list(
            &view,
            feature,
            cursor.as_deref(),
        ) {
            Ok(result) => wire::response(id, &result),
            Err(BadCursor) => Refusal::BadCursor.answer(Some(id)),
        };
        let snapshot = self.fleet.snapshot();
        let asleep = asleep(&snapshot, &caller.view);
        if self.fleet.first_round_done() && asleep.is_none() {
            return Handled::Now(listed(&snapshot, &id));
        }
        let relay = self.clone();
        Handled::Later(Call::start(&self.orphans, |_| async move {
            relay.fleet.first_round().await;
            if let Some(upstream) = asleep {
                upstream.look_again(relay.fleet.limits().first_list_wait).await;
                relay.fleet.rebuild().await;
            }
            Some(listed(&relay.fleet.snapshot(), &id))
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

fn notification(session: &Arc<Session>, message: &Message) {
    match message.method() {
        method::INITIALIZED => session.set_initialized(),
        method::CANCELLED => {
            if let Ok([Some(id)]) = message.params_members(["requestId"]) {
                // One that has ended, or never was, is none of our business.
                session.cancel(message.slice(id).unwrap_or_default().as_bytes());
            }
        }
        other => tracing::debug!(method = other, "a notification that concerns no server"),
    }
}
