//! What callers do with a server: requests, notifications, wishes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};

use super::behalf::{Behalf, Key, Linked, Share, Whom};
use super::breaker::Pass;
use super::era::Order;
use super::gate::Turn;
use super::own::Wanted;
use super::state::{RESTING, Ready, Remedy, State, Status, Unavailable, ends_link};
use super::subscriptions::{self, Missed, Subscription};
use super::{Exchange, LevelWish, Upstream, Write};
use crate::config::{Protocol, Reach, Scope, Values};
use crate::mcp::{Level, Revision, method};
use crate::session::Session;
use crate::transport::Failure;
use crate::wire::Message;

/// Why there is no subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscribeError {
    /// The server cannot be asked now.
    Unavailable(Unavailable),
    /// The server does not want it: its raw error object, or ours in its place where it offers no subscriptions.
    Refused(Bytes),
}

/// Over which link a call goes.
enum Way {
    /// The one that is kept for all.
    Shared,
    /// Another one.
    Own(Whom),
    /// One of the session's own, of the legacy era, if the server speaks that as well.
    Mirror,
}

/// How long a call waits for a connection that is just being made.
const PATIENCE: Duration = Duration::from_secs(3);

impl Upstream {
    /// Sends a request that `write` makes for an id of ours.
    ///
    /// It goes over the link that all share, or, where the server keeps something for each caller or is told who calls, over
    /// one of its own, which is opened now if need be.
    ///
    /// One that comes `again` without harm is sent again where a used connection breaks under it.
    ///
    /// # Errors
    /// Where the server is not connected: at once, but for a connection that is just being made. Where it is told something
    /// of its callers that this one lacks.
    pub async fn begin(
        self: &Arc<Self>,
        behalf: Behalf<'_>,
        write: Write<'_>,
        again: bool,
    ) -> Result<Exchange, Unavailable> {
        let turn = self.enter()?;
        let linked = match self.state() {
            State::Ready(ready) => self.link_for(ready, behalf, 0).await?,
            State::PerCaller => Box::pin(self.personal_link(behalf, 0)).await?,
            // A caller's own link may outlive the shared one.
            State::Idle | State::Connecting | State::Down(_) | State::Stopped => {
                if let Some(own) = self.own.standing(behalf) {
                    own.into()
                } else {
                    let ready = Box::pin(self.ready_after(0)).await?;
                    self.link_for(ready, behalf, 0).await?
                }
            }
        };
        self.exchange(linked, behalf.session, write, turn, again).await
    }

