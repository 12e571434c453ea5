//! Answers of servers as clients of the other era read them: the one place where they are made so.

use bytes::Bytes;

use super::hold::{Bound, State};
use super::refusal::{Refusal, stub};
use super::request::{Request, Subject};
use crate::catalog::Route;
use crate::config::Server;
use crate::mcp::{
    Answer, Revision, Round, URL_ELICITATION_REQUIRED, code_of, error_for, to_legacy, to_modern,
};
use crate::wire::{
    self, Code, Edit, Kind, Message, Span, Text, edited, elements, error_with, members, quoted,
};

impl Request {
    /// The `answer` of a server that speaks `from`, under the client's own id and in its revision; `renamed` has the URIs
    /// in it that read otherwise here.
    pub(super) fn projected(
        &self,
        server: &Server,
        route: &Route,
        from: Revision,
        answer: &Message,
        renamed: Vec<Edit>,
    ) -> Bytes {
        let start = answer.body_span().unwrap_or_default().start;
        let body = answer.body().unwrap_or_default();
        let renamed =
            renamed.into_iter().map(|(at, with)| (at.start - start..at.end - start, with)).collect();
        if answer.kind() == Kind::Error {
            return self.error(server, from, body, renamed);
        }
        if self.is_modern && self.has_nothing(body) {
            return Refusal::UnknownResource(self.name.clone()).answer_in(self.speaks(), Some(&self.id));
        }
        let mut edits = if self.is_modern {
            self.for_modern(server, route, from, body)
        } else {
            // What a server of its own era says to a client is between the two, as it is direct.
            let reads = if from.is_modern() { self.speaks() } else { Revision::LATEST_LEGACY };
            to_legacy(body, self.kind(route), reads)
        };
        // Content that an older client gets in other words names no URI that it could ask for.
        let covered = |at: &Span| edits.iter().any(|(over, _)| over.start < at.end && at.start < over.end);
        let renamed: Vec<_> = renamed.into_iter().filter(|(at, _)| !covered(at)).collect();
        edits.extend(renamed);
        let mut edits: Vec<_> = edits
            .iter()
            .map(|(at, with)| (at.start + start..at.end + start, with.as_bytes()))
            .chain(answer.id_span().map(|at| (at, &*self.id)))
            .collect();
        answer.splice(&mut edits)
    }

    fn kind(&self, route: &Route) -> Answer {
        match self.subject {
            Subject::Tool => Answer::Call { wrapped: route.wraps },
            Subject::Prompt => Answer::Prompt,
            Subject::Resource => Answer::Read,
            Subject::OfPrompt | Subject::OfTemplate | Subject::Task | Subject::Unknown => Answer::Other,
        }
    }

    fn for_modern(&self, server: &Server, route: &Route, from: Revision, result: &str) -> Vec<Edit> {
        let via = (!self.in_own_view()).then(|| quoted(server.name.as_str()));
        let mut edits = to_modern(result, self.kind(route), from, via.as_deref());
        if from.is_modern()
            && let Some(Ok(Round { state: Some(at), .. })) = Round::read(result)
        {
            let raw = result.get(at.clone()).unwrap_or_default().into();
            edits
                .push((at, quoted(&self.seal(&State::Servers { server: server.name.as_str().into(), raw }))));
        }
        edits
    }

    fn seal(&self, state: &State) -> String {
        let relay = &self.errand.relay;
        Bound::to(&self.message, self.whose()).seal(&relay.keys, state, relay.holds.time())
    }

    /// Whether `result` is what some servers say of a resource that they do not have.
    fn has_nothing(&self, result: &str) -> bool {
        if self.subject != Subject::Resource || result.len() > SHORT {
            return false;
        }
        let contents = members(result, ["contents"]).ok().and_then(|[at]| result.get(at?));
        let is_empty = contents.and_then(|raw| elements(raw).ok()).is_some_and(|all| all.is_empty());
        let snapshot = self.errand.snapshot();
        is_empty && !snapshot.catalog.lists_resource(&self.errand.view, &self.name)
    }

    fn error(&self, server: &Server, from: Revision, error: &str, mut renamed: Vec<Edit>) -> Bytes {
        if let Some(told) = self.cannot_visit(from, error) {
            return told;
        }
        if let Some(told) = self.lacks(server, from, error) {
            return told;
        }
        let error = edited(error, &mut renamed);
        let uri = (self.subject == Subject::Resource).then_some(&*self.name);
        let error = error_for(&error, from, self.speaks(), uri).unwrap_or(error);
        wire::failure(&self.id, error.as_bytes())
    }

    /// That a tool cannot do without something that its client lacks: a model goes on without the tool.
    fn lacks(&self, server: &Server, from: Revision, error: &str) -> Option<Bytes> {
        let lacks = from.is_modern() && code_of(error) == Some(Code::MissingCapability.number().into());
        if self.is_modern || !lacks || self.subject != Subject::Tool {
            return None;
        }
        let why = members(error, ["message"]).ok().and_then(|[at]| Text::of(error.get(at?)?));
        let text = format!("Tool {} needs something of this client: {}", self.name, why.unwrap_or_default());
        Some(stub(self.speaks(), &self.id, &server.name, &text, None))
    }

    /// That an older server wants the user to open a page, which its client cannot bring about.
    fn cannot_visit(&self, from: Revision, error: &str) -> Option<Bytes> {
        let asks = self.is_modern && !from.is_modern() && code_of(error) == Some(URL_ELICITATION_REQUIRED);
        if !asks || self.errand.guard.session().abilities().url {
            return None;
        }
        let data = r#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#;
        let text =
            "the server wants the user to open a page, which this client did not declare (elicitation.url)";
        Some(error_with(Some(&self.id), Code::MissingCapability, text, data))
    }
}

/// Longer results are not looked at for having nothing in them.
const SHORT: usize = 1024;
