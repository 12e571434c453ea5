//! What a client is answered: the server's own words under the client's id, or ours in their place.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use super::forward::{Answered, Broken};
use super::refusal::{self, Refusal, stub};
use super::request::{Request, Subject};
use crate::catalog::Route;
use crate::config::Server;
use crate::mcp::{self, Revision, completed, to_modern};
use crate::metrics::Outcome;
use crate::names::ServerName;
use crate::upstream::Upstream;
use crate::wire::{self, Code, Kind, Message, Span, Text, edited, members};

impl Request {
    /// The server's answer under the client's own id.
    pub(super) fn restore(
        &self,
        server: &Server,
        route: &Route,
        answered: &Answered,
    ) -> (Option<Bytes>, Outcome) {
        let Answered { message: answer, from, .. } = answered;
        let sealed = if self.has_task() { self.of_tasks(&server.name, answer) } else { None };
        let answer = sealed.as_ref().unwrap_or(answer);
        let body = answer.body().unwrap_or_default(); // once: it may be long
        let outcome = if answer.kind() == Kind::Error {
            Outcome::RpcError
        } else if self.subject == Subject::Tool && says_error(body) {
            Outcome::ToolError
        } else {
            Outcome::Ok
        };
        if outcome == Outcome::RpcError && self.cannot_complete(body) {
            return (Some(own_result(self.speaks(), &self.id, NOTHING_TO_COMPLETE)), Outcome::Ok);
        }
        if outcome == Outcome::RpcError
            && let Some(answer) = self.not_the_clients(&server.name, body)
        {
            return (Some(answer), outcome);
        }
        let renamed = self.renamed(&server.name, answer, body);
        if self.is_modern || from.is_modern() || self.speaks() < Revision::V2025_06_18 {
            return (Some(self.projected(server, route, *from, answer, renamed)), outcome);
        }
        let text = match answer.id_span() {
            Some(id_at) => self.written(answer, id_at, &renamed),
            None => match answer.body_bytes() {
                Some(error) => wire::failure(&self.id, &error),
                None => wire::error(Some(&self.id), Code::Internal, "the server's answer cannot be read"),
            },
        };
        (Some(text), outcome)
    }

    /// The answer with our ids of tasks in it, if it has any.
    fn of_tasks(&self, server: &ServerName, answer: &Message) -> Option<Message> {
        self.note_task(server, answer);
        self.errand.relay.seal_tasks(self.whose(), server, answer)
    }

    fn written(&self, answer: &Message, id_at: Span, renamed: &[(Span, String)]) -> Bytes {
        if renamed.is_empty() {
            return answer.splice(&mut [(id_at, &self.id)]);
        }
        let renamed = renamed.iter().map(|(at, with)| (at.clone(), with.as_bytes()));
        let mut edits: Vec<_> = renamed.chain([(id_at, &*self.id)]).collect();
        answer.splice(&mut edits)
    }

    /// The answer in place of an error that would read as one of the client's: it was understood by us, and what one server
    /// of several does not know is not unknown.
    fn not_the_clients(&self, server: &ServerName, error: &str) -> Option<Bytes> {
        let what = if says_code(error, "-32700") {
            "could not read the request"
        } else if says_code(error, "-32601") && !self.in_own_view() {
            "does not know the method"
        } else {
            return None;
        };
        let told = members(error, ["message"]).ok().and_then(|[told]| Text::of(error.get(told?)?));
        let told: String = told.unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
        let text = format!("{} {}: server {server} {what}: {told}", self.subject.noun(), self.name);
        Some(Refusal::Away { server: server.clone(), text, retry_after: None }.answer(Some(&self.id)))
    }

    /// Whether the server does not complete anything, which a client cannot see where several are joined.
    fn cannot_complete(&self, error: &str) -> bool {
        let completes = matches!(self.subject, Subject::OfPrompt | Subject::OfTemplate);
        completes && !self.in_own_view() && says_code(error, "-32601")
    }

