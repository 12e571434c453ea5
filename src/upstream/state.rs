//! How an upstream is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::behalf::Share;
use super::flights::Flights;
use super::gate::Gate;
use super::legs::Legs;
use super::news::Hearers;
use crate::mcp::{Feature, Hello, method};
use crate::metrics::LinkGuard;
use crate::session::Session;
use crate::transport::{Failure, Link};
use crate::wire::{self, Code, Kind, Message};

/// How an upstream is. Only its keeper changes it.
#[derive(Debug, Clone)]
pub enum State {
    /// Never needed so far (`startup: false`).
    Idle,
    /// Being connected for the first time, or anew right after a link was lost. Later attempts are made while it is down.
    Connecting,
    /// Connected.
    Ready(Arc<Ready>),
    /// Not connected; tried again by itself.
    Down(Arc<Why>),
    /// Reached by each caller for himself, since its settings are filled in for him: there is nothing to keep for all.
    PerCaller,
    /// No longer configured.
    Stopped,
}

/// Why an upstream is down.
#[derive(Debug)]
pub struct Why {
    /// Since when.
    pub since: Instant,
    /// What happened, for people, as a predicate (`cannot be reached: …`); no secrets.
    pub what: String,
    /// When it is tried next.
    pub next: Instant,
    /// The server answered 401 or 403: retrying alone will not help.
    pub unauthorized: bool,
}

/// A connected server.
#[derive(Debug)]
pub struct Ready {
    /// The link.
    pub link: Link,
    /// What the server said of itself.
    pub hello: Arc<Hello>,
    /// Since when.
    pub since: Instant,
    /// Counts the links of this upstream, from 1.
    pub generation: u64,
    /// Who may use one such link together.
    pub(super) share: Share,
    /// It is the keeper's, the one that is kept for all.
    pub(super) kept: bool,
    /// Something of its caller was filled into its settings.
    pub(super) filled: bool,
    /// Who hears what comes over it and belongs to no call; nobody where that could be anybody's.
    pub(super) hearers: Option<Hearers>,
    /// The only session that uses it, if it is one's own.
    pub(super) owner: Option<Owner>,
    /// The last request id used.
    pub(super) ids: AtomicU64,
    /// Counts the calls in flight on this link, and what else it must not be closed under.
    pub(super) calls: TaskTracker,
    /// Which calls the server gets.
    pub(super) gate: Arc<Gate>,
    /// Until when it wants to be left alone, in milliseconds after the link was made; 0 where it does not.
    pub(super) rest: AtomicU64,
    /// Whose they are.
    pub(super) flights: Flights,
    /// The server's requests that wait for a client outside of any call.
    pub(super) legs: Legs,
    /// When what the server has was last listed over it.
    pub(super) listed: Listed,
    /// What was answered to a call makes it doubtful that the server is still the one that was greeted.
    pub(super) suspected: Notify,
    /// Cancelled once the link is of no use any more.
    pub(super) over: CancellationToken,
    /// Counts it, as long as it is there.
    pub(super) _counted: Option<LinkGuard>,
}

/// When each kind was last listed over a link, in milliseconds after it was made and from 1 on; 0 where it was not yet.
#[derive(Debug, Default)]
pub(super) struct Listed([AtomicU64; 4]);

impl Listed {
    /// `feature` was asked for `at` that time after the link was made.
    pub(super) fn note(&self, feature: Feature, at: Duration) {
        if let Some(listed) = self.0.get(feature.index()) {
            listed.store(u64::try_from(at.as_millis()).unwrap_or(u64::MAX - 1) + 1, Ordering::Relaxed);
        }
    }

    /// The time after the link was made at which `feature` was last asked for, if it was.
    pub(super) fn at(&self, feature: Feature) -> Option<Duration> {
        let at = self.0.get(feature.index())?.load(Ordering::Relaxed);
        at.checked_sub(1).map(Duration::from_millis)
    }
}

/// The only session that uses a link.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) serial: u128,
    pub(super) session: Weak<Session>,
}

/// Of a server that has asked for a pause, as a predicate.
pub(super) const RESTING: &str = "is busy, and asked to be left alone for a while";

/// What the keeper publishes.
#[derive(Debug, Clone)]
pub struct Status {
    /// How it is.
    pub state: State,
    /// How many attempts to list have begun.
    pub lists_begun: u64,
    /// The last of them that ended, well or badly: 1 for the first. Whoever wants to know how things are now waits for one
    /// that began after he asked.
    pub listed: u64,
}

/// Why a call cannot be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// For people, as a predicate: the server's name goes before it.
    pub what: String,
    /// When it makes sense to try again.
    pub retry_after: Duration,
    /// What it takes for the next try to go better.
    pub remedy: Remedy,
}

/// What it takes for the next try to go better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Time.
    Time,
    /// Somebody has to give us other credentials.
    Operator,
    /// The same request again fails again, whenever it comes.
    Caller,
}

impl State {
    /// A word for `/status` and logs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Ready(_) => "ready",
            Self::Down(why) if why.unauthorized => "needsAuthorization",
            Self::Down(_) => "down",
            Self::PerCaller => "perCaller",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing is going on that a first list should wait for.
    pub(super) fn is_settled(&self) -> bool {
        match self {
            Self::Down(_) | Self::Stopped | Self::PerCaller => true,
            Self::Idle | Self::Connecting | Self::Ready(_) => false,
        }
    }

