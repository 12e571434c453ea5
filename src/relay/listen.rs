//! `subscriptions/listen`: what a client without a session hears of what it did not ask for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::refusal::Refusal;
use super::resources::{Key, own};
use super::tasks::Looking;
use super::uris::seen_by;
use super::{Caller, Relay};
use crate::auth::admits;
use crate::catalog::{Route, View};
use crate::fleet::Notice;
use crate::mcp::{Filter, TASKS_EXTENSION, acknowledged, declares, ended, lacking, method, tagged};
use crate::session::Session;
use crate::upstream::{SubscribeError, Upstream};
use crate::wire::{self, Code, Message, notification, quoted};

/// How long the acknowledgement waits for servers to say whether they will tell of a resource.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long until a server that was away is asked again.
const REST: Duration = Duration::from_secs(5);
/// Most resources that one client hears of: as much as a session may hold.
const MOST: usize = 1024;
/// What was read once already.
const DEEPEST: usize = usize::MAX;
/// How deep our own notifications nest, and more.
const DEPTH: usize = 64;

/// A client that listens: to what, and under which id.
#[derive(Debug)]
pub struct Listen {
    relay: Arc<Relay>,
    /// Holds its subscriptions.
    session: Arc<Session>,
    view: View,
    id: Bytes,
    /// What of its wishes is met.
    filter: Filter,
    /// Resources that are in it, and whose servers have not said anything yet.
    asking: Asking,
    looking: Looking,
    _place: OwnedSemaphorePermit,
}

/// Questions to servers whether they will tell of the resource with that URI.
type Asking = JoinSet<(Box<str>, Said)>;

/// What a server says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Yes,
    No,
    /// It is away; it may say so later.
    Nothing,
}

impl Relay {
    /// Does what `message`, a `subscriptions/listen`, asks for.
    ///
    /// # Errors
    /// The answer, where it is a refusal.
    pub async fn listen(self: &Arc<Self>, caller: &Caller, message: &Message) -> Result<Listen, Bytes> {
        let id = message.id().unwrap_or_default();
        let asked = Filter::parse(message.params().unwrap_or("{}"));
        let mut filter = asked
            .map_err(|why| Refusal::BadParams(format!("{}: {why}", method::LISTEN)).answer(Some(&id)))?;
        if !filter.tasks.is_empty() && !declares(&caller.session.agreed().capabilities, TASKS_EXTENSION) {
            return Err(needs_tasks(&id));
        }
        let place = self.listening.clone().try_acquire_owned().map_err(|_| {
            wire::error(Some(&id), Code::Internal, "too many clients listen already; try again later")
        })?;
        let tasks = std::mem::take(&mut filter.tasks);
        let (tasks, looking) = self.look_at_tasks(caller, message, tasks);
        filter.tasks = tasks;
        let asked = std::mem::take(&mut filter.uris);
        let asking = self.subscribe_to(caller, &asked, &mut filter).await;
        filter.prompts &= self.serves(&caller.view, method::PROMPTS_LIST);
        filter.resources &= self.serves(&caller.view, method::RESOURCES_LIST);
        let (session, view) = (caller.session.clone(), caller.view.clone());
        Ok(Listen { relay: self.clone(), session, view, id, filter, asking, looking, _place: place })
    }

    /// Subscribes to `uris` side by side, and notes those of which the client will hear: of some perhaps later.
    async fn subscribe_to(
        self: &Arc<Self>,
        caller: &Caller,
        uris: &[Box<str>],
        filter: &mut Filter,
    ) -> Asking {
        let mut asking = Asking::new();
        let known =
            uris.iter().filter(|uri| self.teller(caller.session.principal(), &caller.view, uri).is_some());
        filter.uris = known.take(MOST).cloned().collect();
        for uri in &filter.uris {
            let asked = self.clone().ask(caller.session.clone(), caller.view.clone(), uri.clone());
            asking.spawn(asked);
        }
        let (until, mut away) = (Instant::now() + PATIENCE, Vec::new());
        while let Ok(Some(said)) = timeout_at(until, asking.join_next()).await {
            match said {
                Ok((uri, Said::No)) => filter.uris.retain(|wanted| *wanted != uri),
                Ok((uri, Said::Nothing)) => away.push(uri),
                Ok((_, Said::Yes)) | Err(_) => {}
            }
        }
        for uri in away {
            asking.spawn(self.clone().ask_later(caller.session.clone(), caller.view.clone(), uri));
        }
        asking
    }

