//! Which resources clients want to hear of: each is subscribed to once, whatever the number of clients.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::ask::ask;
use super::news::{News, Notice};
use super::state::Ready;
use crate::mcp::method;
use crate::names::ServerName;
use crate::transport::Failure;
use crate::wire::{Kind, Message, notification, quoted};

/// Most resources of one server that are subscribed to.
pub(super) const MOST: usize = 4096;
/// Requests for it that are under way at a time.
const AT_ONCE: usize = 8;
/// How long one may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The resources that somebody wants to hear of. An upstream's successor goes on with it.
#[derive(Debug)]
pub(super) struct Subscriptions {
    server: ServerName,
    news: Arc<News>,
    tasks: TaskTracker,
    home: Handle,
    turns: Semaphore,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The link that the subscriptions are on.
    link: Option<Arc<Ready>>,
    wanted: HashMap<Arc<str>, Wanted>,
    /// How often what is wanted of a modern server has changed: for whoever keeps its stream.
    wishes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Wanted {
    /// By how many.
    leases: usize,
    /// On which link the server knows of it, or last did.
    on: Option<u64>,
    /// A task brings the server in line with what is wanted.
    busy: bool,
    outcome: watch::Sender<Outcome>,
}

/// What came of the last attempt.
#[derive(Debug, Clone, Default)]
enum Outcome {
    #[default]
    Pending,
    Done,
    Missed(Missed),
}

/// Why there is no subscription.
#[derive(Debug, Clone)]
pub(super) enum Missed {
    /// There are too many.
    Full,
    /// There is no link.
    Away,
    /// The server does not want it: its raw error object.
    Refused(Bytes),
    /// The link of that generation failed.
    Failed(u64, Failure),
}

impl Wanted {
    /// Tells those who wait that nothing comes of it.
    fn miss(&self, why: &Missed) {
        self.outcome.send_if_modified(|outcome| {
            let waits = matches!(outcome, Outcome::Pending);
            if waits {
                *outcome = Outcome::Missed(why.clone());
            }
            waits
        });
    }
}

impl Missed {
    /// The server offers no subscriptions.
    pub(super) fn unknown() -> Self {
        Self::Refused(Bytes::from_static(NO_SUBSCRIPTIONS))
    }
}

/// Of a server that offers no subscriptions.
const NO_SUBSCRIPTIONS: &[u8] = br#"{"code":-32601,"message":"this server offers no subscriptions"}"#;
/// Of one that does not tell of this resource.
const NOT_THIS: &[u8] =
    br#"{"code":-32602,"message":"this server does not tell of changes of this resource"}"#;

/// A wish to hear of one resource. The last one's end ends the server's subscription.
#[derive(Debug)]
#[must_use = "a subscription that is dropped has ended"]
pub struct Subscription {
    of: Arc<Subscriptions>,
    uri: Arc<str>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut table = self.of.table();
        let Some(wanted) = table.wanted.get_mut(&self.uri) else { return };
        wanted.leases -= 1;
        if wanted.leases == 0 {
            self.of.settle(&mut table, &self.uri);
        }
    }
}

/// What a task has to do next for one resource.
enum Next {
    Ask(Arc<Ready>, &'static str),
    Nothing,
}

impl Subscriptions {
    pub(super) fn new(server: ServerName, news: Arc<News>, tasks: TaskTracker) -> Arc<Self> {
        let (home, turns) = (Handle::current(), Semaphore::new(AT_ONCE));
        Arc::new(Self { server, news, tasks, home, turns, table: Mutex::default() })
    }

    /// Subscribes, unless that was done before.
    pub(super) async fn subscribe(self: &Arc<Self>, uri: &str) -> Result<Subscription, Missed> {
        let (subscription, mut outcome) = {
            let mut table = self.table();
            if table.wanted.len() >= MOST && !table.wanted.contains_key(uri) {
                return Err(Missed::Full);
            }
            let uri: Arc<str> = uri.into();
            let wanted = table.wanted.entry(uri.clone()).or_default();
            wanted.leases += 1;
            let outcome = wanted.outcome.subscribe();
            self.settle(&mut table, &uri);
            (Subscription { of: self.clone(), uri }, outcome)
        };
        let ended = outcome.wait_for(|outcome| !matches!(outcome, Outcome::Pending)).await;
        match ended.map(|outcome| outcome.clone()) {
            Ok(Outcome::Done) => Ok(subscription),
            Ok(Outcome::Missed(why)) => Err(why),
            // The sender lives as long as the subscription, so there is an outcome.
            Ok(Outcome::Pending) | Err(_) => Err(Missed::Away),
        }
    }

