//! A call of a client with a session whose server asks by its answers: the client is asked on the stream of its request,
//! the server gets the request again with what the client says, and so on to the end. The client sees one request.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::time::Instant;

use super::forward::{Answered, Broken};
use super::request::Request;
use super::write::Input;
use crate::catalog::Route;
use crate::config::Server;
use crate::mcp::{Round, leg_params, method};
use crate::session::Leg;
use crate::upstream::Upstream;
use crate::wire::{Kind, Message, Text, members, notification, quoted, request};

/// Most rounds of one call.
pub(super) const ROUNDS: usize = 8;
/// How long a server that asks nothing and wants to be called again is left alone at first; each time twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// One of the questions of a round, in the client's words.
pub(super) struct Question {
    pub(super) key: Box<str>,
    pub(super) method: Box<str>,
    /// The request without an id of its own.
    pub(super) text: Message,
    /// The id of the elicitation that sends the user to a page.
    pub(super) page: Option<String>,
}

/// A question that the client has been asked.
struct Asked {
    question: Question,
    leg: Leg,
    until: Instant,
}

/// What the client says in a round.
#[derive(Default)]
pub(super) struct Said {
    /// Raw, by the server's keys.
    pub(super) answers: Vec<(Box<str>, String)>,
    /// The ids of the elicitations whose pages its user went to.
    pages: Vec<String>,
}

