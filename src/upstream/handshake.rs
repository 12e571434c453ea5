//! What is said before a server is of use: `initialize`, and what it lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::state::Ready;
use crate::catalog::{Budget, Listing, Pages, Turn};
use crate::config::{Protocol, Server};
use crate::mcp::{Feature, Hello, Revision, initialize_params, method};
use crate::transport::{Dialer, Failure, Link};
use crate::wire::{Kind, Message, notification, request};

/// Connects to a server, lists what it has and leaves again: for checks before anything runs.
///
/// # Errors
/// Why it is of no use.
pub async fn try_once(dialer: &Dialer, server: &Server) -> Result<(Hello, Listing), Failure> {
    let trying = async {
        let ready = Arc::new(connect(dialer, server, 1, server.connect_timeout).await?);
        let listing = list(ready.clone()).await;
        ready.link.close().await;
        listing.map(|listing| (ready.hello.clone(), listing))
    };
    let late = |_| Failure::Unreachable(format!("it did not answer within {:?}", server.connect_timeout));
    timeout(server.connect_timeout, trying).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// Dials and shakes hands.
pub(super) async fn connect(
    dialer: &Dialer,
    server: &Server,
    generation: u64,
    limit: Duration,
) -> Result<Ready, Failure> {
    let link = dialer.dial(server).await?;
    let shaken = match timeout(limit, shake_hands(&link, server)).await {
        Ok(shaken) => shaken,
        Err(_) => Err(Failure::Unreachable(silence(&link, limit))),
    };
    match shaken {
        Ok(hello) => Ok(Ready {
            link,
            hello,
            since: Instant::now(),
            generation,
            ids: AtomicU64::new(2), // the handshake's
            calls: TaskTracker::new(),
        }),
        Err(failure) => {
            link.close().await;
            Err(failure)
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

async fn shake_hands(link: &Link, server: &Server) -> Result<Hello, Failure> {
    let revision = match &server.protocol {
        Protocol::Auto | Protocol::Legacy => Revision::LATEST,
        Protocol::Revision(name) => Revision::of(name).ok_or_else(|| {
            Failure::Unsupported(format!("revision {name} is not supported yet; use `protocol: auto`"))
        })?,
        Protocol::Modern => {
            return Err(Failure::Unsupported(
                "`protocol: modern` is not supported yet; use `protocol: auto`".into(),
            ));
        }
    };
    let answer = match ask(link, 1, method::INITIALIZE, &initialize_params(revision, "{}")).await {
        Ok(answer) if answer.kind() == Kind::Result => answer,
        // It should have offered its own revision instead; some refuse ours and tell which they know.
        refused => match older(&refused, revision) {
            Some(older) => ask(link, 2, method::INITIALIZE, &initialize_params(older, "{}")).await?,
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
    Revision::ALL.into_iter().rev().find(|revision| *revision != asked && told.contains(revision.as_str()))
}

/// All that the server has. Tools are asked for although it announced none: some have them all the same.
pub(super) async fn list(ready: Arc<Ready>) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    for feature in Feature::ALL {
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
        let id = ready.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = ask(&ready.link, id, feature.list(), &params).await?;
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

async fn ask(link: &Link, id: u64, method: &str, params: &str) -> Result<Message, Failure> {
    let text: Bytes = request(id, method, params);
    let mut reply = link.request(id, text).await?;
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
