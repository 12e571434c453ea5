//! `tools/call`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::Relay;
use super::call::Asides;
use super::refusal::{Refusal, stub, unavailable};
use crate::catalog::{Route, View};
use crate::config::Server;
use crate::fleet::Snapshot;
use crate::mcp::method;
use crate::metrics::{Method, Outcome, Running};
use crate::session::CallGuard;
use crate::transport::Failure;
use crate::upstream::{Exchange, Unavailable, Upstream};
use crate::wire::{self, Code, Kind, Message, Span, members};

/// One call on its way.
struct ToolCall {
    message: Message,
    id: Bytes,
    name: Box<str>,
    name_at: Span,
    token_at: Option<Span>,
    guard: CallGuard,
    asides: Arc<Asides>,
}

/// Why a call did not end with an answer of the server.
enum Broken {
    Failed(Failure),
    Silent(Duration),
    Cancelled,
}

/// Answers a `tools/call`; `None` where the client cancelled it.
pub(super) async fn call(
    relay: Arc<Relay>,
    view: View,
    message: Message,
    guard: CallGuard,
    asides: Arc<Asides>,
) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let call = match ToolCall::read(message, id.clone(), guard, asides) {
        Ok(call) => call,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    let snapshot = relay.fleet.snapshot();
    let found = match snapshot.catalog.tool(&view, &call.name) {
        Some(route) => Ok((snapshot.upstreams.get(&route.server).cloned(), route)),
        None => Box::pin(look_again(&relay, snapshot, &view, &call)).await,
    };
    match found {
        Ok((Some(upstream), route)) => call.run(&upstream, &route).await,
        Ok((None, _)) => Some(Refusal::UnknownTool(call.name).answer(Some(&id))),
        Err(answer) => Some(answer),
    }
}

/// A name that nobody has: its tail may say whose it could be, and that server may have it by now.
async fn look_again(
    relay: &Relay,
    snapshot: Arc<Snapshot>,
    view: &View,
    call: &ToolCall,
) -> Result<(Option<Arc<Upstream>>, Route), Bytes> {
    let unknown = || Refusal::UnknownTool(call.name.clone()).answer(Some(&call.id));
    let server = snapshot.catalog.server_of_unknown(view, &call.name).ok_or_else(unknown)?;
    let upstream = snapshot.upstreams.get(&server).cloned().ok_or_else(unknown)?;
    let mut latest = snapshot;
    if !relay.misses.has(&latest, &server, &call.name) {
        upstream.look_again(relay.fleet.limits().first_list_wait).await;
        relay.fleet.rebuild().await;
        latest = relay.fleet.snapshot();
        if let Some(route) = latest.catalog.tool(view, &call.name) {
            return Ok((latest.upstreams.get(&route.server).cloned(), route));
        }
        relay.misses.add(&latest, &server, &call.name);
    }
    let settings = upstream.server();
    match upstream.unavailable() {
        Some(why) => {
            upstream.series().stub();
            let text = unavailable(&call.name, &server, &why);
            Err(stub(&call.id, &server, &text, Some(why.retry_after)))
        }
        // In its own view a server without filters answers for itself: it may know more names than it lists.
        None if matches!(view, View::One(_)) && settings.tools.allow.is_empty() && settings.tools.deny.is_empty() => {
            let name = call.message.text().slice(call.name_at.clone());
            Ok((Some(upstream), Route { server, name }))
        }
        None => Err(unknown()),
    }
}