    /// From now on the subscriptions are on this link: all are made anew.
    pub(super) fn attach(self: &Arc<Self>, ready: &Arc<Ready>) {
        let mut table = self.table();
        table.link = ready.hello.offers.subscribe.then(|| ready.clone());
        let uris: Vec<_> = table.wanted.keys().cloned().collect();
        for uri in uris {
            self.settle(&mut table, &uri);
        }
    }

    /// This link is of no use any more.
    pub(super) fn detach(&self, ready: &Arc<Ready>) {
        let mut table = self.table();
        if table.is_on(ready) {
            table.link = None;
            // Nobody else tells those who wait for a modern server's stream.
            table.wanted.values().filter(|wanted| !wanted.busy).for_each(|wanted| wanted.miss(&Missed::Away));
        }
    }

    /// Changes whenever something else is wanted of a modern server.
    pub(super) fn wishes(&self) -> watch::Receiver<u64> {
        self.table().wishes.subscribe()
    }

    /// What is wanted of this modern server, in order.
    pub(super) fn wanted(&self, ready: &Arc<Ready>) -> Vec<Box<str>> {
        let table = self.table();
        let mut uris: Vec<Box<str>> = if table.is_on(ready) {
            let wanted = table.wanted.iter().filter(|(_, wanted)| wanted.leases > 0);
            wanted.map(|(uri, _)| Box::from(&**uri)).collect()
        } else {
            Vec::new()
        };
        uris.sort_unstable();
        uris
    }

    /// A modern server tells of the `granted` of those that it was `asked` for from now on; after a `gap` in which it
    /// told nothing each of them may have changed.
    pub(super) fn granted(&self, ready: &Arc<Ready>, asked: &[Box<str>], granted: &[Box<str>], gap: bool) {
        let granted: HashSet<&str> = granted.iter().map(|uri| &**uri).collect();
        let mut table = self.table();
        if !table.is_on(ready) {
            return;
        }
        for uri in asked {
            let Some((uri, wanted)) = table.wanted.get_key_value(&**uri) else { continue };
            let uri = uri.clone();
            if !granted.contains(&*uri) {
                wanted.miss(&Missed::Refused(Bytes::from_static(NOT_THIS)));
                continue;
            }
            wanted.outcome.send_replace(Outcome::Done);
            let Some(wanted) = table.wanted.get_mut(&uri) else { continue };
            if wanted.on.replace(ready.generation).is_some_and(|on| gap || on != ready.generation) {
                self.updated(&uri);
            }
        }
    }

    /// This modern server does not tell of what is wanted and was not granted before.
    pub(super) fn missed(&self, ready: &Arc<Ready>, why: &Missed) {
        let table = self.table();
        if table.is_on(ready) {
            table.wanted.values().for_each(|wanted| wanted.miss(why));
        }
    }

    /// Whether somebody wants to hear of resources.
    pub(super) fn any(&self) -> bool {
        !self.table().wanted.is_empty()
    }

    /// Sees to it that the server knows what is wanted: now, or once the task that is at it gets there.
    fn settle(self: &Arc<Self>, table: &mut Table, uri: &Arc<str>) {
        if table.wanted.get(uri).is_none_or(|wanted| wanted.busy) {
            return;
        }
        if let Next::Ask(ready, method) = table.next(uri) {
            let work = self.clone().work(uri.clone(), ready, method);
            drop(self.tasks.spawn_on(work, &self.home));
        }
    }

