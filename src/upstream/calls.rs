//! What callers do with a server: requests, notifications, wishes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::breaker::Pass;
use super::era::Order;
use super::gate::Turn;
use super::state::{Ready, State, Status, Unavailable, ends_link};
use super::subscriptions::{self, Missed, Subscription};
use super::{Exchange, LevelWish, Upstream, Write};
use crate::config::{Protocol, Reach};
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
    /// One of the session's own.
    Own,
    /// One of the session's own, of the legacy era, if the server speaks that as well.
    Mirror,
}

/// How long a call waits for a connection that is just being made.
const PATIENCE: Duration = Duration::from_secs(3);

impl Upstream {
    /// Sends a request of `session`'s client that `write` makes for an id of ours.
    ///
    /// It goes over the link that all share, or, where the server keeps a state per session, over the session's own, which
    /// is opened now if need be.
    ///
    /// One that comes `again` without harm is sent again where a used connection breaks under it.
    ///
    /// # Errors
    /// Where the server is not connected: at once, but for a connection that is just being made.
    pub async fn begin(
        self: &Arc<Self>,
        session: &Arc<Session>,
        write: Write<'_>,
        again: bool,
    ) -> Result<Exchange, Unavailable> {
        let turn = self.enter()?;
        let ready = match self.state() {
            State::Ready(ready) => self.link_for(ready, session, 0).await?,
            // A session's own link may outlive the shared one.
            State::Idle | State::Connecting | State::Down(_) | State::Stopped => {
                if let Some(own) = self.own.ready(session) {
                    own
                } else {
                    let ready = Box::pin(self.ready_after(0)).await?;
                    self.link_for(ready, session, 0).await?
                }
            }
        };
        self.exchange(ready, session, write, turn, again).await
    }

    /// A place for a call. One that is down says so itself.
    fn enter(&self) -> Result<Turn<'_>, Unavailable> {
        self.gate.enter().map_err(|why| match self.state() {
            down @ State::Down(_) => down.unavailable(),
            State::Idle | State::Connecting | State::Ready(_) | State::Stopped => why,
        })
    }

    /// The link for a call of `session`, where `ready` is the one that is kept for all; an own one younger than the
    /// generation `after`.
    async fn link_for(
        self: &Arc<Self>,
        ready: Arc<Ready>,
        session: &Arc<Session>,
        after: u64,
    ) -> Result<Arc<Ready>, Unavailable> {
        match self.way(&ready, session) {
            Way::Shared => Ok(ready),
            Way::Own => Box::pin(self.own_link(session, after)).await,
            Way::Mirror => match Box::pin(self.own_link(session, after)).await {
                Err(_) if self.modern_only.load(Ordering::Acquire) => Ok(ready),
                found => found,
            },
        }
    }

    fn way(&self, ready: &Ready, session: &Session) -> Way {
        let guest = session.is_guest();
        if ready.is_modern() && !guest && self.is_mirrored() && !self.modern_only.load(Ordering::Acquire) {
            Way::Mirror
        } else if ready.shared || (guest && !(self.server.load().interactive)) {
            Way::Shared // whoever has no session shares the state of the kept one, if the server has any
        } else {
            Way::Own
        }
    }

    /// Whether a server of both eras is spoken to in the era of each client. Over HTTP it can be, and how such a server
    /// asks a client works mostly in one era only; a child belongs to one era for good.
    pub(super) fn is_mirrored(&self) -> bool {
        let server = self.server.load();
        matches!(server.reach, Reach::Http(_)) && server.protocol == Protocol::Auto
    }

    /// How a link of a session's own is greeted: as the kept one was, but for a server of both eras.
    pub(super) fn order_for_own(&self) -> Order {
        let legacy = self.hello().is_none_or(|hello| !hello.revision.is_modern());
        match (self.is_mirrored(), legacy) {
            (true, _) => Order::Legacy(Revision::LATEST_LEGACY),
            (false, true) => Order::Initialize,
            (false, false) => Order::Discover,
        }
    }

    /// As [`begin`](Self::begin), on a link younger than the one on which the server had nothing of what `failed`.
    ///
    /// # Errors
    /// As there.
    pub async fn begin_anew(
        self: &Arc<Self>,
        session: &Arc<Session>,
        failed: Exchange,
        write: Write<'_>,
        again: bool,
    ) -> Result<Exchange, Unavailable> {
        let (own, generation) = (failed.is_own_link(), failed.generation());
        drop(failed); // its place is free again
        let turn = self.enter()?;
        let ready = if own {
            let ready = self.ready().await?; // while the server is away nobody dials
            self.link_for(ready, session, generation).await?
        } else {
            let ready = self.ready_after(generation).await?;
            self.link_for(ready, session, 0).await?
        };
        self.exchange(ready, session, write, turn, again).await
    }

    /// Brings the server a notification of `session`'s client: on the session's own link, if it has one. Where all share
    /// a link it is nobody's in particular, so that one client's roots are not taken for everybody's.
    pub async fn tell(&self, session: &Arc<Session>, text: Bytes) {
        let roots =
            Message::parse(text.clone(), usize::MAX).is_ok_and(|told| told.method() == method::ROOTS_CHANGED);
        let ready = match (self.own.ready(session), self.state()) {
            (Some(own), _) => own,
            (None, State::Ready(ready)) if ready.shared && !roots && !ready.is_modern() => ready,
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

    async fn exchange(
        self: &Arc<Self>,
        ready: Arc<Ready>,
        session: &Arc<Session>,
        write: Write<'_>,
        turn: Turn<'_>,
        again: bool,
    ) -> Result<Exchange, Unavailable> {
        if let Some(retry_after) = ready.resting() {
            self.gate.resting();
            let what = "is busy, and asked to be left alone for a while".into();
            return Err(Unavailable { what, retry_after, unauthorized: false });
        }
        match Exchange::open(ready, session, write, turn, again).await {
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
            State::Idle | State::Connecting | State::Down(_) | State::Stopped => self.ready_after(0).await,
        }
    }

    async fn ready_after(&self, generation: u64) -> Result<Arc<Ready>, Unavailable> {
        self.wishes.woken.notify_one(); // an idle one starts to connect
        let mut status = self.status.subscribe();
        let usable = |status: &Status| match &status.state {
            State::Ready(ready) => ready.generation > generation,
            State::Idle | State::Connecting => false,
            State::Down(_) | State::Stopped => true,
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
        let mut status = self.status.subscribe();
        let (kept, before) = match &*status.borrow_and_update() {
            Status { state: State::Ready(kept), listings } => (kept.clone(), *listings),
            _ => return false,
        };
        let (own, generation) = (exchange.is_own_link(), kept.generation);
        // A session's own link alone is no reason to send a call twice: what is kept must mean another era now.
        let is_other = |now: &Ready| {
            if own {
                now.is_modern() != exchange.revision().is_modern()
            } else {
                now.generation > exchange.generation()
            }
        };
        if is_other(&kept) {
            return true;
        }
        kept.suspected.notify_one();
        let decided = |status: &Status| match &status.state {
            State::Ready(ready) => ready.generation > generation || status.listings > before,
            State::Down(_) | State::Stopped => true,
            State::Idle | State::Connecting => false,
        };
        let status = timeout(PATIENCE, status.wait_for(decided)).await;
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