    /// Asks the server of `uri` to tell when it changes; the `session` holds what comes of it.
    async fn ask(self: Arc<Self>, session: Arc<Session>, view: View, uri: Box<str>) -> (Box<str>, Said) {
        let Some((route, upstream)) = self.teller(session.principal(), &view, &uri) else {
            return (uri, Said::Nothing);
        };
        let own = own(&route);
        let said = match upstream.subscribe(&own).await {
            Ok(subscription) => {
                let key = Key::of(&route.server, &own);
                if session.hold(&key, subscription) || session.holds(&key) { Said::Yes } else { Said::No }
            }
            Err(SubscribeError::Refused(_)) => Said::No,
            Err(SubscribeError::Unavailable(_)) => Said::Nothing,
        };
        (uri, said)
    }

    async fn ask_later(
        self: Arc<Self>,
        session: Arc<Session>,
        view: View,
        uri: Box<str>,
    ) -> (Box<str>, Said) {
        sleep(REST).await;
        self.ask(session, view, uri).await
    }

    /// Whose the resource at `uri` is, unless that server is known not to tell when it changes.
    fn teller(&self, whose: Option<&Arc<str>>, view: &View, uri: &str) -> Option<(Route, Arc<Upstream>)> {
        let snapshot = self.fleet.snapshot();
        let route = snapshot.catalog.resource(view, uri).or_else(|| {
            let server = self.sightings.owner(snapshot.catalog.servers(view), &seen_by(whose, uri))?;
            Some(Route::to(server.clone(), quoted(uri).into()))
        })?;
        let upstream = snapshot.upstreams.get(&route.server)?.clone();
        upstream.hello().is_none_or(|hello| hello.offers.subscribe).then_some((route, upstream))
    }
}

impl Listen {
    /// The first message: what of the client's wishes is met.
    pub fn acknowledged(&self) -> Bytes {
        acknowledged(&self.filter, &self.id)
    }

    /// The last one, where the stream ends by our own will.
    pub fn ended(&self) -> Bytes {
        ended(&self.id)
    }

    /// Whether the view is still there, and the client still let in.
    pub fn stands(&self) -> bool {
        let snapshot = self.relay.fleet.snapshot();
        self.relay.has_view(&self.view)
            && admits(snapshot.config.auth.as_ref(), self.session.principal(), self.session.key())
    }

    /// What the client hears because of `notice`.
    pub fn told(&self, notice: &Notice) -> Vec<Bytes> {
        match notice {
            Notice::Changed { .. } | Notice::Updated { .. } => {
                self.wanted(self.relay.told(&self.view, &self.session, notice))
            }
            // Logs belong to requests, and the rest to sessions.
            Notice::Logged { .. } | Notice::Told { .. } => Vec::new(),
        }
    }

    /// What the client hears besides, in its time. Cancel-safe.
    pub async fn more(&mut self) -> Vec<Bytes> {
        loop {
            let said = tokio::select! {
                Some(said) = self.asking.join_next() => said,
                told = self.looking.next() => {
                    let tell = |told: Message| tagged(&told, &self.id);
                    return vec![Message::parse(told.clone(), DEEPEST).map_or(told, tell)];
                }
            };
            match said {
                // The server was away at first: a change may have been missed.
                Ok((uri, Said::Yes)) => return self.wanted(vec![updated(&uri)]),
                Ok((uri, Said::Nothing)) => {
                    let (session, view) = (self.session.clone(), self.view.clone());
                    self.asking.spawn(self.relay.clone().ask_later(session, view, uri));
                }
                // Nothing was promised but to tell what the server tells.
                Ok((_, Said::No)) | Err(_) => {}
            }
        }
    }

    /// What a client hears that has missed something: all of what it wants to hear of may be another now.
    pub fn missed(&self) -> Vec<Bytes> {
        let lists = self.relay.missed(&self.view);
        self.wanted(lists.into_iter().chain(self.filter.uris.iter().map(|uri| updated(uri))).collect())
    }

    /// Those of `messages` that the client asked for, each with its mark.
    fn wanted(&self, messages: Vec<Bytes>) -> Vec<Bytes> {
        let messages = messages.into_iter().filter_map(|text| Message::parse(text, DEPTH).ok());
        let wanted = messages.filter(|message| match message.method() {
            method::TOOLS_CHANGED => self.filter.tools,
            method::PROMPTS_CHANGED => self.filter.prompts,
            method::RESOURCES_CHANGED => self.filter.resources,
            method::RESOURCES_UPDATED => true, // the session holds what was asked for
            _ => false,
        });
        wanted.map(|message| tagged(&message, &self.id)).collect()
    }
}

/// That the resource at `uri` is another now.
fn updated(uri: &str) -> Bytes {
    notification(method::RESOURCES_UPDATED, &format!(r#"{{"uri":{}}}"#, quoted(uri)))
}

fn needs_tasks(id: &[u8]) -> Bytes {
    let text = "`taskIds` is for clients that declare tasks";
    wire::error_with(Some(id), Code::MissingCapability, text, &lacking(TASKS_EXTENSION))
}
