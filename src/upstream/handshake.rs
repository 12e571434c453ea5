//! What is said before a server is of use: `initialize`, and what it lists.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::flights::Flights;
use super::legs::Legs;
use super::state::{Owner, Ready};
use crate::catalog::{Budget, Listing, Pages, Turn};
use crate::config::{Protocol, Scope, Server};
use crate::mcp::{Feature, Features, Hello, Revision, all_abilities, initialize_params, method};
use crate::metrics::ServerSeries;
use crate::transport::{Dialer, Failure, Link};
use crate::wire::{Kind, Message, notification, request};

/// Connects to a server, lists what it has and leaves again: for checks before anything runs.
///
/// # Errors
/// Why it is of no use.
pub async fn try_once(dialer: &Dialer, server: &Server) -> Result<(Arc<Hello>, Listing), Failure> {
    let trying = async {
        let limit = server.connect_timeout;
        let attempt = Attempt { dialer, server, series: None, generation: 1, limit, face: Face::Nobody };
        let ready = Arc::new(attempt.connect().await?);
        let listing = list(ready.clone(), Features::ALL, Listing::default()).await;
        ready.link.close().await;
        listing.map(|listing| (ready.hello.clone(), listing))
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
    pub(super) series: Option<&'a ServerSeries>,
    /// The number that the link gets.
    pub(super) generation: u64,
    /// For the handshake.
    pub(super) limit: Duration,
    pub(super) face: Face,
}

impl Face {
    fn capabilities(&self, revision: Revision) -> &str {
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
    /// Dials and shakes hands.
    pub(super) async fn connect(&self) -> Result<Ready, Failure> {
        let link = self.dialer.dial(self.server).await?;
        let shaken = match timeout(self.limit, shake_hands(&link, self.server, &self.face)).await {
            Ok(shaken) => shaken,
            Err(_) => Err(Failure::Unreachable(silence(&link, self.limit))),
        };
        match shaken {
            Ok(hello) => Ok(Ready {
                hello: Arc::new(hello),
                since: Instant::now(),
                generation: self.generation,
                shared: is_shared(self.server, &link),
                owner: self.face.owner(),
                ids: AtomicU64::new(2), // the handshake's
                calls: TaskTracker::new(),
                flights: Flights::default(),
                legs: Legs::default(),
                over: CancellationToken::new(),
                _counted: self.series.map(ServerSeries::link),
                link,
            }),
            Err(failure) => {
                link.close().await;
                Err(failure)
            }
        }
    }
}

/// Whether all sessions may use one link. Without other orders it is what a direct connection would give: a server that
/// hands out session ids keeps something per session, a child process and a server without sessions do not.
fn is_shared(server: &Server, link: &Link) -> bool {
    match server.scope {
        _ if server.interactive => false,
        Scope::Auto => !link.has_session(),
        Scope::Shared => true,
        Scope::Session => false,
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

async fn shake_hands(link: &Link, server: &Server, face: &Face) -> Result<Hello, Failure> {
    let asking = |revision| initialize_params(revision, face.capabilities(revision));
    let revision = match &server.protocol {
        Protocol::Auto | Protocol::Legacy => Revision::LATEST_LEGACY,
        Protocol::Revision(name) => Revision::legacy(name).ok_or_else(|| {
            Failure::Unsupported(format!("revision {name} is not supported yet; use `protocol: auto`"))
        })?,
        Protocol::Modern => {
            return Err(Failure::Unsupported(
                "`protocol: modern` is not supported yet; use `protocol: auto`".into(),
            ));
        }
    };
    let answer = match ask(link, 1, method::INITIALIZE, &asking(revision)).await {
        Ok(answer) if answer.kind() == Kind::Result => answer,
        // It should have offered its own revision instead; some refuse ours and tell which they know.
        refused => match older(&refused, revision) {
            Some(older) => ask(link, 2, method::INITIALIZE, &asking(older)).await?,
            None => refused?,
        },
    };
    let hello = Hello::parse(result_of(&answer)?).map_err(Failure::Garbage)?;
    link.agree(hello.revision.as_str());
    link.send(notification(method::INITIALIZED, "{}")).await?;
    link.settled();
    Ok(hello)
}

/// The newest revision that a refusal names, other than the one we asked for.
fn older(refused: &Result<Message, Failure>, asked: Revision) -> Option<Revision> {
    let told = match refused {
        Ok(answer) => answer.body().unwrap_or_default().to_owned(),
        Err(Failure::Status { snippet, .. }) => snippet.clone(),
        Err(_) => return None,
    };
    Revision::LEGACY.into_iter().rev().find(|revision| *revision != asked && told.contains(revision.as_str()))
}

/// All that the server has of these kinds, the others as in `listing`. Tools are asked for although it announced none:
/// some have them all the same.
pub(super) async fn list(
    ready: Arc<Ready>,
    features: Features,
    mut listing: Listing,
) -> Result<Listing, Failure> {
    for feature in features.iter() {
        let offers = &ready.hello.offers;
        let announced = match feature {
            Feature::Tool => offers.tools,
            Feature::Prompt => offers.prompts,
            Feature::Resource | Feature::Template => offers.resources,
        };
        if announced || feature == Feature::Tool {
            // Many servers have resources and know no templates.
            let must = announced && feature != Feature::Template;
            listing.take(feature, pages(&ready, feature, must).await?);
        }
    }
    Ok(listing)
}

/// All pages of one kind, within the budget.
async fn pages(ready: &Ready, feature: Feature, must: bool) -> Result<Listing, Failure> {
    let mut pages = Pages::new(feature);
    let mut params = "{}".to_owned();
    loop {
        let answer = ask(&ready.link, ready.id(), feature.list(), &params).await?;
        match result_of(&answer) {
            Err(_) if !must => return Ok(pages.finish()),
            // An empty cursor is valid, but some mean by it that there are no more pages.
            Err(_) if params == EMPTY_CURSOR => return Ok(pages.finish()),
            told => told?,
        };
        let result = answer.body_bytes().unwrap_or_default();
        let turn = pages.add(&result, Budget::default());
        match turn.map_err(|bad| Failure::Garbage(format!("its answer to {}: {bad}", feature.list())))? {
            Turn::Done => return Ok(pages.finish()),
            Turn::Next(cursor) => params = format!(r#"{{"cursor":{cursor}}}"#),
        }
    }
}

const EMPTY_CURSOR: &str = r#"{"cursor":""}"#;

/// The answer to a request of ours, of those that may reach the server twice.
pub(super) async fn ask(link: &Link, id: u64, method: &str, params: &str) -> Result<Message, Failure> {
    let text: Bytes = request(id, method, params);
    let mut reply = link.request(id, text).await?.repeatable();
    loop {
        let message = reply.next().await?;
        if matches!(message.kind(), Kind::Result | Kind::Error) {
            return Ok(message);
        }
    }
}

fn result_of(answer: &Message) -> Result<&str, Failure> {
    let body = answer.body().unwrap_or_default();
    if answer.kind() == Kind::Result {
        return Ok(body);
    }
    let told: String = body.chars().take(200).collect();
    Err(Failure::Garbage(format!("it answered with the error {told}")))
}