    pub(super) fn unavailable(&self) -> Unavailable {
        match self {
            Self::Idle | Self::Connecting | Self::Ready(_) => Unavailable::soon("is still being connected"),
            Self::PerCaller => Unavailable::lasting("is reached by each caller for himself, so not for this"),
            Self::Stopped => Unavailable::soon("has just been removed or replaced in the configuration"),
            Self::Down(why) => Unavailable {
                what: why.what.clone(),
                retry_after: why.next.saturating_duration_since(Instant::now()),
                remedy: if why.unauthorized { Remedy::Operator } else { Remedy::Time },
            },
        }
    }
}

impl Ready {
    /// Waits, at the end of the process, for the calls that were broken off to tell their servers so. Any that have other
    /// reasons to last do not hold it up for long.
    pub(super) async fn last_words(&self) {
        const LAST_WORDS: Duration = Duration::from_millis(250);
        self.calls.close();
        drop(timeout(LAST_WORDS, self.calls.wait()).await);
    }

    /// Whether it is of the era without handshakes and sessions.
    pub(super) fn is_modern(&self) -> bool {
        self.hello.revision.is_modern()
    }

    /// The server wants no calls on this link for so long.
    pub(super) fn leave_alone(&self, time: Duration) {
        let until = u64::try_from((self.since.elapsed() + time).as_millis()).unwrap_or(u64::MAX);
        self.rest.fetch_max(until, Ordering::Relaxed);
    }

    /// For how long the server wants to be left alone, if it does.
    pub(super) fn resting(&self) -> Option<Duration> {
        let until = match self.rest.load(Ordering::Relaxed) {
            0 => return None,
            until => Duration::from_millis(until),
        };
        let left = until.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero());
        if left.is_none() {
            self.rest.store(0, Ordering::Relaxed);
        }
        left
    }

    /// An id for a request.
    pub(super) fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Answers a server's own request that no client can be asked, so that it does not wait in vain.
    pub(super) async fn refuse(&self, asked: &Message) {
        let id = asked.id().unwrap_or_default();
        let text = match asked.method() {
            method::PING => wire::response(&id, b"{}"),
            other => wire::error(
                Some(&id),
                Code::MethodNotFound,
                &format!("{other} was not offered by this client"),
            ),
        };
        self.say(text).await;
    }

    /// Answers a server's own request whose params are no object; a notification of that kind is passed over.
    pub(super) async fn rebuke(&self, odd: &Message) {
        if odd.kind() == Kind::Request {
            let why = "`params` must be an object";
            self.say(wire::error(odd.id().as_deref(), Code::InvalidParams, why)).await;
        }
    }

    /// Answers a server's own request for which there is no client just now.
    pub(super) async fn refuse_leg(&self, asked: &Message) {
        let why = "no client can be asked: none is known to have caused this request";
        self.say(wire::error(Some(&asked.id().unwrap_or_default()), Code::Internal, why)).await;
    }

    /// Sends the answer to a server's own request. A server that does not read loses it, not us.
    pub(super) async fn say(&self, text: Bytes) {
        drop(timeout(ANSWER_TIME, self.link.send(text)).await);
    }
}

/// How long an answer to a server's own request may take to be written.
const ANSWER_TIME: Duration = Duration::from_secs(5);

impl Unavailable {
    /// It is worth trying again in a moment.
    pub(super) fn soon(what: impl Into<String>) -> Self {
        Self { what: what.into(), retry_after: Duration::from_secs(1), remedy: Remedy::Time }
    }

    /// Waiting does not help.
    pub(super) fn lasting(what: impl Into<String>) -> Self {
        Self { what: what.into(), retry_after: Duration::ZERO, remedy: Remedy::Caller }
    }

    /// As it is, with the time until `next`.
    pub(super) fn until(&self, next: Instant) -> Self {
        Self { retry_after: next.saturating_duration_since(Instant::now()), ..self.clone() }
    }

    /// What a failed call says of the server.
    pub(super) fn of(failure: &Failure) -> Self {
        Self {
            what: failure.to_string(),
            retry_after: failure.retry_after().unwrap_or_default(),
            remedy: if matches!(failure, Failure::Unauthorized { .. }) {
                Remedy::Operator
            } else {
                Remedy::Time
            },
        }
    }

    /// When it makes sense to try again, if time is what it takes.
    pub fn again(&self) -> Option<Duration> {
        Some(self.retry_after).filter(|after| self.remedy != Remedy::Caller || !after.is_zero())
    }
}

/// Whether such a failure of a call speaks against the server that is connected. Some are the call's own affair, others
/// show that it is not connected.
#[expect(clippy::match_same_arms, reason = "one line per failure, each thought about")]
pub(super) fn is_held_against(failure: &Failure) -> bool {
    match failure {
        Failure::Cut(_) | Failure::Garbage(_) => true,
        Failure::Status { code, .. } => *code >= 500,
        Failure::Busy { code, .. } => *code != 429, // how busy a client may keep it is no fault of the server
        Failure::TooLarge(_) | Failure::NoRoom | Failure::Unsupported(_) => false,
        Failure::Unreachable(_) | Failure::SessionGone | Failure::Unauthorized { .. } => false,
    }
}

/// Whether a link is of no use after such a failure of a call. Others concern the call alone.
#[expect(clippy::match_same_arms, reason = "one line per failure, each thought about")]
pub(super) fn ends_link(failure: &Failure) -> bool {
    match failure {
        Failure::Unreachable(_) | Failure::SessionGone | Failure::Unauthorized { .. } => true,
        Failure::Status { .. } | Failure::Busy { .. } | Failure::Cut(_) => false,
        Failure::TooLarge(_) | Failure::NoRoom | Failure::Garbage(_) | Failure::Unsupported(_) => false,
    }
}
