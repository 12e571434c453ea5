//! The handshakes of both eras, and how it is found out which one a server belongs to (specification, `basic/versioning`,
//! "backwards compatibility").

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::ask::{answer_of, ask_as, error_code, result_of};
use super::era::Order;
use super::handshake::Face;
use crate::mcp::{Hello, Letter, Revision, initialize_params, method, newest_modern, supported_versions};
use crate::transport::{Failure, Link};
use crate::wire::{Code, Kind, Message, notification};

/// The ids of the handshake's requests: two may be in flight at a time, and each may be tried twice.
const DISCOVER: [u64; 2] = [1, 2];
const INITIALIZE: [u64; 2] = [3, 4];
/// The last of them.
pub(super) const LAST_ID: u64 = 4;

/// Says hello on a new link.
#[derive(Debug)]
pub(super) struct Greeter<'a> {
    pub(super) link: &'a Link,
    pub(super) face: &'a Face,
    /// How long to wait for an answer to `server/discover` before `initialize` is sent beside it.
    pub(super) patience: Duration,
}

/// A server that was met.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) hello: Hello,
    /// It said nothing to the question for its revisions while there was time for it.
    pub(super) silent: bool,
}

/// What came of `server/discover`.
enum Found {
    /// It is of the modern era.
    Modern(Box<Hello>),
    /// It does not know the question, and said so.
    Legacy(Failure),
    /// It speaks the older HTTP transport, over which nobody asks that.
    Unasked,
    /// It speaks this modern revision, not the one that we asked in.
    Other,
}

impl Greeter<'_> {
    /// Shakes hands; the link knows afterwards which revision is spoken.
    pub(super) async fn greet(&self, order: Order) -> Result<Met, Failure> {
        let met = match order {
            Order::Legacy(revision) => self.initialize(revision).await,
            Order::Initialize => self.initialize_first().await,
            Order::Discover => self.discover_first().await,
            Order::Modern => match self.discover().await? {
                Found::Modern(hello) => Ok(self.modern(*hello)),
                Found::Legacy(why) => Err(Failure::Unsupported(format!(
                    "does not speak revision {}: it {why}",
                    Revision::LATEST
                ))),
                Found::Unasked | Found::Other => {
                    Err(Failure::Unsupported(format!("does not speak revision {}", Revision::LATEST)))
                }
            },
        }?;
        self.link.settled();
        Ok(met)
    }

    async fn discover_first(&self) -> Result<Met, Failure> {
        let mut discovering = pin!(self.discover());
        if let Ok(found) = timeout(self.patience, &mut discovering).await {
            return match found? {
                Found::Modern(hello) => Ok(self.modern(*hello)),
                Found::Legacy(_) | Found::Other => self.initialize(Revision::LATEST_LEGACY).await,
                Found::Unasked => self.initialize_first().await,
            };
        }
        // It may be slow to start, or silent to what it does not know: whichever answer comes first tells.
        let mut initializing = pin!(self.initialize(Revision::LATEST_LEGACY));
        tokio::select! {
            found = &mut discovering => match found {
                Ok(Found::Modern(hello)) => Ok(self.modern(*hello)),
                Ok(Found::Legacy(_) | Found::Other | Found::Unasked) | Err(_) => initializing.await,
            },
            met = &mut initializing => match met {
                Ok(met) => Ok(Met { silent: true, ..met }),
                Err(refusal) if refuses(&refusal) => match discovering.await {
                    Ok(Found::Modern(hello)) => Ok(self.modern(*hello)),
                    Ok(_) | Err(_) => Err(refusal),
                },
                Err(failure) => Err(failure),
            },
        }
    }

    async fn initialize_first(&self) -> Result<Met, Failure> {
        match self.initialize(Revision::LATEST_LEGACY).await {
            Err(refusal) if refuses(&refusal) => match self.discover().await {
                Ok(Found::Modern(hello)) => Ok(self.modern(*hello)),
                Ok(_) | Err(_) => Err(refusal),
            },
            met => met,
        }
    }

    fn modern(&self, hello: Hello) -> Met {
        self.link.agree(hello.revision);
        Met { hello, silent: false }
    }

    async fn discover(&self) -> Result<Found, Failure> {
        for id in DISCOVER {
            let letter = Letter::ours(Revision::LATEST, id, method::DISCOVER, "{}");
            let Some(reply) = self.link.discover(Revision::LATEST, id, letter).await? else {
                return Ok(Found::Unasked);
            };
            let answer = match answer_of(reply).await {
                Ok(answer) => answer,
                Err(failure) if self.is_no_outage(&failure) => return Ok(Found::Legacy(failure)),
                Err(failure) => return Err(failure),
            };
            match read(&answer)? {
                Found::Other => {}
                found @ (Found::Modern(_) | Found::Legacy(_) | Found::Unasked) => return Ok(found),
            }
        }
        Ok(Found::Other)
    }

    /// Whether a server is there which cannot make sense of the question, as `failure` of it shows.
    fn is_no_outage(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Status { code, .. } => *code <= 501,
            Failure::Garbage(_) | Failure::TooLarge(_) | Failure::Unsupported(_) | Failure::SessionGone => {
                true
            }
            // A child is gone then.
            Failure::Cut(_) => !self.link.has_one_stream(),
            Failure::Unreachable(_)
            | Failure::Unauthorized { .. }
            | Failure::Busy { .. }
            | Failure::NoRoom => false,
        }
    }

    async fn initialize(&self, revision: Revision) -> Result<Met, Failure> {
        let [first, second] = INITIALIZE;
        let ask = async |id, revision: Revision| {
            let params = initialize_params(revision, self.face.capabilities(revision));
            ask_as(self.link, Revision::LATEST_LEGACY, id, method::INITIALIZE, &params).await
        };
        let answer = match ask(first, revision).await {
            Ok(answer) if answer.kind() == Kind::Result => answer,
            // It should have offered its own revision instead; some refuse ours and tell which they know.
            refused => match older(&refused, revision) {
                Some(older) => ask(second, older).await?,
                None => refused?,
            },
        };
        let hello = Hello::parse(result_of(&answer)?).map_err(Failure::Garbage)?;
        self.link.agree(hello.revision);
        self.link.send(notification(method::INITIALIZED, "{}")).await?;
        Ok(Met { hello, silent: false })
    }
}

