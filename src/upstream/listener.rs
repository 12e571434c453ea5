//! Listening to what a server of the modern era tells unasked: `subscriptions/listen` (specification of 2026-07-28,
//! `basic/patterns/subscriptions`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::ear::Heard;
use super::listen::{Listen, Said};
use super::state::{Ready, ends_link};
use super::subscriptions::{Missed, Subscriptions};
use crate::mcp::{Filter, envelope_cuts, method, subscription};
use crate::transport::{Failure, Inbound};
use crate::wire::{Kind, Message, notification};

/// Wishes that come so close are asked for in one.
const BATCH: Duration = Duration::from_millis(100);
/// How long the stream before is read on after its successor stands: what was told before that comes over it.
const OVERLAP: Duration = Duration::from_millis(250);
/// How long a server may take to grant a stream.
const LIMIT: Duration = Duration::from_secs(30);
/// Most of what came over the one of two streams and may still come over the other.
const TWINS: usize = 1024;

/// Keeps a modern server's notifications coming: those of its lists, and of the resources that somebody wants to hear of.
///
/// What a stream tells is set once for all. So for other wishes a second one is opened, and the first is left when that
/// stands.
pub(super) struct Listener {
    ready: Arc<Ready>,
    subscriptions: Arc<Subscriptions>,
    wishes: watch::Receiver<u64>,
    /// A child's one stream, which brings everything.
    pipe: Option<Inbound>,
    /// The stream that counts, the one to come, and the one before.
    current: Option<Listen>,
    coming: Option<(Listen, Instant)>,
    leaving: Option<(Listen, Instant)>,
    /// When to open the next.
    due: Option<Instant>,
    /// How long after one that ended another is opened.
    interval: Duration,
    opened: Instant,
    /// Nothing was told for a while.
    gap: bool,
    /// The server has no such stream.
    deaf: bool,
    told: VecDeque<Heard>,
    /// What one of two streams has told, and the other may.
    twins: VecDeque<(bool, Message)>,
}

/// What happens next.
enum Event {
    Piped(Result<Message, Failure>),
    Current(Said),
    Coming(Said),
    Leaving(Said),
    Late,
    Left,
    Due,
    Wished,
}

impl Listener {
    pub(super) fn new(
        ready: Arc<Ready>,
        pipe: Option<Inbound>,
        subscriptions: Arc<Subscriptions>,
        interval: Duration,
    ) -> Self {
        let (now, wishes) = (Instant::now(), subscriptions.wishes());
        Self {
            ready,
            subscriptions,
            wishes,
            pipe,
            current: None,
            coming: None,
            leaving: None,
            due: Some(now),
            interval,
            opened: now,
            gap: true,
            deaf: false,
            told: VecDeque::new(),
            twins: VecDeque::new(),
        }
    }