    /// A place for a call. One that is down says so itself.
    fn enter(&self) -> Result<Turn<'_>, Unavailable> {
        self.gate.enter().map_err(|why| match self.state() {
            down @ State::Down(_) => down.unavailable(),
            State::Idle | State::Connecting | State::Ready(_) | State::PerCaller | State::Stopped => why,
        })
    }

    /// The link for a call on `behalf`, where `ready` is the one that is kept for all; an own one younger than the
    /// generation `after`.
    async fn link_for(
        self: &Arc<Self>,
        ready: Arc<Ready>,
        behalf: Behalf<'_>,
        after: u64,
    ) -> Result<Linked, Unavailable> {
        let own = |whom| Wanted { key: Key { whom, values: None }, values: None };
        match self.way(&ready, behalf) {
            Way::Shared => Ok(ready.into()),
            Way::Own(whom) => Box::pin(self.own_link(behalf, own(whom), after)).await,
            Way::Mirror => {
                let whom = Whom::Session(behalf.session.serial());
                match Box::pin(self.own_link(behalf, own(whom), after)).await {
                    Err(_) if self.modern_only.load(Ordering::Acquire) => Ok(ready.into()),
                    found => found,
                }
            }
        }
    }

    fn way(&self, ready: &Ready, behalf: Behalf<'_>) -> Way {
        let (guest, known) = (behalf.session.is_guest(), behalf.session.principal().is_some());
        match ready.share {
            Share::Request => Way::Own(Whom::Request(self.generation())),
            Share::Principal => Way::Own(Whom::principal(behalf)),
            Share::Unknown if known => Way::Own(Whom::principal(behalf)),
            Share::All | Share::Unknown | Share::Session
                if ready.is_modern()
                    && !guest
                    && self.is_mirrored()
                    && !self.modern_only.load(Ordering::Acquire) =>
            {
                Way::Mirror
            }
            Share::All | Share::Unknown => Way::Shared,
            Share::Session => match Whom::session(behalf, self.server.load().interactive) {
                // Whoever has no session and no name shares the state of the kept one, if the server has any.
                Whom::Principal(None) => Way::Shared,
                whom @ (Whom::Anybody | Whom::Principal(Some(_)) | Whom::Session(_) | Whom::Request(_)) => {
                    Way::Own(whom)
                }
            },
        }
    }

    /// The link of a server that each caller reaches by himself, younger than `after`.
    pub(super) async fn personal_link(
        self: &Arc<Self>,
        behalf: Behalf<'_>,
        after: u64,
    ) -> Result<Linked, Unavailable> {
        loop {
            let server = self.server.load_full();
            let values = behalf.values(&server)?;
            let whom = match server.scope {
                Scope::Request => Whom::Request(self.generation()),
                Scope::Principal => Whom::principal(behalf),
                Scope::Session => Whom::session(behalf, server.interactive),
                Scope::Auto | Scope::Shared if server.interactive => Whom::session(behalf, true),
                Scope::Auto if matches!(server.reach, Reach::Stdio(_)) => Whom::principal(behalf),
                Scope::Auto if self.keeps_state.load(Ordering::Acquire) => Whom::session(behalf, false),
                Scope::Auto | Scope::Shared => Whom::Anybody,
            };
            let tries = server.scope == Scope::Auto && whom == Whom::Anybody;
            let key = Key { whom, values: values.as_ref().map(Values::digest) };
            let linked = self.own_link(behalf, Wanted { key: key.clone(), values }, after).await?;
            if !(tries && linked.ready.share == Share::Session) {
                return Ok(linked);
            }
            // Now it shows that the server keeps something for each session: nobody may share this one.
            self.keeps_state.store(true, Ordering::Release);
            self.own.end(&key);
        }
    }

    /// Whether a server of both eras is spoken to in the era of each client. Over HTTP it can be, and how such a server
    /// asks a client works mostly in one era only; a child belongs to one era for good.
    pub(super) fn is_mirrored(&self) -> bool {
        let server = self.server.load();
        matches!(server.reach, Reach::Http(_)) && server.protocol == Protocol::Auto
    }

    /// How another link is greeted: as the kept one was, but in a server of both eras a session's is of the legacy one. `None`
    /// where there is no kept one.
    pub(super) fn order_for(&self, whom: &Whom) -> Option<Order> {
        if self.is_personal() {
            return None;
        }
        let legacy = self.hello().is_none_or(|hello| !hello.revision.is_modern());
        Some(match (matches!(whom, Whom::Session(_)) && self.is_mirrored(), legacy) {
            (true, _) => Order::Legacy(Revision::LATEST_LEGACY),
            (false, true) => Order::Initialize,
            (false, false) => Order::Discover,
        })
    }

    /// As [`begin`](Self::begin), on a link younger than the one on which the server had nothing of what `failed`.
    ///
    /// # Errors
    /// As there.
    pub async fn begin_anew(
        self: &Arc<Self>,
        behalf: Behalf<'_>,
        failed: Exchange,
        write: Write<'_>,
        again: bool,
    ) -> Result<Exchange, Unavailable> {
        let (own, generation) = (failed.is_own_link(), failed.generation());
        drop(failed); // its place is free again
        let turn = self.enter()?;
        let linked = if matches!(self.state(), State::PerCaller) {
            self.personal_link(behalf, generation).await?
        } else if own {
            let ready = self.ready().await?; // while the server is away nobody dials
            self.link_for(ready, behalf, generation).await?
        } else {
            let ready = self.ready_after(generation).await?;
            self.link_for(ready, behalf, 0).await?
        };
        self.exchange(linked, behalf.session, write, turn, again).await
    }

    /// Brings the server a notification of `session`'s client: on the session's own link, if it has one. Where all share
    /// a link it is nobody's in particular, so that one client's roots are not taken for everybody's.
    pub async fn tell(&self, session: &Arc<Session>, text: Bytes) {
        let roots =
            Message::parse(text.clone(), usize::MAX).is_ok_and(|told| told.method() == method::ROOTS_CHANGED);
        let shared = |share| matches!(share, Share::All | Share::Unknown);
        let ready = match (self.own.of_session(session.serial()), self.state()) {
            (Some(own), _) => own,
            (None, State::Ready(ready)) if shared(ready.share) && !roots && !ready.is_modern() => ready,
            (None, _) => return,
        };
        ready.say(text).await;
    }

    /// `session` wants another [level](Session::level) of log messages. Its own link, if it has one, is told so.
    pub fn level_changed(&self, session: &Session) {
        self.own.wake(session.serial());
    }

    /// Wants to hear of the resource `uri`, the server's own URI, by [`Notice::Updated`](super::Notice::Updated). Whatever the number of those who
    /// do, the server is asked once; the last one's end tells it so, and after a reconnect it is asked again.
    ///
    /// # Errors
    /// Where the server cannot be asked, or does not want it.
    pub async fn subscribe(self: &Arc<Self>, uri: &str) -> Result<Subscription, SubscribeError> {
        let ready = self.ready().await.map_err(SubscribeError::Unavailable)?;
        let subscribed = if ready.hello.offers.subscribe {
            self.subscriptions.subscribe(uri).await
        } else {
            Err(Missed::unknown())
        };
        subscribed.map_err(|missed| match missed {
            Missed::Full => {
                let what = format!("has {} subscriptions already, the limit", subscriptions::MOST);
                SubscribeError::Unavailable(Unavailable::soon(what))
            }
            Missed::Away => SubscribeError::Unavailable(self.state().unavailable()),
            Missed::Refused(error) => SubscribeError::Refused(error),
            Missed::Failed(generation, failure) => {
                self.doubt(generation, &failure);
                SubscribeError::Unavailable(self.unavailable_after(&failure))
            }
        })
    }

    /// Wants log messages of the server from `level` on, for as long as the wish is held. What comes is what the loudest
    /// wish of all asks for.
    pub fn want_level(&self, level: Level) -> LevelWish {
        self.levels.wish(level)
    }

    /// As [`want_level`](Self::want_level), for a call that begins once the server knows of it, or has not said so in a
    /// while.
    pub async fn agree_level(&self, level: Level) -> LevelWish {
        let wish = self.levels.wish(level);
        if let State::Ready(ready) = self.state() {
            self.levels.reach(&ready, level).await;
        }
        wish
    }

    async fn exchange(
        self: &Arc<Self>,
        linked: Linked,
        session: &Arc<Session>,
        write: Write<'_>,
        turn: Turn<'_>,
        again: bool,
    ) -> Result<Exchange, Unavailable> {
        if let Some(retry_after) = linked.ready.resting() {
            self.gate.resting();
            return Err(Unavailable { what: RESTING.into(), retry_after, remedy: Remedy::Time });
        }
        match Exchange::open(linked, session, write, turn, again).await {
            Ok(exchange) => Ok(exchange),
            Err((ready, failure)) => {
                self.doubt(ready.generation, &failure);
                Err(self.unavailable_after(&failure))
            }
        }
    }

    async fn ready(&self) -> Result<Arc<Ready>, Unavailable> {
        match self.state() {
            State::Ready(ready) => Ok(ready),
            State::Idle | State::Connecting | State::Down(_) | State::PerCaller | State::Stopped => {
                self.ready_after(0).await
            }
        }
    }

    async fn ready_after(&self, generation: u64) -> Result<Arc<Ready>, Unavailable> {
        self.wishes.woken.notify_one(); // an idle one starts to connect
        let mut status = self.status.subscribe();
        let usable = |status: &Status| match &status.state {
            State::Ready(ready) => ready.generation > generation,
            State::Idle | State::Connecting => false,
            State::Down(_) | State::PerCaller | State::Stopped => true,
        };
        let state = match timeout(PATIENCE, status.wait_for(usable)).await {
            Ok(Ok(status)) => status.state.clone(),
            Ok(Err(_)) | Err(_) => self.state(),
        };
        if let State::Ready(ready) = &state
            && ready.generation > generation
        {
            return Ok(ready.clone());
        }
        Err(state.unavailable())
    }

    /// Waits a while for whether the server that gave `exchange` a doubtful answer turns out to be another one: then the
    /// answer was none to what was asked, and the call can be made anew.
    pub async fn is_another(&self, exchange: &Exchange) -> bool {
        if !exchange.is_doubtful() {
            return false;
        }
        // A session's own link alone is no reason to send a call twice: what is kept must mean another era now.
        let own = exchange.is_own_link();
        let is_other = |now: &Ready| {
            if own {
                now.is_modern() != exchange.revision().is_modern()
            } else {
                now.generation > exchange.generation()
            }
        };
        let mut status = self.status.subscribe();
        let Status { state, lists_begun: before, .. } = status.borrow_and_update().clone();
        let mut generation = 0; // it may be greeted already
        if let State::Ready(kept) = &state {
            if is_other(kept) {
                return true;
            }
            generation = kept.generation;
            kept.suspected.notify_one();
        }
        let until = Instant::now() + PATIENCE;
        let decided = |status: &Status| match &status.state {
            State::Ready(ready) => ready.generation > generation || status.listed > before,
            State::Down(why) => why.next > until,
            State::PerCaller | State::Stopped => true,
            State::Idle | State::Connecting => false,
        };
        let status = timeout_at(until, status.wait_for(decided)).await;
        let found = status.ok().and_then(Result::ok).map(|status| status.state.clone());
        matches!(found, Some(State::Ready(now)) if is_other(&now))
    }

    /// Tells whoever keeps the link `generation` that a call on it met `failure`: it looks whether the link is still good.
    pub fn doubt(&self, generation: u64, failure: &Failure) {
        if ends_link(failure) && !self.own.doubt(generation, failure) {
            self.wishes.doubted.tell(generation, failure);
            self.wishes.woken.notify_one();
        }
    }

    /// What a call that begins now is held against the server with, if it [takes](Self::took_nothing) nothing in.
    pub fn pass(&self) -> Pass {
        self.gate.breaker.pass()
    }

    /// The server did not even take a call in, which was to begin with this pass.
    pub fn took_nothing(&self, pass: Pass) {
        self.gate.breaker.failed(pass, "takes no calls in");
    }

    /// Tells the server in the background that nobody waits for `exchange` any more, which was not answered in time.
    pub fn give_up(&self, mut exchange: Exchange) {
        exchange.timed_out();
        self.cancel(exchange, "no answer in time");
    }

    /// Tells the server in the background that nobody waits for `exchange` any more.
    pub fn cancel(&self, exchange: Exchange, reason: &'static str) {
        self.shared.tasks.spawn(async move { drop(timeout(PATIENCE, exchange.cancel(reason)).await) });
    }
}