impl ToolCall {
    fn read(message: Message, id: Bytes, guard: CallGuard, asides: Arc<Asides>) -> Result<Self, Refusal> {
        let bad = |why: &str| Refusal::BadParams(format!("tools/call: {why}"));
        let [name, meta] = message.params_members(["name", "_meta"]).map_err(|e| bad(&e.to_string()))?;
        let name_at = name.ok_or_else(|| bad("`name` is missing"))?;
        let name = message.string(name_at.clone()).ok_or_else(|| bad("`name` is no string"))?.into();
        let token_at = match meta {
            Some(meta) => message.members_at(meta, ["progressToken"]).map_err(|e| bad(&e.to_string()))?,
            None => [None],
        };
        let [token_at] = token_at;
        Ok(Self { message, id, name, name_at, token_at, guard, asides })
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

    async fn run(&self, upstream: &Arc<Upstream>, route: &Route) -> Option<Bytes> {
        let server = upstream.server();
        let running = upstream.series().begin(Method::ToolsCall);
        let started = Instant::now();
        let (answer, outcome) = self.answer(upstream, &server, route).await;
        log(&server, &self.name, outcome, started);
        end(running, outcome, upstream);
        answer
    }

    async fn answer(&self, upstream: &Arc<Upstream>, server: &Server, route: &Route) -> (Option<Bytes>, Outcome) {
        let write = |id| self.write(route, id);
        let mut exchange = match upstream.begin(&write).await {
            Ok(exchange) => exchange,
            Err(why) => return (Some(self.stub(server, &why)), Outcome::Stub),
        };
        let last = Instant::now() + server.max_total;
        let mut resent = false;
        loop {
            match self.read_answer(upstream, &mut exchange, last).await {
                Ok(answer) => return self.restore(&answer),
                Err(Broken::Failed(Failure::SessionGone)) if !resent => {
                    resent = true;
                    upstream.doubt(exchange.generation(), &Failure::SessionGone);
                    exchange = match upstream.begin_anew(&exchange, &write).await {
                        Ok(exchange) => exchange,
                        Err(why) => return (Some(self.stub(server, &why)), Outcome::Stub),
                    };
                }
                Err(Broken::Failed(failure)) => {
                    upstream.doubt(exchange.generation(), &failure);
                    let note = if failure.maybe_processed() { " The call may or may not have taken effect." } else { "" };
                    let why = Unavailable::of(&failure);
                    let text = unavailable(&self.name, &server.name, &why) + note;
                    return (Some(stub(&self.id, &server.name, &text, Some(why.retry_after))), Outcome::Failed);
                }
                Err(Broken::Silent(after)) => {
                    upstream.cancel(exchange, "no answer in time");
                    let text = format!(
                        "Tool {} gave no answer: server {} was silent for {after:?}; the call was cancelled. \
                         Try again, or raise `timeout` of this server.",
                        self.name, server.name
                    );
                    return (Some(stub(&self.id, &server.name, &text, None)), Outcome::Timeout);
                }
                Err(Broken::Cancelled) => {
                    upstream.cancel(exchange, "cancelled by the client");
                    return (None, Outcome::Cancelled);
                }
            }
        }
    }

    /// Reads up to the answer; each message gives the server its time anew, until `last`.
    async fn read_answer(&self, upstream: &Upstream, exchange: &mut Exchange, last: Instant) -> Result<Message, Broken> {
        let limit = upstream.server().timeout;
        loop {
            let started = Instant::now();
            let deadline = last.min(started + limit);
            let next = tokio::select! {
                biased;
                next = timeout_at(deadline, exchange.next()) => next,
                () = self.guard.cancelled() => return Err(Broken::Cancelled),
            };
            let message = next.map_err(|_| Broken::Silent(deadline - started))?.map_err(Broken::Failed)?;
            match message.kind() {
                Kind::Result | Kind::Error => return Ok(message),
                Kind::Request => exchange.refuse(&message).await,
                Kind::Notification => self.aside(upstream, exchange, message).await,
            }
        }
    }

    async fn aside(&self, upstream: &Upstream, exchange: &Exchange, message: Message) {
        match message.method() {
            method::TOOLS_CHANGED => upstream.tools_changed(),
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
        let outcome = match answer.kind() {
            Kind::Error => Outcome::RpcError,
            _ if answer.body().is_some_and(says_error) => Outcome::ToolError,
            _ => Outcome::Ok,
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

    fn stub(&self, server: &Server, why: &Unavailable) -> Bytes {
        stub(&self.id, &server.name, &unavailable(&self.name, &server.name, why), Some(why.retry_after))
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
