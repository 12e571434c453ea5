//! One request forwarded to its server, and what comes back.

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::consume_budget;
use tokio::time::Instant;

use super::legs::Legs;
use super::request::{Request, Subject, Tasks};
use crate::catalog::Route;
use crate::config::{Retry, Server};
use crate::mcp::{Letter, Revision, Round, code_of, method, wants_tasks};
use crate::metrics::{Outcome, Running};
use crate::transport::Failure;
use crate::upstream::{Exchange, Unavailable, Upstream, Write};
use crate::wire::{Code, Kind, Message};

/// A request under way, as metrics and log see it.
pub(super) struct Count {
    running: Running,
    since: Instant,
}

/// What a server answered.
pub(super) struct Answered {
    pub(super) message: Message,
    /// The revision that is spoken with it.
    pub(super) from: Revision,
    /// Where the rest comes from of a message that is [open](Message::is_open).
    pub(super) rest: Option<Box<Exchange>>,
}

/// Why a request did not end with an answer of the server.
pub(super) enum Broken {
    /// It could not even begin.
    Unavailable(Unavailable),
    Failed(Failure),
    Silent(Duration),
    /// It took longer than it may in all.
    Overdue(Duration),
    Cancelled,
    /// The process ends and waits no longer.
    Ending,
    /// It needs something of its client that it cannot get.
    Refused(String),
}

impl Request {
    /// Sends it the way `route`, to `upstream`, and gives the answer; `None` where the client cancelled it.
    pub(super) async fn run(&self, upstream: &Arc<Upstream>, route: &Route) -> Option<Bytes> {
        let server = upstream.server();
        // What came of a task is told once there is something to tell.
        let waits = self.subject == Subject::Task && self.message.method() == method::TASKS_RESULT;
        let limit = if waits { server.max_total } else { server.timeout };
        let count = self.count(upstream);
        let mut answer = self.answered(upstream, &server, limit, route).await;
        if let Ok(answered) = &mut answer
            && let Some(rest) = answered.rest.take()
        {
            let last = count.since + server.max_total;
            match Box::pin(self.pass(&server, &answered.message, *rest, (limit, last))).await {
                Ok(outcome) => {
                    self.close(count, upstream, &server, outcome);
                    return None;
                }
                Err(failure) => answer = Err(Broken::Failed(failure)),
            }
        }
        self.end(count, upstream, &server, route, answer)
    }

    async fn answered(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        limit: Duration,
        route: &Route,
    ) -> Result<Answered, Broken> {
        let write = |to, id| Letter { in_pieces: self.passes(to), ..self.write(route, to, id) };
        let again = self.repeats(server, route);
        let mut answered = self.send(upstream, server, limit, &write, again).await;
        if again && matches!(&answered, Err(Broken::Failed(failure)) if failure.is_passing()) {
            answered = Box::pin(self.send(upstream, server, limit, &write, false)).await;
        }
        let answered = answered?;
        if answered.rest.is_some() {
            return Ok(answered);
        }
        if answered.from.is_modern() {
            return Box::pin(self.go_on(upstream, server, limit, route, answered)).await;
        }
        if self.is_modern && answered.message.kind() == Kind::Error {
            return Box::pin(self.visits(upstream, server, limit, route, answered)).await;
        }
        // What its modern side lists does not say that here the tool runs as a task only.
        let unlisted = self.subject == Subject::Tool && !self.is_modern && self.tasks != Tasks::Asked;
        let code = || answered.message.body().and_then(code_of);
        if unlisted
            && answered.message.kind() == Kind::Error
            && code() == Some(Code::MethodNotFound.number().into())
            && upstream.hello().is_some_and(|hello| hello.revision.is_modern())
        {
            return Box::pin(self.as_task(upstream, server, route)).await;
        }
        Ok(answered)
    }

    /// What a modern server's answer is not the end of.
    async fn go_on(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        limit: Duration,
        route: &Route,
        mut answered: Answered,
    ) -> Result<Answered, Broken> {
        let mut route = Cow::Borrowed(route);
        if answered.message.body().and_then(code_of) == Some(Code::HeaderMismatch.number().into()) {
            // Its tools are others than we know, and so is what headers repeat of their arguments.
            let relay = &self.errand.relay;
            relay.look_again(upstream).await;
            let Ok(now) = self.route(&self.errand.snapshot()) else { return Ok(answered) };
            if now.server == server.name {
                let write = |to, id| self.write(&now, to, id);
                answered = self.forward(upstream, server, limit, &write).await?;
                route = Cow::Owned(now);
            }
        }
        if self.is_modern {
            let result = answered.message.body().filter(|_| answered.message.kind() == Kind::Result);
            return match result.and_then(Round::read) {
                // What cannot be read would pass unsealed.
                Some(Err(why)) => Err(Broken::Refused(why)),
                Some(Ok(_)) | None => Ok(answered),
            };
        }
        if answered.message.kind() == Kind::Error && answered.message.body().is_some_and(wants_tasks) {
            return self.see_through(upstream, server, &route).await;
        }
        self.rounds(upstream, server, limit, &route, answered).await
    }

