//! What a server asks the client in the middle of a request.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::refusal::Refusal;
use super::request::Request;
use crate::mcp::method;
use crate::names::ServerName;
use crate::session::Leg;
use crate::upstream::{Exchange, Upstream, elicitation};
use crate::wire::{self, Code, Kind, Message, Span, notification};

/// How long a client, or its user, may take to answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a question may outlast its call's wait for a client without a session.
const MARGIN: Duration = Duration::from_secs(60);

/// The server's requests that wait for the client's answers. Most calls have none, and then it costs nothing.
#[derive(Default)]
pub(super) struct Legs(Vec<Open>);

/// One of them.
pub(super) struct Open {
    leg: Leg,
    /// The server's own id.
    theirs: Bytes,
    /// The server's own token of progress, where it wants any.
    token: Option<Bytes>,
    until: Instant,
}

/// The way to the client.
pub(super) enum Way {
    /// The stream that answers the request.
    Call,
    /// The session's own stream.
    Session,
}

impl Legs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long the first of them may still take; `None` where there is none.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.0.iter().map(|open| open.until.saturating_duration_since(now)).min()
    }

    /// What the client says to one of them next, for the server. Cancel-safe.
    pub(super) async fn said(&mut self) -> Bytes {
        poll_fn(|cx| self.poll_said(cx)).await
    }

    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        for at in 0..self.0.len() {
            let Some(open) = self.0.get_mut(at) else { break };
            let Poll::Ready(said) = open.leg.poll_said(cx) else { continue };
            match said {
                Some(progress) if progress.kind() == Kind::Notification => {
                    if let Some(text) = open.progress(&progress) {
                        return Poll::Ready(text);
                    }
                    cx.waker().wake_by_ref(); // there may be more
                }
                Some(answer) => return Poll::Ready(self.0.swap_remove(at).answer(&answer)),
                None => return Poll::Ready(self.0.swap_remove(at).failed("the client has left")),
            }
        }
        Poll::Pending
    }

    /// Those whose time is over.
    fn take_late(&mut self, now: Instant) -> Vec<Open> {
        self.0.extract_if(.., |open| open.until <= now).collect()
    }

    /// The one that the server knows as `theirs`.
    pub(super) fn take(&mut self, theirs: &str) -> Option<Open> {
        let at = self.0.iter().position(|open| open.theirs == theirs)?;
        Some(self.0.swap_remove(at))
    }

    pub(super) fn take_all(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.0)
    }
}

impl Open {
    fn answer(&self, answer: &Message) -> Bytes {
        answer.splice(&mut [(answer.id_span().unwrap_or_default(), &self.theirs)])
    }

    fn failed(&self, why: &str) -> Bytes {
        wire::error(Some(&self.theirs), Code::Internal, why)
    }

    /// The client's progress under the server's own token.
    fn progress(&self, progress: &Message) -> Option<Bytes> {
        let [Some(token_at)] = progress.params_members(["progressToken"]).ok()? else { return None };
        Some(progress.splice(&mut [(token_at, self.token.as_ref()?)]))
    }
}

impl Request {
    /// A server's request in the middle of this one: brought to the client, or answered at once where it cannot be.
    pub(super) async fn leg(
        &self,
        upstream: &Arc<Upstream>,
        exchange: &Exchange,
        legs: &mut Legs,
        asked: &Message,
    ) {
        if let Some(answer) = upstream.own_answer(asked) {
            return exchange.respond(answer).await;
        }
        let (server, session) = (upstream.server(), self.errand.guard.session());
        match self.open(&server.name, asked) {
            Ok((way, open, text)) => {
                if session.is_guest() {
                    self.errand.asides.asked_by(upstream);
                }
                if let Some(key) = elicitation(&server.name, asked) {
                    session.hold(&key, ());
                }
                legs.0.push(open);
                self.put(way, text).await;
            }
            Err(refusal) => {
                tracing::debug!(server = %server.name, method = asked.method(), "not asked of the client: {refusal:?}");
                exchange.respond(refusal.answer(asked.id().as_deref())).await;
            }
        }
    }

    fn open(&self, server: &ServerName, asked: &Message) -> Result<(Way, Open, Bytes), Refusal> {
        let session = self.errand.guard.session();
        // What it asks about a task of the client's own is the client's id already.
        let own = asked.method().starts_with("tasks/");
        let sealed = if own { None } else { self.errand.relay.seal_tasks(self.whose(), server, asked) };
        let asked = sealed.as_ref().unwrap_or(asked);
        session.abilities().allow(asked).map_err(|unable| Refusal::Unable {
            unable,
            method: asked.method().into(),
            other_mode: session.abilities().form || session.abilities().url,
        })?;
        let way = self.way().ok_or(Refusal::Unheard)?;
        let leg = session.ask().map_err(Refusal::TooManyLegs)?;
        let id = leg.id();
        let token_at = token(asked);
        let token = token_at.clone().map(|at| asked.text().slice(at));
        let mut edits = vec![(asked.id_span().unwrap_or_default(), id.as_bytes())];
        edits.extend(token_at.map(|at| (at, id.as_bytes())));
        let text = asked.splice(&mut edits);
        let theirs = asked.id().unwrap_or_default();
        Ok((way, Open { leg, theirs, token, until: Instant::now() + self.patience() }, text))
    }

    /// How the client can be reached; `None` where nobody would see what is asked.
    pub(super) fn way(&self) -> Option<Way> {
        if self.errand.events && self.errand.asides.heard() {
            return Some(Way::Call);
        }
        self.errand.guard.session().attached().then_some(Way::Session)
    }

    /// How long the client may take for an answer. One without a session that does not come back ends its call as a whole,
    /// before that.
    pub(super) fn patience(&self) -> Duration {
        let is_guest = self.errand.guard.session().is_guest();
        if is_guest { self.errand.relay.holds.time() + MARGIN } else { PATIENCE }
    }