    /// The next thing heard. Cancel-safe.
    ///
    /// # Errors
    /// Where the link itself has ended.
    pub(super) async fn hear(&mut self) -> Result<Heard, Failure> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(told);
            }
            let leave_at = self.leaving.as_ref().map(|(_, until)| *until);
            let late_at = self.coming.as_ref().map(|(_, until)| *until);
            let event = tokio::select! {
                said = piped(&mut self.pipe) => Event::Piped(said),
                said = next(self.leaving.as_mut().map(|(listen, _)| listen)) => Event::Leaving(said),
                said = next(self.current.as_mut()) => Event::Current(said),
                said = next(self.coming.as_mut().map(|(listen, _)| listen)) => Event::Coming(said),
                () = due(late_at) => Event::Late,
                () = due(leave_at) => Event::Left,
                () = due(self.due) => Event::Due,
                Ok(()) = self.wishes.changed() => Event::Wished,
            };
            self.take(event)?;
        }
    }

    fn take(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Piped(said) => self.piped(said?),
            Event::Current(Ok(said)) if said.kind() == Kind::Notification => self.tell(&said, false),
            Event::Leaving(Ok(said)) if said.kind() == Kind::Notification => self.tell(&said, true),
            Event::Coming(Ok(said)) if said.method() == method::ACKNOWLEDGED => self.acknowledged(&said),
            Event::Coming(Ok(said)) if said.kind() == Kind::Notification => {} // not before it is granted
            Event::Leaving(_) | Event::Left => self.leave(),
            Event::Current(end) => self.ended(end)?,
            Event::Coming(end) => self.missed(end)?,
            Event::Late => self.missed(Err(Failure::Cut(format!("no stream within {LIMIT:?}"))))?,
            Event::Due => self.open(),
            Event::Wished => self.due = Some(self.due.unwrap_or_else(|| Instant::now() + BATCH)),
        }
        Ok(())
    }

    /// What to ask for.
    fn filter(&self) -> Filter {
        let offers = &self.ready.hello.offers;
        Filter {
            tools: offers.tools_changed,
            prompts: offers.prompts_changed,
            resources: offers.resources_changed,
            uris: self.subscriptions.wanted(&self.ready),
            tasks: Vec::new(),
        }
    }

    /// Opens a stream for what is wanted now.
    fn open(&mut self) {
        self.due = None;
        if self.coming.is_some() {
            return; // once that stands it is looked whether it is what is wanted
        }
        let filter = self.filter();
        if self.deaf {
            self.subscriptions.missed(&self.ready, &Missed::unknown());
        } else if filter.is_empty() {
            if let Some(current) = self.current.take() {
                self.farewell(&current);
            } else if std::mem::take(&mut self.gap) {
                self.told.push_back(Heard::Deaf);
            }
        } else if let Some(current) = self.current.as_ref().filter(|current| current.filter == filter) {
            // What was let go and is wanted again is granted as before.
            self.subscriptions.granted(&self.ready, &filter.uris, &current.granted, false);
        } else {
            self.opened = Instant::now();
            self.coming = Some((Listen::open(&self.ready, filter), self.opened + LIMIT));
        }
    }

    /// The stream to come stands: from now on it is the one that counts.
    fn acknowledged(&mut self, said: &Message) {
        let Some((mut coming, _)) = self.coming.take() else { return };
        let granted = said.params().and_then(|params| Filter::parse(params).ok()).unwrap_or_default();
        self.subscriptions.granted(&self.ready, &coming.filter.uris, &granted.uris, self.gap);
        coming.granted = granted.uris;
        match self.current.replace(coming) {
            // Over the one pipe everything comes in order, so what comes under the old id now is told twice.
            Some(old) if self.pipe.is_some() => self.farewell(&old),
            Some(old) => self.leaving = Some((old, Instant::now() + OVERLAP)),
            None => {}
        }
        if std::mem::take(&mut self.gap) {
            self.told.push_back(Heard::Open);
        }
        self.due = Some(Instant::now()); // there may be other wishes by now
    }

    /// The stream that counts is at its end.
    fn ended(&mut self, end: Said) -> Result<(), Failure> {
        self.current = None;
        self.gap = true;
        self.later(end)
    }

    /// The stream to come does not come.
    fn missed(&mut self, end: Said) -> Result<(), Failure> {
        let coming = self.coming.take();
        let why = match &end {
            Ok(answer) => Missed::Refused(answer.body_bytes().unwrap_or_default()),
            Err(failure) => Missed::Failed(self.ready.generation, failure.clone()),
        };
        self.subscriptions.missed(&self.ready, &why);
        if let (Some((coming, _)), Err(_)) = (coming, &end) {
            self.farewell(&coming);
        }
        let unknown = matches!(&end, Ok(answer) if super::ask::is_unknown_method(answer));
        if unknown || matches!(end, Err(Failure::Unauthorized { .. })) {
            self.deaf = true;
        }
        if self.current.is_none() {
            self.told.push_back(Heard::Deaf);
        }
        if self.deaf { Ok(()) } else { self.later(end) }
    }

    /// Opens another one in a while, unless the link itself is at its end.
    fn later(&mut self, end: Said) -> Result<(), Failure> {
        if let Err(failure) = end
            && ends_link(&failure)
        {
            return Err(failure);
        }
        self.due = Some(Instant::now().max(self.opened + self.interval));
        Ok(())
    }

    fn leave(&mut self) {
        self.leaving = None;
        self.twins.clear();
    }

    /// Tells the server that a stream is read no more. Over HTTP it sees so.
    fn farewell(&self, listen: &Listen) {
        if self.pipe.is_some() {
            let ready = self.ready.clone();
            let text = notification(method::CANCELLED, &format!(r#"{{"requestId":{}}}"#, listen.id));
            drop(self.ready.calls.spawn(async move { ready.say(text).await }));
        }
    }

    /// What came over a child's pipe.
    fn piped(&mut self, message: Message) {
        let is = |listen: Option<&Listen>, id: &str| listen.is_some_and(|listen| listen.id.to_string() == id);
        let coming = self.coming.as_ref().map(|(listen, _)| listen);
        let ends = |id: &str| message.method() == method::CANCELLED && is(self.current.as_ref(), id);
        if super::unasked::param(&message, "requestId").is_some_and(ends) {
            self.current = None; // it says so where it ends in good order
            self.gap = true;
            self.due = Some(Instant::now().max(self.opened + self.interval));
            return;
        }
        match subscription(&message) {
            Some(id) if is(coming, id) && message.method() == method::ACKNOWLEDGED => {
                self.acknowledged(&message);
            }
            Some(id) if is(self.current.as_ref(), id) => self.tell(&message, false),
            Some(_) => {} // of a stream that is left
            None => self.told.push_back(Heard::Message(message)),
        }
    }

    /// Tells what came, once: while there are two streams, it comes over both.
    fn tell(&mut self, message: &Message, leaving: bool) {
        let mut cuts: Vec<_> = envelope_cuts(message).into_iter().map(|at| (at, &b""[..])).collect();
        let Ok(message) = Message::parse(message.splice(&mut cuts), usize::MAX) else { return };
        if self.leaving.is_some() {
            let twin = |(left, told): &(bool, Message)| *left != leaving && told.text() == message.text();
            if let Some(place) = self.twins.iter().position(twin) {
                self.twins.remove(place);
                return;
            }
            if self.twins.len() >= TWINS {
                self.twins.pop_front();
            }
            self.twins.push_back((leaving, message.clone()));
        }
        self.told.push_back(Heard::Message(message));
    }
}

async fn piped(pipe: &mut Option<Inbound>) -> Result<Message, Failure> {
    match pipe {
        Some(pipe) => pipe.next().await,
        None => std::future::pending().await,
    }
}

async fn next(listen: Option<&mut Listen>) -> Said {
    match listen {
        Some(listen) => listen.next().await,
        None => std::future::pending().await,
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