/// What an answer to `server/discover` says. Codes that any server may use for what it does not understand say nothing.
fn read(answer: &Message) -> Result<Found, Failure> {
    if answer.kind() == Kind::Result {
        return Ok(match Hello::discovered(answer.body().unwrap_or_default()) {
            Ok(hello) => Found::Modern(Box::new(hello)),
            Err(why) => Found::Legacy(Failure::Garbage(why)),
        });
    }
    let refused = result_of(answer).err().unwrap_or_else(|| Failure::Garbage(String::new()));
    let is = |code: Code| error_code(answer) == Some(i64::from(code.number()));
    if is(Code::HeaderMismatch) || is(Code::MissingCapability) {
        return Err(refused); // the modern era's own: asking in another way would not help
    }
    if !is(Code::UnsupportedRevision) {
        return Ok(Found::Legacy(refused));
    }
    let supported = supported_versions(answer.body().unwrap_or_default());
    if newest_modern(supported.iter().map(String::as_str)).is_some() {
        return Ok(Found::Other);
    }
    if supported.is_empty() || supported.iter().any(|name| Revision::legacy(name).is_some()) {
        return Ok(Found::Legacy(refused));
    }
    let names: String = supported.join(", ").chars().filter(|c| !c.is_control()).take(100).collect();
    Err(Failure::Unsupported(format!("speaks revision {names} only, which we do not")))
}

/// Whether a server is there and wants no `initialize`, as the `failure` of it shows.
pub(super) fn refuses(failure: &Failure) -> bool {
    match failure {
        Failure::Status { code, .. } => *code < 500,
        Failure::Garbage(_) | Failure::Unsupported(_) => true,
        Failure::Cut(_)
        | Failure::TooLarge(_)
        | Failure::NoRoom
        | Failure::SessionGone
        | Failure::Unreachable(_)
        | Failure::Unauthorized { .. }
        | Failure::Busy { .. } => false,
    }
}

/// The newest revision with a handshake that a refusal names, other than the one we asked for.
fn older(refused: &Result<Message, Failure>, asked: Revision) -> Option<Revision> {
    let told = match refused {
        Ok(answer) => answer.body().unwrap_or_default().to_owned(),
        Err(Failure::Status { snippet, .. }) => snippet.clone(),
        Err(_) => return None,
    };
    Revision::LEGACY.into_iter().rev().find(|revision| *revision != asked && told.contains(revision.as_str()))
}
