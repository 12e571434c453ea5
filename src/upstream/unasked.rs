//! What a server says outside of any call, and to whom it goes.

use std::num::NonZeroU32;
use std::sync::Arc;

use tokio::task::consume_budget;

use super::Upstream;
use super::legs::carry;
use super::news::Notice;
use super::pace::Allowance;
use super::state::Ready;
use crate::mcp::{Features, Level, is_leg, method};
use crate::session::Session;
use crate::wire::{Kind, Message, Text, members};

/// What one server may tell all clients per second, so that one that floods does not drown the others.
const FLOOD: NonZeroU32 = NonZeroU32::new(64).unwrap();

/// How much more a server may tell all clients.
#[derive(Debug)]
pub(super) struct Allowances {
    /// Lines of its log and the like.
    lines: Allowance,
    /// Changes of resources.
    updates: Allowance,
}

impl Default for Allowances {
    fn default() -> Self {
        Self { lines: Allowance::new(FLOOD), updates: Allowance::new(FLOOD) }
    }
}

impl Upstream {
    /// Brings what came outside of any call to where it belongs; gives back which lists the server says have changed.
    pub(super) async fn heard(&self, ready: &Arc<Ready>, message: Message) -> Features {
        consume_budget().await; // a server that never pauses leaves the others their turns
        if message.has_odd_params() {
            ready.rebuke(&message).await;
            return Features::NONE;
        }
        match message.kind() {
            Kind::Request => self.asked(ready, message).await,
            Kind::Notification => return self.notified(ready, message),
            Kind::Result | Kind::Error => {} // nobody waits for it
        }
        Features::NONE
    }

    /// A leg goes to the call that must have caused it, or else to the only client of the link. Requests are always
    /// answered: nobody waits for us in vain.
    async fn asked(&self, ready: &Arc<Ready>, request: Message) {
        if let Some(answer) = self.own_answer(&request) {
            return ready.say(answer).await;
        }
        if !is_leg(request.method()) {
            return ready.refuse(&request).await;
        }
        let session = ready.owner.as_ref().and_then(|owner| owner.session.upgrade());
        match (offer(ready, request), session) {
            (Offered::Taken, _) => {}
            (Offered::ToNobody(request), Some(session)) => {
                let server = self.server.load().name.clone();
                drop(ready.calls.spawn(carry(server, ready.clone(), session, request)));
            }
            (Offered::ToNobody(request) | Offered::InVain(request), _) => ready.refuse_leg(&request).await,
        }
    }

    fn notified(&self, ready: &Ready, message: Message) -> Features {
        match message.method() {
            method::TOOLS_CHANGED | method::PROMPTS_CHANGED | method::RESOURCES_CHANGED => {
                return Features::changed_by(message.method());
            }
            // Whoever brings the leg to its client knows its id; the server's cancellation bears nothing else.
            method::CANCELLED => {
                ready.legs.cancel(param(&message, "requestId").unwrap_or_default().as_bytes());
                for inbox in ready.flights.all() {
                    self.count(inbox.push(message.clone()).is_none());
                }
            }
            method::PROGRESS => {
                let token = param(&message, "progressToken").and_then(|raw| raw.parse().ok());
                if let Some(inbox) = token.and_then(|id| ready.flights.of(id)) {
                    self.count(inbox.push(message).is_none());
                }
            }
            method::RESOURCES_UPDATED => self.updated(ready, message),
            _ => match offer(ready, message) {
                Offered::Taken => {}
                Offered::ToNobody(message) => self.spread(ready, message),
                Offered::InVain(_) => self.count(false),
            },
        }
        Features::NONE
    }

    /// Subscriptions are the keeper's: what another link says of resources, the keeper's says as well.
    fn updated(&self, ready: &Ready, message: Message) {
        let uri = param(&message, "uri").and_then(Text::of).map(Arc::from);
        if let (Some(uri), true, true) = (uri, ready.kept, self.subscriptions.any()) {
            let (server, message) = (self.server.load().name.clone(), Arc::new(message));
            self.send(&self.allowances.updates, Notice::Updated { server, uri, message });
        }
    }

    /// No call is known to have caused it.
    fn spread(&self, ready: &Ready, message: Message) {
        let level = param(&message, "level").and_then(Text::of).and_then(|name| Level::of(&name));
        let server = self.server.load().name.clone();
        // Nobody hears what could be another's.
        let Some(to) = ready.hearers.clone() else { return self.count(false) };
        match (message.method(), level, ready.owner.as_ref()) {
            (method::MESSAGE, Some(level), None) => {
                let message = Arc::new(message);
                self.send(&self.allowances.lines, Notice::Logged { server, level, to, message });
            }
            (method::MESSAGE, Some(level), Some(owner)) => {
                let session = owner.session.upgrade();
                let wanted = |session: &Arc<Session>| session.threshold().is_some_and(|least| level >= least);
                if let Some(session) = session.filter(wanted) {
                    session.push(message.text().clone());
                }
            }
            (method::MESSAGE, None, _) => self.count(false),
            _ => {
                let message = Arc::new(message);
                self.send(&self.allowances.lines, Notice::Told { server, to, message });
            }
        }
    }

    fn send(&self, allowance: &Allowance, notice: Notice) {
        let allowed = allowance.take();
        self.count(allowed);
        if allowed {
            self.shared.news.send(notice);
        }
    }

    /// Something found room, or was dropped.
    fn count(&self, kept: bool) {
        if !kept {
            self.series.dropped_notices(1);
        }
    }
}

/// What became of a message that was offered to a call.
enum Offered {
    Taken,
    /// There is no call that it could belong to.
    ToNobody(Message),
    /// There is one, and it does not read.
    InVain(Message),
}

/// Offers a message to the newest call of whoever must have caused it.
fn offer(ready: &Ready, message: Message) -> Offered {
    match ready.flights.newest(ready.owner.as_ref().map(|owner| owner.serial)) {
        Some(inbox) => inbox.push(message).map_or(Offered::Taken, Offered::InVain),
        None => Offered::ToNobody(message),
    }
}

/// The raw value of a member of the params.
pub(super) fn param<'m>(message: &'m Message, key: &str) -> Option<&'m str> {
    let params = message.params()?;
    let [found] = members(params, [key]).ok()?;
    params.get(found?)
}
