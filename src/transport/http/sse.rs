//! The older transport, HTTP+SSE of revision 2024-11-05: one stream brings everything that the server says, and tells
//! first where our messages are to be posted.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use tokio::select;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

use super::events::{Events, MESSAGE};
use super::judge::Away;
use super::pool::Pool;
use super::{CLOSED, Http, query_of};
use crate::names::ServerName;
use crate::transport::allowance::Allowance;
use crate::transport::table::{Call, Table, Unbound};
use crate::transport::tally::Tally;
use crate::transport::text::{SHORT, Secrets};
use crate::transport::{Failure, batch};
use crate::wire::{Kind, Message};

/// How long the stream may take to tell where messages go. Servers tell it at once.
const ENDPOINT: Duration = Duration::from_secs(5);
/// How long a server that has answered a call may take to accept its request: some do so afterwards.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// An open link of the older transport. Its stream is its session: that cannot be resumed. Ends with its owner.
#[derive(Debug)]
pub(in crate::transport) struct Sse {
    http: Arc<Http>,
    table: Arc<Table>,
}

impl Sse {
    /// Opens the stream and waits until the server has told where messages go. [`Failure::Unsupported`] where it speaks
    /// something else.
    pub(in crate::transport) async fn open(http: &Arc<Http>, name: &ServerName) -> Result<Self, Failure> {
        let opening = async {
            let mut events = http.events(None).await?;
            let endpoint = match timeout(ENDPOINT, endpoint(&mut events, http)).await {
                Ok(told) => told?,
                Err(_) => return Err(no_endpoint()),
            };
            let secrets = http.secrets.load().with(endpoint.query().into_iter().chain(query_of(&endpoint)));
            http.secrets.store(Arc::new(secrets));
            http.head.rcu(|head| head.posting_to(&endpoint));
            Ok(events)
        };
        let events = opening.await.map_err(|failure| http.told(failure))?;
        let table = Arc::new(Table::new());
        table.tally.show_with(&http.tally);
        let reader = Reader {
            events,
            pool: Arc::clone(&http.pool), // and not `http`, which would never be dropped then
            name: name.clone(),
            depth: http.sizes.depth,
            secrets: http.secrets.load_full(),
            table: Ending(Arc::clone(&table)),
        };
        http.tasks.start(reader.run());
        Ok(Self { http: Arc::clone(http), table })
    }

    /// Nothing is posted until the call is polled.
    pub(in crate::transport) fn request(&self, id: u64, text: Bytes) -> Result<Posted, Failure> {
        let (call, http) = (self.table.enter(id)?, Arc::clone(&self.http));
        let posting = Box::pin(async move { http.send(text).await });
        Ok(Posted { call, posting: Some(posting), http: Arc::clone(&self.http) })
    }

    pub(in crate::transport) async fn send(&self, text: Bytes) -> Result<(), Failure> {
        match self.table.ended() {
            Some(why) => Err(why),
            None => self.http.send(text).await,
        }
    }

    pub(in crate::transport) fn listen(&self) -> Result<Unbound, Failure> {
        self.table.listen()
    }

    pub(in crate::transport) fn tally(&self) -> &Tally {
        &self.table.tally
    }

    /// Ends the stream and with it the session.
    pub(in crate::transport) async fn close(&self) {
        self.http.pool.cut.set(()).ok(); // set before, where a first close was given up halfway
        self.http.tasks.end().await;
        self.http.pool.clear();
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.http.tasks.cancel(); // calls in flight hold `http`, too
    }
}

/// Where messages go, which has to be on the same server: they hold what the configuration gives this one alone.
async fn endpoint(events: &mut Events, http: &Http) -> Result<Uri, Failure> {
    while let Some(event) = events.event(&http.pool).await? {
        match event.kind.as_str() {
            "endpoint" => {
                let told = String::from_utf8_lossy(&event.data);
                return http.head.load().within(told.trim()).map_err(|Away(origin)| {
                    Failure::Garbage(match origin {
                        Some(origin) => format!("an endpoint at {origin}, which is another server"),
                        None => "an endpoint that is no address".into(),
                    })
                });
            }
            MESSAGE => return Err(no_endpoint()), // the stream of a newer server
            _ => {}
        }
    }
    Err(Failure::Cut("the stream ended before it told where messages go".into()))
}

fn no_endpoint() -> Failure {
    Failure::Unsupported("offers a stream that does not begin as one of HTTP+SSE".into())
}

/// Brings what the stream tells to where it belongs, until it ends.
struct Reader {
    events: Events,
    pool: Arc<Pool>,
    name: ServerName,
    depth: usize,
    secrets: Arc<Secrets>,
    table: Ending,
}

impl Reader {
    async fn run(mut self) {
        let mut allowance = Allowance::new(3, Duration::from_secs(10));
        let why = loop {
            match self.events.event(&self.pool).await {
                Ok(Some(event)) if event.kind == MESSAGE => self.take(&event.data, &mut allowance),
                Ok(Some(_)) => {} // kinds we do not know are to be ignored
                Ok(None) => break Failure::Cut("the stream ended".into()),
                Err(failure) => break failure,
            }
            consume_budget().await; // one read may hold thousands of events
        };
        tracing::debug!(server = %self.name, "{why}");
        self.table.0.end(&why);
    }

    fn take(&self, text: &Bytes, allowance: &mut Allowance) {
        let table = &self.table.0;
        if let Err(why) = batch::each(text.clone(), self.depth, |message| table.route(message)) {
            table.tally.skip();
            if let Some(more) = allowance.take(1) {
                let text = self.secrets.plain(text, SHORT);
                tracing::warn!(server = %self.name, %why, more, "an event of its stream is no message: {text}");
            }
        }
    }
}

/// Ends the table on every way out, that of a reader which was never started among them.
struct Ending(Arc<Table>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(&Failure::Cut(CLOSED.into()));
    }
}

/// One call: its request is posted, its answer comes by the stream.
pub(in crate::transport) struct Posted {
    call: Call,
    posting: Option<Posting>,
    http: Arc<Http>,
}

type Posting = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + Sync>>;

impl Posted {
    /// The next message; the answer is the last. Cancel-safe.
    pub(in crate::transport) async fn next(&mut self) -> Result<Message, Failure> {
        while let Some(posting) = &mut self.posting {
            select! {
                biased; // most servers take the request before they answer
                posted = posting => {
                    self.posting = None;
                    if let Err(failure) = posted {
                        self.call.fail(failure);
                    }
                }
                message = self.call.next() => {
                    if message.as_ref().map_or(true, is_answer) {
                        self.leave();
                    }
                    return message;
                }
            }
        }
        self.call.next().await
    }

    /// Lets the request come to its end, so that its connection can be used again.
    fn leave(&mut self) {
        if let Some(posting) = self.posting.take() {
            self.http.tasks.start(async move { drop(timeout(AFTERWARDS, posting).await) });
        }
    }
}

fn is_answer(message: &Message) -> bool {
    matches!(message.kind(), Kind::Result | Kind::Error)
}
