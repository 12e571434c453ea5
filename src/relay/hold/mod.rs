//! A call of a client without sessions whose server asks something in its middle: the client is answered with what is
//! asked, the call waits, and the client's retry brings the answers and goes on with it (specification,
//! `basic/patterns/mrtr`). The server, whose protocol knows no such thing, sees one call.

mod for_whom;
mod replay;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use self::for_whom::For;
use self::replay::Script;
use super::answer::asking_result;
use super::call::{Asides, Call, Step};
use super::request::Errand;
pub(super) use state::{BadState, Bound, State};
pub(super) use table::{Holds, Room};

use super::{Caller, Handled, Refusal, Relay};
use crate::mcp::{Retry, input_params, input_required, method};
use crate::metrics;
use crate::session::Session;
use crate::wire::{self, Code, Message, members, quoted};

/// How long more questions are waited for after the first, so that those of one moment go out together.
const GATHER: Duration = Duration::from_millis(50);
/// JSON of ours and what was read once already.
const DEPTH: usize = usize::MAX;

/// A call, what its server waits for, and the request that began it.
pub(super) struct Held {
    call: Call,
    /// Under this session and its id the call is known here, whichever retry it goes on for.
    session: Arc<Session>,
    began: Message,
    asks: Vec<Ask>,
    /// Of the keys, which are never used again.
    last: u32,
    room: Option<Room>,
    /// What its client said when it was made before.
    script: Script,
    /// Its answer, where it came while nobody was there.
    answer: Option<Step>,
}

/// Something that the server wants to know.
struct Ask {
    key: Box<str>,
    /// The raw id under which the call waits for it.
    leg: Bytes,
    request: Message,
}

impl Relay {
    /// A request of a client without sessions that `run` answers, and that may ask or be a retry.
    pub(super) fn later_or_again<F>(
        self: &Arc<Self>,
        caller: &Caller,
        message: Message,
        run: impl FnOnce(Errand, Message) -> F,
    ) -> Handled
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        let id = message.id().unwrap_or_default();
        let refused = |refusal: Refusal| Handled::Now(refusal.answer(Some(&id)));
        let state = match self.state_of(caller, &message) {
            Ok(state) => state,
            Err(refusal) => return refused(refusal),
        };
        match state {
            Some(State::Held(number)) => match self.fits(number, &message) {
                Ok(()) => self.again(caller, message, number),
                Err(refusal) => refused(refusal),
            },
            Some(State::Again(mut script)) => match script.hear(&message) {
                Ok(()) => self.first(caller, message, Some(State::Again(script)), run),
                Err(refusal) => refused(refusal),
            },
            Some(State::Servers { .. }) | None => self.first(caller, message, state, run),
        }
    }

    fn state_of(&self, caller: &Caller, message: &Message) -> Result<Option<State>, Refusal> {
        let retry = Retry::read(message).map_err(Refusal::BadParams)?;
        let Some(sealed) = retry.and_then(|retry| retry.state) else { return Ok(None) };
        Ok(Some(Bound::to(message, caller.session.principal()).open(&self.keys, &sealed)?))
    }

    fn first<F>(
        self: &Arc<Self>,
        caller: &Caller,
        message: Message,
        state: Option<State>,
        run: impl FnOnce(Errand, Message) -> F,
    ) -> Handled
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        let began = message.clone();
        let script = if let Some(State::Again(script)) = &state { script.clone() } else { Script::default() };
        let call = match self.started(caller, message, true, state, run) {
            Ok(call) => call,
            Err(unbegun) => return unbegun,
        };
        if !caller.session.abilities().any() {
            return Handled::Later(call);
        }
        let held = Held::new(call, caller.session.clone(), began, script);
        let relay = self.clone();
        Handled::Later(Call::start(&self.orphans, |asides| held.drive(relay, For::Itself, asides)))
    }

    /// A retry that can be taken: it is for what its call asked.
    fn fits(&self, number: u128, retry: &Message) -> Result<(), Refusal> {
        let asked = self.holds.asked(number).ok_or(BadState)?;
        let bad = asked
            .iter()
            .find(|(key, method)| response(retry, key).is_some_and(|response| !answers(method, response)));
        match bad {
            Some((key, method)) => {
                Err(Refusal::BadParams(format!("`inputResponses`: {} is no result of {method}", quoted(key))))
            }
            None => Ok(()),
        }
    }

    fn again(self: &Arc<Self>, caller: &Caller, request: Message, number: u128) -> Handled {
        let id = request.id().unwrap_or_default();
        let guard = match caller.session.begin(&id) {
            Ok(guard) => guard,
            Err(error) => return Handled::unbegun(error, &id),
        };
        let relay = self.clone();
        Handled::Later(Call::start(&self.orphans, |asides| async move {
            let Some(mut held) = relay.holds.take(number).await else {
                return Some(Refusal::BadState.answer(Some(&id)));
            };
            held.deliver(&request);
            if let Some(level) = guard.session().level() {
                held.session.set_level(level);
            }
            held.drive(relay, For::Retry { guard, request }, asides).await
        }))
    }
}