impl Request {
    /// Goes on from `answered`, which may ask, to an answer that does not.
    pub(super) async fn rounds(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        limit: Duration,
        route: &Route,
        mut answered: Answered,
    ) -> Result<Answered, Broken> {
        let last = Instant::now() + server.max_total;
        let mut pause = PAUSE;
        for _ in 0..ROUNDS {
            let result = answered.message.body().filter(|_| answered.message.kind() == Kind::Result);
            let Some(round) = result.and_then(Round::read).filter(|_| answered.from.is_modern()) else {
                return Ok(answered);
            };
            let (result, round) = (result.unwrap_or_default(), round.map_err(Broken::Refused)?);
            let mut said = Said::default();
            if round.requests.is_empty() {
                self.rest(pause.min(last.saturating_duration_since(Instant::now()))).await?;
                pause *= 2;
            } else {
                let questions = self.questions(result, &round)?;
                said = self.ask_all(questions, last).await?;
            }
            let state = round.state.and_then(|at| result.get(at)).map(str::to_owned);
            let input = Input { responses: said.answers, state };
            if last <= Instant::now() {
                return Err(Broken::Overdue(server.max_total));
            }
            let write = |to, id| self.write_again(route, to, id, &input);
            answered = self.forward(upstream, server, limit, &write).await?;
            for page in said.pages {
                let params = format!(r#"{{"elicitationId":{}}}"#, quoted(&page));
                self.errand.asides.push(notification(method::ELICITATION_COMPLETE, &params)).await;
            }
        }
        Err(Broken::Refused(format!("the server asked for something {ROUNDS} times, and again")))
    }

    /// Waits, unless the client no longer wants the answer.
    pub(super) async fn rest(&self, time: Duration) -> Result<(), Broken> {
        let cancelled = self.errand.guard.cancelled();
        match self.errand.relay.clock.within(time, cancelled).await {
            Ok(()) => Err(Broken::Cancelled),
            Err(_) if self.errand.relay.clock.is_over() => Err(Broken::Ending),
            Err(_) => Ok(()),
        }
    }

    /// What the server asks in a round, all of which the client must be able to answer.
    pub(super) fn questions(&self, result: &str, round: &Round) -> Result<Vec<Question>, Broken> {
        let session = self.errand.guard.session();
        let one = |asked: &crate::mcp::InputRequest| {
            let params = asked.params.clone().and_then(|at| result.get(at));
            let page = page();
            let refused = |why: &dyn std::fmt::Display| {
                Broken::Refused(format!("the server asks for {}, and {why}", quoted(&asked.method)))
            };
            let text = leg_params(session.speaks(), &asked.method, params, &page);
            let text = request(0, &asked.method, &text.map_err(|why| refused(&why))?);
            let text = Message::parse(text, usize::MAX).map_err(|why| refused(&why))?;
            session.abilities().allow(&text).map_err(|why| refused(&why))?;
            let page = is_page(&text).then_some(page);
            Ok(Question { key: asked.key.clone(), method: asked.method.clone(), text, page })
        };
        round.requests.iter().map(one).collect()
    }

    /// Asks the client all `questions` at once. Gives its answers by their keys, and the pages that its user went to.
    pub(super) async fn ask_all(&self, questions: Vec<Question>, last: Instant) -> Result<Said, Broken> {
        let mut open = Vec::new();
        let said = self.ask_and_hear(questions, &mut open, last).await;
        for asked in open {
            self.take_leg_back(&asked.leg, "the call has ended").await;
        }
        said
    }

    async fn ask_and_hear(
        &self,
        questions: Vec<Question>,
        open: &mut Vec<Asked>,
        last: Instant,
    ) -> Result<Said, Broken> {
        let unheard = || Broken::Refused("the client takes no events, so it cannot be asked anything".into());
        for question in questions {
            let way = self.way().ok_or_else(unheard)?;
            let leg = self.errand.guard.session().ask().map_err(|why| Broken::Refused(why.to_string()))?;
            let text = leg.write(&question.text);
            open.push(Asked { question, leg, until: Instant::now() + self.patience() });
            self.put(way, text).await;
        }
        let mut said = Said::default();
        while !open.is_empty() {
            let (question, answer) = self.next_answer(open, last).await?;
            said.pages.extend(question.page.filter(|_| accepts(&answer)));
            said.answers.push((question.key, answer));
        }
        Ok(said)
    }

    /// The next of the client's answers; its question is taken out of `open`.
    async fn next_answer(&self, open: &mut Vec<Asked>, last: Instant) -> Result<(Question, String), Broken> {
        loop {
            let until = open.iter().map(|asked| asked.until).min().unwrap_or(last).min(last);
            let patience = until.saturating_duration_since(Instant::now());
            let said = pin!(poll_fn(|cx| poll_said(open, cx)));
            let (at, said) = tokio::select! {
                biased;
                said = self.errand.relay.clock.within(patience, said) => match said {
                    Ok(said) => said,
                    Err(_) if self.errand.relay.clock.is_over() => return Err(Broken::Ending),
                    Err(_) => {
                        let why = "the client did not answer what the server asked for";
                        return Err(Broken::Refused(why.into()));
                    }
                },
                () = self.errand.guard.cancelled() => return Err(Broken::Cancelled),
            };
            let Some(said) = said else { return Err(Broken::Refused("the client has left".into())) };
            if said.kind() == Kind::Notification {
                if let Some(asked) = open.get_mut(at) {
                    asked.until = Instant::now() + self.patience();
                }
                continue;
            }
            let question = open.swap_remove(at).question;
            let answer = match (said.kind(), &*question.method) {
                (Kind::Result, _) => said.body().unwrap_or("{}").to_owned(),
                // Only this has a word for it.
                (_, method::ELICITATION) => r#"{"action":"cancel"}"#.to_owned(),
                (_, asked) => {
                    let error = said.body().unwrap_or("{}");
                    let why = members(error, ["message"]).ok().and_then(|[at]| Text::of(error.get(at?)?));
                    let why = why.unwrap_or_default();
                    return Err(Broken::Refused(format!("the client refused {}: {why}", quoted(asked))));
                }
            };
            return Ok((question, answer));
        }
    }
}

fn poll_said(open: &mut [Asked], cx: &mut Context<'_>) -> Poll<(usize, Option<Message>)> {
    for (at, asked) in open.iter_mut().enumerate() {
        if let Poll::Ready(said) = asked.leg.poll_said(cx) {
            return Poll::Ready((at, said));
        }
    }
    Poll::Pending
}

/// An id for an elicitation, which in the newest revision has none.
fn page() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system gives random bytes");
    format!("{:032x}", u128::from_be_bytes(bytes))
}

fn is_page(question: &Message) -> bool {
    matches!(question.params_members(["elicitationId"]), Ok([Some(_)]))
}

pub(super) fn accepts(answer: &str) -> bool {
    let action = members(answer, ["action"]).ok().and_then(|[at]| answer.get(at?));
    action == Some(r#""accept""#)
}
