//! What a server says outside of any call, and to whom it goes.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::news::{News, Notice};
use super::pace::Allowance;
use super::state::Ready;
use super::subscriptions::Subscriptions;
use crate::mcp::{Features, Level, method};
use crate::metrics::ServerSeries;
use crate::names::ServerName;
use crate::wire::{Kind, Message, Text, members};

/// What one server may tell all clients per second: log lines and the like, and changes of resources.
const FLOOD: NonZeroU32 = NonZeroU32::new(64).unwrap();

/// Brings what came outside of any call to where it belongs.
#[derive(Debug)]
pub(super) struct Usher {
    server: ServerName,
    news: Arc<News>,
    series: Arc<ServerSeries>,
    subscriptions: Arc<Subscriptions>,
    lines: Allowance,
    updates: Allowance,
}

impl Usher {
    pub(super) fn new(
        server: ServerName,
        news: Arc<News>,
        series: Arc<ServerSeries>,
        subscriptions: Arc<Subscriptions>,
    ) -> Self {
        let (lines, updates) = (Allowance::new(FLOOD), Allowance::new(FLOOD));
        Self { server, news, series, subscriptions, lines, updates }
    }

    /// Takes one message; gives back which lists the server says have changed.
    pub(super) async fn take(&self, ready: &Arc<Ready>, message: Message) -> Features {
        match message.kind() {
            Kind::Request => self.request(ready, message).await,
            Kind::Notification => return self.notification(ready, message),
            Kind::Result | Kind::Error => {} // nobody waits for it
        }
        Features::NONE
    }

    /// A leg goes to the call that must have caused it. Requests are always answered: nobody waits for us in vain.
    async fn request(&self, ready: &Arc<Ready>, request: Message) {
        match request.method() {
            method::SAMPLING | method::ELICITATION | method::ROOTS_LIST => {
                if let Err(left) = offer(ready, request) {
                    ready.refuse_leg(&left.message).await;
                }
            }
            _ => ready.refuse(&request).await,
        }
    }

    fn notification(&self, ready: &Ready, message: Message) -> Features {
        match message.method() {
            method::TOOLS_CHANGED | method::PROMPTS_CHANGED | method::RESOURCES_CHANGED => {
                return Features::changed_by(message.method());
            }
            // Whoever brings the leg to its client knows its id; the server's cancellation bears nothing else.
            method::CANCELLED => {
                for inbox in ready.flights.all() {
                    self.count(inbox.push(message.clone()).is_ok());
                }
            }
            method::PROGRESS => {
                let token = param(&message, "progressToken").and_then(|raw| raw.parse().ok());
                if let Some(inbox) = token.and_then(|id| ready.flights.of(id)) {
                    self.count(inbox.push(message).is_ok());
                }
            }
            method::RESOURCES_UPDATED => self.updated(ready, message),
            _ => match offer(ready, message) {
                Ok(()) => {}
                Err(Left { nobodys: true, message }) => self.tell(ready, message),
                Err(Left { nobodys: false, .. }) => self.count(false),
            },
        }
        Features::NONE
    }

    /// Subscriptions are the keeper's: what a session's own link says of resources, the keeper's says as well.
    fn updated(&self, ready: &Ready, message: Message) {
        let uri = param(&message, "uri").and_then(Text::of).map(Arc::from);
        if let (Some(uri), None, true) = (uri, &ready.owner, self.subscriptions.any()) {
            let (server, message) = (self.server.clone(), Arc::new(message));
            self.send(&self.updates, Notice::Updated { server, uri, message });
        }
    }

    /// Nobody is known to have caused it.
    fn tell(&self, ready: &Ready, message: Message) {
        let level = param(&message, "level").and_then(Text::of).and_then(|name| Level::of(&name));
        let owner = ready.owner.as_ref();
        let server = self.server.clone();
        match (message.method(), level, owner) {
            (method::MESSAGE, Some(level), None) => {
                self.send(&self.lines, Notice::Logged { server, level, message: Arc::new(message) });
            }
            (method::MESSAGE, Some(level), Some(owner)) => {
                let session = owner.session.upgrade();
                if let Some(session) =
                    session.filter(|session| level >= session.level().unwrap_or(Level::Info))
                {
                    session.push(message.text().clone());
                }
            }
            (method::MESSAGE, None, _) => self.count(false),
            _ => {
                let session = owner.map(|owner| owner.serial);
                self.send(&self.lines, Notice::Told { server, session, message: Arc::new(message) });
            }
        }
    }

    fn send(&self, allowance: &Allowance, notice: Notice) {
        let allowed = allowance.take();
        self.count(allowed);
        if allowed {
            self.news.send(notice);
        }
    }

    /// Something found room, or was dropped.
    fn count(&self, kept: bool) {
        if !kept {
            self.series.dropped_notices(1);
        }
    }
}

/// What found no call.
struct Left {
    message: Message,
    /// There is no call that it could belong to; otherwise there is one that does not read.
    nobodys: bool,
}

/// Offers a message to the newest call of whoever must have caused it.
fn offer(ready: &Ready, message: Message) -> Result<(), Left> {
    match ready.flights.newest(ready.owner.as_ref().map(|owner| owner.serial)) {
        Some(inbox) => inbox.push(message).map_err(|message| Left { message, nobodys: false }),
        None => Err(Left { message, nobodys: true }),
    }
}

/// The raw value of a member of the params.
fn param<'m>(message: &'m Message, key: &str) -> Option<&'m str> {
    let params = message.params()?;
    let [found] = members(params, [key]).ok()?;
    params.get(found?)
}