impl Held {
    fn new(call: Call, session: Arc<Session>, began: Message, script: Script) -> Self {
        Self { call, session, began, asks: Vec::new(), last: 0, room: None, script, answer: None }
    }

    /// The keys and methods of what the client is asked.
    pub(super) fn asked(&self) -> Vec<(Box<str>, Box<str>)> {
        self.asks.iter().map(|ask| (ask.key.clone(), ask.request.method().into())).collect()
    }

    /// Goes on with the call until it ends, or its client has to be asked.
    async fn drive(mut self, relay: Arc<Relay>, request: For, asides: Arc<Asides>) -> Option<Bytes> {
        let mut due = (!self.asks.is_empty()).then(|| Instant::now() + GATHER);
        loop {
            let step = tokio::select! {
                biased;
                () = request.cancelled() => {
                    self.cancel();
                    return None;
                }
                step = self.step() => step,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    return Some(self.park(&relay, &request));
                }
            };
            match step {
                Step::Aside(message) | Step::Part(message) => {
                    if let Some(message) = request.aside(message) {
                        asides.push(message).await;
                    }
                }
                Step::Asked(question) => {
                    self.ask(&relay, question);
                    due = due.or_else(|| (!self.asks.is_empty()).then(|| Instant::now() + GATHER));
                }
                Step::Withdrawn(notification) => {
                    self.withdraw(notification);
                    due = due.filter(|_| !self.asks.is_empty());
                }
                Step::Piece(_) => {} // a call that may be held is answered whole
                Step::Answer(answer) => {
                    let hung_up = answer.is_none();
                    self.end(if hung_up { metrics::Held::Cancelled } else { metrics::Held::Ended });
                    return answer.map(|answer| request.answer(answer));
                }
            }
        }
    }

    async fn step(&mut self) -> Step {
        match self.answer.take() {
            Some(answer) => answer,
            None => self.call.step().await,
        }
    }

    /// Goes on while nobody is there: what the server asks or answers is kept, what it only tells is not. Cancel-safe.
    pub(super) async fn go_on(&mut self) {
        if self.answer.is_some() {
            return std::future::pending().await;
        }
        match self.call.step().await {
            Step::Aside(_) | Step::Part(_) | Step::Piece(_) => {}
            Step::Asked(question) => self.note(question),
            Step::Withdrawn(notification) => self.withdraw(notification),
            answer @ Step::Answer(_) => self.answer = Some(answer),
        }
    }

    /// The server asks: that is put to the client, or answered at once where it cannot be.
    fn ask(&mut self, relay: &Relay, question: Bytes) {
        if self.room.is_none() {
            self.room = self.call.asker().and_then(|upstream| relay.holds.room(&upstream));
        }
        if self.room.is_some() {
            return self.note(question);
        }
        if let Ok(request) = Message::parse(question, DEPTH) {
            let text = "too many calls wait for what their clients are asked";
            self.tell(&wire::error(request.id().as_deref(), Code::Internal, text));
        }
    }

    fn note(&mut self, question: Bytes) {
        let Ok(request) = Message::parse(question, DEPTH) else { return };
        let leg = request.id().unwrap_or_default();
        if ![method::SAMPLING, method::ELICITATION, method::ROOTS_LIST].contains(&request.method()) {
            let text = "this client cannot be asked that";
            return self.tell(&wire::error(Some(&leg), Code::MethodNotFound, text));
        }
        if let Some(answer) = self.script.answer(&request) {
            let answer = wire::response(&leg, answer.as_bytes());
            return self.tell(&answer);
        }
        self.last += 1;
        self.asks.push(Ask { key: format!("leg-{}", self.last).into(), leg, request });
    }

    /// The server no longer wants to know.
    fn withdraw(&mut self, notification: Bytes) {
        let Ok(told) = Message::parse(notification, DEPTH) else { return };
        let Ok([Some(id)]) = told.params_members(["requestId"]) else { return };
        let id = told.slice(id).unwrap_or_default();
        self.asks.retain(|ask| ask.leg != id.as_bytes());
    }

    /// Gives the server those answers that `retry` has. What else it has means nothing.
    fn deliver(&mut self, retry: &Message) {
        for ask in std::mem::take(&mut self.asks) {
            match response(retry, &ask.key) {
                Some(response) => self.tell(&wire::response(&ask.leg, response.as_bytes())),
                None => self.asks.push(ask),
            }
        }
    }

    /// Answers one of the questions.
    fn tell(&self, answer: &Bytes) {
        if let Ok(answer) = Message::parse(answer.clone(), DEPTH) {
            self.session.answered(answer);
        }
    }

    /// The answer that asks. The call waits from now on, or is ended and made again by the retry.
    fn park(mut self, relay: &Arc<Relay>, request: &For) -> Bytes {
        let (id, number) = (request.id(&self), Holds::number());
        let replays = self.call.asker().is_some_and(|upstream| upstream.server().replay);
        let state = if replays { State::Again(self.replayed()) } else { State::Held(number) };
        let state =
            Bound::to(&self.began, self.session.principal()).seal(&relay.keys, &state, relay.holds.time());
        let params: Vec<_> = self.asks.iter().map(|ask| ask.request.params().map(input_params)).collect();
        let asked = self.asks.iter().zip(&params);
        let asked: Vec<_> =
            asked.map(|(ask, params)| (&*ask.key, ask.request.method(), params.as_deref())).collect();
        let answer = asking_result(&id, &input_required(&asked, Some(&state)));
        if replays {
            self.session.cancel(&self.began.id().unwrap_or_default());
            self.end(metrics::Held::Replayed);
        } else {
            relay.holds.park(&relay.orphans, number, self);
        }
        answer
    }

    /// What the call was told so far, and asks.
    fn replayed(&self) -> Script {
        let mut script = self.script.clone();
        for ask in &self.asks {
            script.ask(&ask.key, &ask.request);
        }
        script
    }

    /// The client has hung up.
    pub(super) fn cancel(mut self) {
        self.session.cancel(&self.began.id().unwrap_or_default());
        self.end(metrics::Held::Cancelled);
        // Dropped, the call goes on to its end by itself, which is near.
    }

    /// The client has not come back: the server hears so, for each question and for all.
    pub(super) async fn abandon(mut self) {
        tracing::info!(asked = self.asks.len(), "a client did not come back with what it was asked");
        for ask in std::mem::take(&mut self.asks) {
            let id = Some(&*ask.leg);
            let text = "the client did not come back with an answer";
            self.tell(&match ask.request.method() {
                method::ELICITATION => wire::response(&ask.leg, br#"{"action":"cancel"}"#),
                method::SAMPLING => wire::failure(&ask.leg, REJECTED),
                _ => wire::error(id, Code::Internal, text),
            });
        }
        self.session.cancel(&self.began.id().unwrap_or_default());
        while self.answer.is_none() {
            self.go_on().await;
        }
        self.end(metrics::Held::Abandoned);
    }

    fn end(&mut self, result: metrics::Held) {
        if let Some(room) = self.room.take() {
            room.end(result);
        }
    }
}

/// That a user did not let a model be sampled (specification, `client/sampling`).
const REJECTED: &[u8] = br#"{"code":-1,"message":"the client did not come back with an answer"}"#;

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("call", &self.call)
            .field("asks", &self.asks.len())
            .finish_non_exhaustive()
    }
}

/// The client's raw answer to what it was asked as `key`, if `retry` has one.
fn response<'m>(retry: &'m Message, key: &str) -> Option<&'m str> {
    let said = Retry::read(retry).ok()??;
    let (_, at) = said.responses.into_iter().find(|(known, _)| **known == *key)?;
    retry.slice(at)
}

/// Whether `response` can be a result of `method`: an object with what such a result cannot lack.
pub(super) fn answers(method: &str, response: &str) -> bool {
    let has = |key| members(response, [key]).is_ok_and(|[found]| found.is_some());
    match method {
        method::ELICITATION => has("action"),
        method::SAMPLING => has("content"),
        method::ROOTS_LIST => has("roots"),
        _ => false,
    }
}
