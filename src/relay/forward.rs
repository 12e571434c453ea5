//! One `tools/call` forwarded to its server, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::call::Asides;
use super::refusal::{Refusal, stub, unavailable};
use crate::catalog::Route;
use crate::clock::Clock;
use crate::config::Server;
use crate::mcp::{Features, method};
use crate::metrics::{Method, Outcome, Running};
use crate::session::CallGuard;
use crate::transport::Failure;
use crate::upstream::{Exchange, Unavailable, Upstream};
use crate::wire::{self, Code, Kind, Message, Span, members};

/// One call on its way.
pub(super) struct ToolCall {
    pub(super) message: Message,
    pub(super) id: Bytes,
    pub(super) name: Box<str>,
    pub(super) name_at: Span,
    token_at: Option<Span>,
    guard: CallGuard,
    asides: Arc<Asides>,
    clock: Arc<Clock>,
}

/// Why a call did not end with an answer of the server.
enum Broken {
    /// It could not even begin.
    Unavailable(Unavailable),
    Failed(Failure),
    Silent(Duration),
    Cancelled,
}

impl ToolCall {
    /// Reads the `params`.
    pub(super) fn read(
        message: Message,
        guard: CallGuard,
        asides: Arc<Asides>,
        clock: Arc<Clock>,
    ) -> Result<Self, Refusal> {
        let id = message.id().unwrap_or_default();
        let bad = |why: &str| Refusal::BadParams(format!("tools/call: {why}"));
        let [name, meta] = message.params_members(["name", "_meta"]).map_err(|e| bad(&e.to_string()))?;
        let name_at = name.ok_or_else(|| bad("`name` is missing"))?;
        let name = message.string(name_at.clone()).ok_or_else(|| bad("`name` is no string"))?.into();
        let meta = meta.filter(|meta| message.slice(meta.clone()) != Some("null"));
        let token_at = match meta {
            Some(meta) => message.members_at(meta, ["progressToken"]),
            None => Ok([None]),
        };
        let [token_at] = token_at.map_err(|why| bad(&format!("`_meta`: {why}")))?;
        Ok(Self { message, id, name, name_at, token_at, guard, asides, clock })
    }

    /// The call as the server is to see it: its own name for the tool, our id, and our token.
    fn write(&self, route: &Route, id: u64) -> Bytes {
        let number = id.to_string();
        let id_at = self.message.id_span().unwrap_or_default();
        let mut edits = [(id_at, number.as_bytes()), (self.name_at.clone(), &route.name), (0..0, &b""[..])];
        if let (Some(token_at), Some(edit)) = (&self.token_at, edits.last_mut()) {
            *edit = (token_at.clone(), number.as_bytes());
        }
        self.message.splice(&mut edits)
    }

    /// Sends it to its server and gives the answer; `None` where the client cancelled it.
    pub(super) async fn run(&self, upstream: &Arc<Upstream>, route: &Route) -> Option<Bytes> {
        let server = upstream.server();
        let running = upstream.series().begin(Method::ToolsCall);
        let started = Instant::now();
        let (answer, outcome) = match self.forward(upstream, &server, route).await {
            Ok(answer) => self.restore(&answer),
            Err(broken) => self.excuse(upstream, &server, broken),
        };
        log(&server, &self.name, outcome, started);
        end(running, outcome, upstream);
        answer
    }

    /// Sends it, and once more where the server turns out to have lost our session: then it did not look at it.
    async fn forward(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        route: &Route,
    ) -> Result<Message, Broken> {
        let write = |id| self.write(route, id);
        let last = Instant::now() + server.max_total;
        let mut exchange = self.begun(server.timeout, upstream.begin(self.guard.session(), &write)).await?;
        let mut answer = self.read_answer(upstream, &mut exchange, last).await;
        if let Err(Broken::Failed(lost @ Failure::SessionGone)) = &answer {
            upstream.doubt(exchange.generation(), lost);
            exchange = self
                .begun(server.timeout, upstream.begin_anew(self.guard.session(), &exchange, &write))
                .await?;
            answer = self.read_answer(upstream, &mut exchange, last).await;
        }
        match &answer {
            Err(Broken::Failed(failure)) => upstream.doubt(exchange.generation(), failure),
            Err(Broken::Silent(_)) => upstream.cancel(exchange, "no answer in time"),
            Err(Broken::Cancelled) => upstream.cancel(exchange, "cancelled by the client"),
            Err(Broken::Unavailable(_)) | Ok(_) => {}
        }
        answer
    }