    /// Asks until the server is in line with what is wanted.
    async fn work(self: Arc<Self>, uri: Arc<str>, mut ready: Arc<Ready>, mut method: &'static str) {
        loop {
            let answer = self.ask(&ready, method, &uri).await;
            let mut table = self.table();
            let here = table.is_on(&ready);
            let Some(wanted) = table.wanted.get_mut(&uri) else { return };
            let why = match answer {
                _ if method == method::RESOURCES_UNSUBSCRIBE => {
                    wanted.on = None; // it hardly helps to say so again where that failed
                    None
                }
                Ok(answer) if answer.kind() == Kind::Result => {
                    if wanted.on.replace(ready.generation).is_some() {
                        self.updated(&uri); // a change in between was not told
                    }
                    None
                }
                Ok(refused) => Some(Missed::Refused(refused.body_bytes().unwrap_or_default())),
                Err(failure) => Some(Missed::Failed(ready.generation, failure)),
            };
            // What went wrong on a link that has been replaced is tried on the next one.
            if let Some(why) = why.filter(|_| here) {
                tracing::debug!(server = %self.server, ?why, "no subscription to a resource");
                wanted.outcome.send_replace(Outcome::Missed(why));
                return table.rest(&uri);
            }
            match table.next(&uri) {
                Next::Ask(on, what) => (ready, method) = (on, what),
                Next::Nothing => return,
            }
        }
    }

    async fn ask(&self, ready: &Arc<Ready>, method: &str, uri: &str) -> Result<Message, Failure> {
        let _turn = self.turns.acquire().await;
        let params = format!(r#"{{"uri":{}}}"#, quoted(uri));
        tokio::select! {
            answer = timeout(LIMIT, ask(ready, method, &params)) => {
                answer.unwrap_or_else(|_| Err(Failure::Cut(format!("no answer within {LIMIT:?}"))))
            }
            () = ready.over.cancelled() => Err(Failure::Cut("the connection was lost".into())),
        }
    }

    fn updated(&self, uri: &Arc<str>) {
        let text = notification(method::RESOURCES_UPDATED, &format!(r#"{{"uri":{}}}"#, quoted(uri)));
        if let Ok(message) = Message::parse(text, 8) {
            let (server, uri, message) = (self.server.clone(), uri.clone(), Arc::new(message));
            self.news.send(Notice::Updated { server, uri, message });
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn is_on(&self, ready: &Arc<Ready>) -> bool {
        self.link.as_ref().is_some_and(|link| Arc::ptr_eq(link, ready))
    }

    /// What to ask the server for next. Whoever asks for it has to do it.
    fn next(&mut self, uri: &Arc<str>) -> Next {
        if let Some(link) = self.link.as_ref().filter(|link| link.is_modern()) {
            let generation = link.generation;
            self.wish(uri, generation);
            return Next::Nothing;
        }
        let Some(wanted) = self.wanted.get_mut(uri) else { return Next::Nothing };
        let here = self.link.as_ref().filter(|link| wanted.on == Some(link.generation));
        match (&self.link, here, wanted.leases) {
            (Some(link), None, 1..) => {
                wanted.busy = true;
                wanted.outcome.send_replace(Outcome::Pending);
                return Next::Ask(link.clone(), method::RESOURCES_SUBSCRIBE);
            }
            (_, Some(link), 0) => {
                wanted.busy = true;
                return Next::Ask(link.clone(), method::RESOURCES_UNSUBSCRIBE);
            }
            (_, Some(_), 1..) => drop(wanted.outcome.send_replace(Outcome::Done)),
            // Those that are there already wait for the next link.
            (None, None, 1..) => wanted.miss(&Missed::Away),
            (_, None, 0) => {}
        }
        self.rest(uri);
        Next::Nothing
    }

    /// What is wanted of a modern server goes into the request for its stream.
    fn wish(&mut self, uri: &Arc<str>, generation: u64) {
        let Some(wanted) = self.wanted.get(uri) else { return };
        if wanted.leases > 0 && wanted.on == Some(generation) {
            wanted.outcome.send_replace(Outcome::Done);
        } else {
            if wanted.leases > 0 {
                wanted.outcome.send_replace(Outcome::Pending);
            }
            self.wishes.send_modify(|count| *count += 1);
        }
        self.rest(uri);
    }

    /// Nothing more is done for `uri` for now.
    fn rest(&mut self, uri: &Arc<str>) {
        if let Some(wanted) = self.wanted.get_mut(uri) {
            wanted.busy = false;
            if wanted.leases == 0 {
                self.wanted.remove(uri);
            }
        }
    }
}
