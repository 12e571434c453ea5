//! `subscriptions/listen`: what a client without a session hears of what it did not ask for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::refusal::Refusal;
use super::resources::{Key, own};
use super::tasks_told::Looking;
use super::{Caller, Relay};
use crate::catalog::{Route, View};
use crate::fleet::{Notice, Snapshot};
use crate::mcp::{Filter, TASKS_EXTENSION, acknowledged, declares, ended, lacking, method, tagged};
use crate::session::Session;
use crate::upstream::Upstream;
use crate::wire::{self, Code, Message, notification, quoted};

/// How long the acknowledgement waits for servers to say that they will tell of a resource. Who has not by then is not
/// in it.
const PATIENCE: Duration = Duration::from_secs(5);
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
    looking: Looking,
    _place: OwnedSemaphorePermit,
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
        filter.uris = self.subscribed_to(caller, std::mem::take(&mut filter.uris)).await;
        filter.prompts &= self.serves(&caller.view, method::PROMPTS_LIST);
        filter.resources &= self.serves(&caller.view, method::RESOURCES_LIST);
        let (session, view) = (caller.session.clone(), caller.view.clone());
        Ok(Listen { relay: self.clone(), session, view, id, filter, looking, _place: place })
    }

    /// Subscribes to `uris` side by side, and gives those of which the client will hear.
    async fn subscribed_to(&self, caller: &Caller, uris: Vec<Box<str>>) -> Vec<Box<str>> {
        let until = Instant::now() + PATIENCE;
        let snapshot = self.fleet.snapshot();
        let mut asking = JoinSet::new();
        for (place, uri) in uris.iter().enumerate() {
            let Some((route, upstream)) = self.teller(&snapshot, &caller.view, uri) else { continue };
            let (session, own) = (caller.session.clone(), own(&route).into_owned());
            asking.spawn(async move {
                let key = Key::of(&route.server, &own);
                let kept = match upstream.subscribe(&own).await {
                    Ok(subscription) => session.hold(&key, subscription) || session.holds(&key),
                    Err(_) => false,
                };
                (place, kept)
            });
        }
        let mut kept = vec![false; uris.len()];
        while let Ok(Some(done)) = timeout_at(until, asking.join_next()).await {
            if let Ok((place, true)) = done
                && let Some(kept) = kept.get_mut(place)
            {
                *kept = true;
            }
        }
        uris.into_iter().zip(kept).filter_map(|(uri, kept)| kept.then_some(uri)).collect()
    }

    /// Whose the resource at `uri` is, if that server tells when it changes.
    fn teller(&self, snapshot: &Snapshot, view: &View, uri: &str) -> Option<(Route, Arc<Upstream>)> {
        let route = snapshot.catalog.resource(view, uri).or_else(|| {
            let server = self.sightings.owner(snapshot.catalog.servers(view), uri)?;
            Some(Route::to(server.clone(), quoted(uri).into()))
        })?;
        let upstream = snapshot.upstreams.get(&route.server)?.clone();
        upstream.hello()?.offers.subscribe.then_some((route, upstream))
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

    /// Whether the view is still there.
    pub fn stands(&self) -> bool {
        self.relay.has_view(&self.view)
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

    /// What one of the client's tasks tells next. Cancel-safe.
    pub async fn of_tasks(&mut self) -> Bytes {
        let told = self.looking.next().await;
        Message::parse(told.clone(), DEEPEST).map_or(told, |told| tagged(&told, &self.id))
    }

    /// What a client hears that has missed something: all of what it wants to hear of may be another now.
    pub fn missed(&self) -> Vec<Bytes> {
        let updated =
            |uri: &str| notification(method::RESOURCES_UPDATED, &format!(r#"{{"uri":{}}}"#, quoted(uri)));
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

fn needs_tasks(id: &[u8]) -> Bytes {
    let text = "`taskIds` is for clients that declare tasks";
    wire::error_with(Some(id), Code::MissingCapability, text, &lacking(TASKS_EXTENSION))
}