    /// The answer in place of the server's.
    pub(super) fn excuse(
        &self,
        upstream: &Upstream,
        server: &Server,
        broken: Broken,
    ) -> (Option<Bytes>, Outcome) {
        let (name, noun) = (&server.name, self.subject.noun());
        // What reads only has no effect that could be doubted.
        let effect = |text: &'static str| if self.subject == Subject::Tool { text } else { "" };
        let (text, retry_after, outcome) = match broken {
            Broken::Cancelled => return (None, Outcome::Cancelled),
            Broken::Unavailable(why) => {
                let text = refusal::unavailable(noun, &self.name, name, &why);
                (text, why.again(), Outcome::Stub)
            }
            Broken::Failed(failure) => {
                let why = upstream.unavailable_after(&failure);
                let note = if failure.maybe_processed() { effect(UNSURE) } else { "" };
                let text = refusal::unavailable(noun, &self.name, name, &why) + note;
                (text, why.again(), Outcome::Failed)
            }
            Broken::Refused(why) => {
                let text = format!("{noun} {} of server {name} cannot go on: {why}.", self.name);
                (
                    text,
                    None,
                    if self.subject == Subject::Tool { Outcome::ToolError } else { Outcome::RpcError },
                )
            }
            Broken::Ending => {
                let text = format!(
                    "{noun} {} of server {name} was broken off: the proxy in front of it is being stopped.{}",
                    self.name,
                    effect(UNSURE)
                );
                (text, None, Outcome::Failed)
            }
            Broken::Silent(after) => {
                let text = format!(
                    "{noun} {} gave no answer: server {name} was silent for {after:?}; the call was cancelled.{} \
                     Try again, or raise `timeout` of this server.",
                    self.name,
                    effect(STILL)
                );
                (text, None, Outcome::Timeout)
            }
            Broken::Overdue(after) => {
                let text = format!(
                    "{noun} {} did not come to an end: server {name} had {after:?}; the call was cancelled.{} \
                     Try again, or raise `maxTotal` of this server.",
                    self.name,
                    effect(STILL)
                );
                (text, None, Outcome::Timeout)
            }
        };
        let answer = if self.subject == Subject::Tool {
            stub(self.speaks(), &self.id, name, &text, retry_after)
        } else {
            Refusal::Away { server: name.clone(), text, retry_after }.answer(Some(&self.id))
        };
        (Some(answer), outcome)
    }
}

/// Of a call that the server may have got.
const UNSURE: &str = " The call may or may not have taken effect.";
/// Of a call that the server was told to let go of.
const STILL: &str =
    " It may have taken effect all the same: look before you repeat what must not happen twice.";

/// A `result` of ours, an object, as the answer to the request `id` of a client that speaks `revision`.
pub(super) fn own_result(revision: Revision, id: &[u8], result: &str) -> Bytes {
    if revision.is_modern() {
        return wire::response(id, completed(result, None).as_bytes());
    }
    wire::response(id, result.as_bytes())
}

/// The answer to the request `id` with a `result` of ours that asks for input.
pub(super) fn asking_result(id: &[u8], result: &str) -> Bytes {
    let mut edits = to_modern(result, mcp::Answer::Other, Revision::LATEST, None);
    wire::response(id, edited(result, &mut edits).as_bytes())
}

/// The result of a completion that finds nothing.
const NOTHING_TO_COMPLETE: &str = r#"{"completion":{"values":[]}}"#;

/// Whether a result has `isError: true`. Most have not, and large ones are not parsed for it.
fn says_error(result: &str) -> bool {
    /// Made once: every result is searched.
    static MEMBER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"isError\""));
    let Some(_) = MEMBER.find(result.as_bytes()) else { return false };
    let found = members(result, ["isError"]).ok().and_then(|[flag]| flag).and_then(|span| result.get(span));
    found == Some("true")
}

fn says_code(error: &str, code: &str) -> bool {
    let found = members(error, ["code"]).ok().and_then(|[found]| found).and_then(|span| error.get(span));
    found == Some(code)
}
