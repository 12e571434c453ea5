//! How a link comes to be: dialled, greeted, ready.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::behalf::Share;
use super::era::{Memory, Order};
use super::flights::Flights;
use super::gate::Gate;
use super::greet::{self, Greeter};
use super::legs::Legs;
use super::lists::list;
use super::state::{Listed, Owner, Ready};
use crate::catalog::Listing;
use crate::config::{Limits, Reach, Server};
use crate::mcp::{Features, Hello, Revision, all_abilities};
use crate::metrics::{Metrics, ServerSeries};
use crate::transport::{Dialer, Failure, Link};

/// Connects to a server, lists what it has and leaves again: for checks before anything runs.
///
/// # Errors
/// Why it is of no use.
pub async fn try_once(dialer: &Dialer, server: &Server) -> Result<(Arc<Hello>, Listing), Failure> {
    let trying = async {
        let limit = server.connect_timeout;
        let (face, memory) = (Face::Nobody, Memory::default());
        let attempt = Attempt {
            dialer,
            server,
            series: None,
            generation: 1,
            limit,
            face,
            order: None,
            memory: &memory,
            gate: Arc::new(Gate::new(server, &Limits::default(), Metrics::new("").server(""))),
        };
        let ready = Arc::new(attempt.connect().await?);
        let listing = list(ready.clone(), Features::ALL, Listing::default(), limit).await;
        ready.link.close().await;
        let found = listing?;
        found.failed.map_or_else(|| Ok((ready.hello.clone(), found.listing)), Err)
    };
    let late = |_| Failure::Unreachable(format!("it did not answer within {:?}", server.connect_timeout));
    timeout(server.connect_timeout, trying).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// As whom we come to a server.
#[derive(Debug)]
pub(super) enum Face {
    /// As nobody who could be asked anything.
    Nobody,
    /// As whoever there is.
    Anyone,
    /// As one session's client, with its capabilities.
    One(Owner, String),
}

/// How to make a link.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) dialer: &'a Dialer,
    pub(super) server: &'a Server,
    /// Counts the link.
    pub(super) series: Option<&'a Arc<ServerSeries>>,
    /// The number that the link gets.
    pub(super) generation: u64,
    /// For the handshake.
    pub(super) limit: Duration,
    pub(super) face: Face,
    /// How to go about it, where the configuration does not say it and something is known that `memory` does not hold.
    pub(super) order: Option<Order>,
    pub(super) memory: &'a Memory,
    /// Which calls the server gets.
    pub(super) gate: Arc<Gate>,
}

/// How long an answer to `server/discover` may take before `initialize` is sent as well.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a second child gets at least.
const LEAST_TIME: Duration = Duration::from_millis(100);

impl Face {
    pub(super) fn capabilities(&self, revision: Revision) -> &str {
        match self {
            Self::Nobody => "{}",
            Self::Anyone => all_abilities(revision),
            Self::One(_, capabilities) => capabilities,
        }
    }

    fn owner(&self) -> Option<Owner> {
        if let Self::One(owner, _) = self { Some(owner.clone()) } else { None }
    }
}

impl Attempt<'_> {
    /// Dials and shakes hands. A child that ends at being asked what a legacy server does not know is started once more.
    pub(super) async fn connect(&self) -> Result<Ready, Failure> {
        let started = Instant::now();
        let mut order = Order::configured(self.server)?.or(self.order).unwrap_or_else(|| self.memory.order());
        loop {
            let left = self.limit.saturating_sub(started.elapsed()).max(LEAST_TIME);
            let link = self.dialer.dial(self.server).await?;
            if let Some(series) = self.series {
                link.count_in(series);
            }
            let patience = PATIENCE.min(left / 3);
            let greeter = Greeter { link: &link, face: &self.face, patience };
            let failure = match timeout(left, greeter.greet(order)).await {
                Ok(Ok(met)) => {
                    self.memory.met(order, met.hello.revision, met.silent);
                    return Ok(self.ready(link, met.hello));
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Unreachable(silence(&link, self.limit)),
            };
            let ended = matches!(self.server.reach, Reach::Stdio(_)) && !link.is_alive();
            link.close().await;
            if !(ended && self.memory.ended(order)) {
                return Err(failure);
            }
            order = Order::Initialize;
        }
    }

    fn ready(&self, link: Link, hello: Hello) -> Ready {
        Ready {
            share: Share::of(self.server, &link, hello.revision),
            kept: false,
            filled: false,
            hearers: None,
            hello: Arc::new(hello),
            since: Instant::now(),
            generation: self.generation,
            owner: self.face.owner(),
            ids: AtomicU64::new(greet::LAST_ID),
            calls: TaskTracker::new(),
            gate: self.gate.clone(),
            rest: AtomicU64::new(0),
            flights: Flights::default(),
            legs: Legs::default(),
            listed: Listed::default(),
            suspected: Notify::new(),
            over: CancellationToken::new(),
            _counted: self.series.map(|series| series.link()),
            link,
        }
    }
}

/// What to say of a server that does not answer. The usual reason is a program that logs to standard output.
fn silence(link: &Link, limit: Duration) -> String {
    let skipped = link.counts().skipped;
    let printed = if skipped == 0 {
        String::new()
    } else {
        format!(", but printed {skipped} lines that are no messages of MCP: does it log to standard output?")
    };
    format!("it did not answer within {limit:?}{printed}")
}