    /// The exchange that `beginning` gives, unless the server takes nothing in for so long.
    async fn begun(
        &self,
        limit: Duration,
        beginning: impl Future<Output = Result<Exchange, Unavailable>>,
    ) -> Result<Exchange, Broken> {
        let begun = self.clock.within(limit, beginning).await;
        begun.map_err(|_| Broken::Silent(limit))?.map_err(Broken::Unavailable)
    }

    /// Reads up to the answer; each message gives the server its time anew, until `last`.
    async fn read_answer(
        &self,
        upstream: &Upstream,
        exchange: &mut Exchange,
        last: Instant,
    ) -> Result<Message, Broken> {
        loop {
            let limit = upstream.server().timeout.min(last.saturating_duration_since(Instant::now()));
            let next = tokio::select! {
                biased;
                next = self.clock.within(limit, exchange.next()) => next,
                () = self.guard.cancelled() => return Err(Broken::Cancelled),
            };
            let message = next.map_err(|_| Broken::Silent(limit))?.map_err(Broken::Failed)?;
            match message.kind() {
                Kind::Result | Kind::Error => return Ok(message),
                Kind::Request => exchange.refuse(&message).await,
                Kind::Notification => self.aside(upstream, exchange, message).await,
            }
        }
    }

    async fn aside(&self, upstream: &Upstream, exchange: &Exchange, message: Message) {
        match message.method() {
            method::TOOLS_CHANGED => upstream.changed(Features::changed_by(method::TOOLS_CHANGED)),
            method::PROGRESS => {
                if let Some(progress) = self.progress(exchange, &message) {
                    self.asides.push(progress).await;
                }
            }
            _ => self.asides.push(message.text().clone()).await,
        }
    }

    /// Progress under the client's own token, if it is of this call and the client wants it.
    fn progress(&self, exchange: &Exchange, message: &Message) -> Option<Bytes> {
        let token = self.message.text().slice(self.token_at.clone()?);
        let [Some(token_at)] = message.params_members(["progressToken"]).ok()? else { return None };
        let ours = message.slice(token_at.clone())? == exchange.id().to_string();
        ours.then(|| message.splice(&mut [(token_at, &token)]))
    }

    /// The server's answer under the client's own id.
    fn restore(&self, answer: &Message) -> (Option<Bytes>, Outcome) {
        let outcome = if answer.kind() == Kind::Error {
            Outcome::RpcError
        } else if answer.body().is_some_and(says_error) {
            Outcome::ToolError
        } else {
            Outcome::Ok
        };
        let text = match answer.id_span() {
            Some(id_at) => answer.splice(&mut [(id_at, &self.id)]),
            None => match answer.body_bytes() {
                Some(error) => wire::failure(&self.id, &error),
                None => wire::error(Some(&self.id), Code::Internal, "the server's answer cannot be read"),
            },
        };
        (Some(text), outcome)
    }

    /// The answer in place of the server's.
    fn excuse(&self, upstream: &Upstream, server: &Server, broken: Broken) -> (Option<Bytes>, Outcome) {
        let (name, tool) = (&server.name, &self.name);
        let (text, retry_after, outcome) = match broken {
            Broken::Cancelled => return (None, Outcome::Cancelled),
            Broken::Unavailable(why) => (unavailable(tool, name, &why), Some(why.retry_after), Outcome::Stub),
            Broken::Failed(failure) => {
                let why = upstream.unavailable_after(&failure);
                let note = if failure.maybe_processed() {
                    " The call may or may not have taken effect."
                } else {
                    ""
                };
                (unavailable(tool, name, &why) + note, Some(why.retry_after), Outcome::Failed)
            }
            Broken::Silent(after) => {
                let text = format!(
                    "Tool {tool} gave no answer: server {name} was silent for {after:?}; the call was cancelled. \
                     Try again, or raise `timeout` of this server."
                );
                (text, None, Outcome::Timeout)
            }
        };
        (Some(stub(&self.id, name, &text, retry_after)), outcome)
    }
}

/// Whether a result has `isError: true`. Most have not, and large ones are not parsed for it.
fn says_error(result: &str) -> bool {
    let Some(_) = memchr::memmem::find(result.as_bytes(), b"\"isError\"") else { return false };
    let found = members(result, ["isError"]).ok().and_then(|[flag]| flag).and_then(|span| result.get(span));
    found == Some("true")
}

fn end(running: Running, outcome: Outcome, upstream: &Upstream) {
    if matches!(outcome, Outcome::Stub) {
        upstream.series().stub();
    }
    running.end(outcome);
}

fn log(server: &Server, tool: &str, outcome: Outcome, started: Instant) {
    let ms = started.elapsed().as_millis();
    tracing::info!(server = %server.name, tool, outcome = outcome.label(), ms, "call");
}