    /// Counts it in.
    pub(super) fn count(&self, upstream: &Upstream) -> Count {
        let running = upstream.series().begin(self.label());
        Count { since: running.since(), running }
    }

    /// The client's answer; the request is counted out and logged.
    pub(super) fn end(
        &self,
        count: Count,
        upstream: &Upstream,
        server: &Server,
        route: &Route,
        answer: Result<Answered, Broken>,
    ) -> Option<Bytes> {
        let (answer, outcome) = match answer {
            Ok(answer) => self.restore(server, route, &answer),
            Err(broken) => self.excuse(upstream, server, broken),
        };
        self.close(count, upstream, server, outcome);
        answer
    }

    fn close(&self, count: Count, upstream: &Upstream, server: &Server, outcome: Outcome) {
        self.log(server, outcome, count.since);
        if matches!(outcome, Outcome::Stub) {
            upstream.series().stub();
        }
        count.running.end(outcome);
    }

    /// Sends what `write` makes for an id. The server may be silent for `limit`.
    pub(super) async fn forward(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        limit: Duration,
        write: Write<'_>,
    ) -> Result<Answered, Broken> {
        self.send(upstream, server, limit, write, false).await
    }

    /// Sends it, and once more where the server turns out to have seen nothing of it: it has lost our session, or could
    /// not be reached.
    async fn send(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        limit: Duration,
        write: Write<'_>,
        again: bool,
    ) -> Result<Answered, Broken> {
        let last = Instant::now() + server.max_total;
        let session = self.errand.guard.session();
        // Others have said for how long they want to hear the log, one without a session says it with each request.
        let _wish = match session.level().filter(|_| session.is_guest()) {
            Some(level) => Some(Box::pin(upstream.agree_level(level)).await),
            None => None,
        };
        let behalf = self.errand.behalf();
        let mut exchange = self.begun(upstream, server, pin!(upstream.begin(behalf, write, again))).await?;
        let mut answer = self.read_answer(upstream, &mut exchange, limit, last).await;
        if let Err(Broken::Failed(lost @ (Failure::SessionGone | Failure::Unreachable(_)))) = &answer {
            upstream.doubt(exchange.generation(), lost);
            // In boxes, here and below, what most calls do not need: a call's future is moved, and its room touched.
            exchange = {
                let mut anew = Box::pin(upstream.begin_anew(behalf, exchange, write, again));
                self.begun(upstream, server, anew.as_mut()).await?
            };
            answer = Box::pin(self.read_answer(upstream, &mut exchange, limit, last)).await;
        }
        if matches!(&answer, Ok(message) if message.kind() == Kind::Error)
            && Box::pin(upstream.is_another(&exchange)).await
        {
            exchange = {
                let mut anew = Box::pin(upstream.begin_anew(behalf, exchange, write, again));
                self.begun(upstream, server, anew.as_mut()).await?
            };
            answer = Box::pin(self.read_answer(upstream, &mut exchange, limit, last)).await;
        }
        let broken = match answer {
            Ok(message) => {
                let from = exchange.revision();
                let rest = message.is_open().then(|| Box::new(exchange));
                return Ok(Answered { message, from, rest });
            }
            Err(broken) => broken,
        };
        match &broken {
            Broken::Failed(failure) => upstream.doubt(exchange.generation(), failure),
            Broken::Silent(_) | Broken::Overdue(_) => upstream.give_up(exchange),
            Broken::Cancelled => upstream.cancel(exchange, "cancelled by the client"),
            Broken::Ending => upstream.cancel(exchange, "the proxy in between is stopped"),
            Broken::Unavailable(_) | Broken::Refused(_) => {}
        }
        Err(if matches!(broken, Broken::Overdue(_)) { Broken::Overdue(server.max_total) } else { broken })
    }