    /// Puts a question to the client.
    pub(super) async fn put(&self, way: Way, text: Bytes) {
        match way {
            Way::Call => self.errand.asides.ask(text).await,
            Way::Session => drop(self.errand.guard.session().push(text)),
        }
    }

    /// Tells the client that one of its answers is no longer wanted.
    async fn take_back(&self, text: Bytes) {
        match self.way() {
            Some(Way::Call) => self.errand.asides.withdraw(text).await,
            Some(Way::Session) => drop(self.errand.guard.session().push(text)),
            None => {}
        }
    }

    /// Tells server and client that those whose time is over are.
    pub(super) async fn give_up_late(&self, exchange: &Exchange, legs: &mut Legs) {
        let late = legs.take_late(Instant::now());
        for open in &late {
            exchange.respond(open.failed(&format!("the client did not answer within {PATIENCE:?}"))).await;
        }
        self.withdraw(late, "no answer in time").await;
    }

    /// Tells the client that its answers are no longer wanted.
    pub(super) async fn withdraw(&self, legs: Vec<Open>, reason: &str) {
        for open in legs {
            self.take_leg_back(&open.leg, reason).await;
        }
    }

    pub(super) async fn take_leg_back(&self, leg: &Leg, reason: &str) {
        let params = format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, leg.id());
        self.take_back(notification(method::CANCELLED, &params)).await;
    }

    /// The server no longer wants the answer to one of its requests.
    pub(super) async fn withdrawn(&self, legs: &mut Legs, told: &Message) {
        let Ok([Some(id_at)]) = told.params_members(["requestId"]) else { return };
        let Some(open) = told.slice(id_at.clone()).and_then(|theirs| legs.take(theirs)) else { return };
        let text = told.splice(&mut [(id_at, open.leg.id().as_bytes())]);
        self.take_back(text).await;
    }
}

/// Where a server's request has its token of progress.
fn token(asked: &Message) -> Option<Span> {
    let [Some(meta)] = asked.params_members(["_meta"]).ok()? else { return None };
    let [token] = asked.members_at(meta, ["progressToken"]).ok()?;
    token
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Limits;
    use crate::metrics::Metrics;
    use crate::session::{Agreed, Keyring, Session, Sessions};

    fn session() -> Arc<Session> {
        let sessions = Sessions::new(&Limits::default(), Arc::new(Keyring::random()), Metrics::new("test"));
        let agreed =
            Agreed { revision: "2025-11-25".into(), capabilities: "{}".into(), client: String::new() };
        sessions.open("", agreed).unwrap()
    }

    fn open(session: &Arc<Session>, theirs: &'static str, token: Option<&'static str>) -> Open {
        let leg = session.ask().unwrap();
        let token = token.map(|token| Bytes::from_static(token.as_bytes()));
        Open { leg, theirs: theirs.into(), token, until: Instant::now() + PATIENCE }
    }

    fn parse(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()), 16).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_has_its_own_time() {
        let session = session();
        let mut legs = Legs::default();
        assert_eq!((legs.is_empty(), legs.patience(Instant::now())), (true, None));
        legs.0.push(open(&session, "1", None));
        tokio::time::advance(PATIENCE / 2).await;
        legs.0.push(open(&session, "2", None));
        assert_eq!(legs.patience(Instant::now()), Some(PATIENCE / 2));
        assert!(legs.take_late(Instant::now()).is_empty());
        tokio::time::advance(PATIENCE / 2).await;
        let late = legs.take_late(Instant::now());
        assert_eq!(late.iter().map(|open| &*open.theirs).collect::<Vec<_>>(), [b"1"]);
        assert!(!session.answered(parse(r#"{"jsonrpc":"2.0","id":"gw-9","result":{}}"#)));
        drop(late);
        assert!(!session.answered(parse(r#"{"jsonrpc":"2.0","id":"gw-1","result":{}}"#)), "it is too late");
        assert_eq!(legs.patience(Instant::now()), Some(PATIENCE / 2));
        assert!(legs.take("1").is_none() && legs.take("2").is_some() && legs.is_empty());
    }

    #[tokio::test]
    async fn answers_and_progress_go_back_as_the_server_knows_them() {
        let session = session();
        let mut legs = Legs(vec![open(&session, "\"s\"", Some("7")), open(&session, "8", None)]);
        let progress = |id: &str| {
            parse(&format!(
                r#"{{"jsonrpc":"2.0","method":"x","params":{{"progressToken":{id},"progress":1.50}}}}"#
            ))
        };
        assert!(session.progressed(progress(r#""gw-2""#)), "unwanted, and dropped");
        for n in 0..20 {
            // However much it says, there is room for the answer.
            assert_eq!(session.progressed(progress(r#""gw-1""#)), n < 7, "{n}");
        }
        assert!(session.answered(parse(r#"{"jsonrpc":"2.0","id":"gw-1","result":{"n":1.50}}"#)));
        for _ in 0..7 {
            let told = legs.said().await;
            assert_eq!(
                told,
                r#"{"jsonrpc":"2.0","method":"x","params":{"progressToken":7,"progress":1.50}}"#
            );
        }
        assert_eq!(legs.said().await, r#"{"jsonrpc":"2.0","id":"s","result":{"n":1.50}}"#);
        assert!(
            session.answered(parse(r#"{"jsonrpc":"2.0","id":"gw-2","error":{"code":-1,"message":"no"}}"#))
        );
        assert_eq!(legs.said().await, r#"{"jsonrpc":"2.0","id":8,"error":{"code":-1,"message":"no"}}"#);
        assert!(legs.is_empty());
    }
}