    /// Whether the server may get it twice: it reads only, or its tool says that this does no harm and the file takes its
    /// word.
    fn repeats(&self, server: &Server, route: &Route) -> bool {
        match self.subject {
            Subject::Prompt | Subject::OfPrompt | Subject::OfTemplate => true,
            Subject::Resource => self.message.method() == method::RESOURCES_READ,
            Subject::Tool => {
                self.tasks == Tasks::None && route.twice != Retry::Never && route.twice <= server.care.retry
            }
            Subject::Task | Subject::Unknown => false,
        }
    }

    /// The exchange that `beginning` gives, unless the server takes nothing in for so long. Futures are passed by place:
    /// by value, each function would copy them.
    async fn begun(
        &self,
        upstream: &Upstream,
        server: &Server,
        beginning: Pin<&mut (impl Future<Output = Result<Exchange, Unavailable>> + Send)>,
    ) -> Result<Exchange, Broken> {
        let (limit, pass) = (server.timeout, upstream.pass());
        if let Ok(begun) = self.errand.relay.clock.within(limit, beginning).await {
            return begun.map_err(Broken::Unavailable);
        }
        let late = self.late(limit);
        if matches!(late, Broken::Silent(_)) {
            upstream.took_nothing(pass);
        }
        Err(late)
    }

    /// Why a wait of `limit` was over.
    pub(super) fn late(&self, limit: Duration) -> Broken {
        if self.errand.relay.clock.is_over() { Broken::Ending } else { Broken::Silent(limit) }
    }

    async fn read_answer(
        &self,
        upstream: &Arc<Upstream>,
        exchange: &mut Exchange,
        limit: Duration,
        last: Instant,
    ) -> Result<Message, Broken> {
        let mut legs = Legs::default();
        let answer = self.converse(upstream, exchange, limit, last, &mut legs).await;
        if !legs.is_empty() {
            Box::pin(self.withdraw(legs.take_all(), "the call has ended")).await;
        }
        answer
    }

    /// Reads up to the answer; each message gives the server its time anew, until `last`. While the client is asked, it
    /// is not the server that is silent.
    async fn converse(
        &self,
        upstream: &Arc<Upstream>,
        exchange: &mut Exchange,
        limit: Duration,
        last: Instant,
        legs: &mut Legs,
    ) -> Result<Message, Broken> {
        loop {
            // A server that never pauses would let nobody else have a word.
            if self.errand.guard.is_cancelled() {
                return Err(Broken::Cancelled);
            }
            exchange.count(legs.is_empty());
            let now = Instant::now();
            if now >= last {
                return Err(Broken::Overdue(limit)); // a server that never pauses gets no more time either
            }
            let limit = legs.patience(now).unwrap_or(limit).min(last.saturating_duration_since(now));
            let said = {
                let next = pin!(exchange.next());
                tokio::select! {
                    biased;
                    next = self.errand.relay.clock.within(limit, next) => Err(next),
                    said = legs.said(), if !legs.is_empty() => Ok(said),
                    () = self.errand.guard.cancelled() => return Err(Broken::Cancelled),
                }
            };
            let next = match said {
                Ok(said) => {
                    Box::pin(exchange.respond(said)).await;
                    continue;
                }
                Err(next) => next,
            };
            match next {
                Ok(Ok(message)) => match message.kind() {
                    Kind::Result if message.is_open() && !self.passes_from(&upstream.server().name) => {}
                    Kind::Result | Kind::Error => return Ok(message),
                    kind @ (Kind::Request | Kind::Notification) => {
                        consume_budget().await; // and leave nobody else a turn
                        if message.has_odd_params() {
                            Box::pin(exchange.rebuke(&message)).await;
                        } else if kind == Kind::Request {
                            Box::pin(self.leg(upstream, exchange, legs, &message)).await;
                        } else {
                            Box::pin(self.aside(upstream, exchange, legs, message)).await;
                        }
                    }
                },
                Ok(Err(failure)) => return Err(Broken::Failed(failure)),
                Err(_) if self.errand.relay.clock.is_over() => return Err(Broken::Ending),
                Err(_) if last <= Instant::now() => return Err(Broken::Overdue(limit)),
                Err(_) if legs.is_empty() => return Err(Broken::Silent(limit)),
                Err(_) => Box::pin(self.give_up_late(exchange, legs)).await,
            }
        }
    }

    fn log(&self, server: &Server, outcome: Outcome, started: Instant) {
        // The clock is read where somebody sees it.
        let (ms, server, outcome) = (|| started.elapsed().as_millis(), &server.name, outcome.label());
        if self.subject == Subject::Tool {
            tracing::info!(%server, tool = &*self.name, outcome, ms = ms(), "call");
        } else {
            tracing::info!(%server, method = self.message.method(), name = &*self.name, outcome, ms = ms(), "request");
        }
    }
}
