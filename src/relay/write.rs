//! A client's request in the words of the revision that its server's link speaks.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::hold::State;
use super::request::{Request, Subject};
use crate::catalog::Route;
use crate::mcp::{
    Letter, Mirror, Revision, TASKS_EXTENSION, client_info, declaring, envelope_cuts, envelope_members,
    enveloped, modern_capabilities, named_by, retried,
};
use crate::wire::{Edit, Text, cuts, members_of};

/// What a retry of ours brings to a server that asks by its answers: the client's answers by their keys, and the server's
/// own state, both raw.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) responses: Vec<(Box<str>, String)>,
    pub(super) state: Option<String>,
}

impl Request {
    /// The request as its server is to see it: its own name, our id, and our token.
    pub(super) fn write(&self, route: &Route, to: Revision, id: u64) -> Letter {
        if to.is_modern() || self.is_modern || self.has_reserved {
            return self.translated(route, to, id, None);
        }
        let mut digits = itoa::Buffer::new();
        let number = digits.format(id);
        let id_at = self.message.id_span().unwrap_or_default();
        let mut edits = [(id_at, number.as_bytes()), (self.name_at.clone(), &*route.name), (0..0, &b""[..])];
        if let (Some(token_at), Some(edit)) = (&self.token_at, edits.last_mut()) {
            *edit = (token_at.clone(), number.as_bytes());
        }
        Letter::plain(self.message.splice(&mut edits))
    }

    /// As [`write`](Self::write), once more with what its server asked for.
    pub(super) fn write_again(&self, route: &Route, to: Revision, id: u64, input: &Input) -> Letter {
        self.translated(route, to, id, Some(input))
    }

    /// As [`write`](Self::write), for a task that is kept for `ttl`.
    pub(super) fn write_as_task(&self, route: &Route, to: Revision, id: u64, ttl: Duration) -> Letter {
        let mut edits = self.edits(route, to, id, None);
        let task = format!(r#""task":{{"ttl":{}}},"#, ttl.as_millis());
        let inside = self.message.params_span().map_or(0, |params| params.start + 1); // there are params: the name
        edits.push((inside..inside, task));
        self.letter(route, to, &edits)
    }

    fn translated(&self, route: &Route, to: Revision, id: u64, input: Option<&Input>) -> Letter {
        self.letter(route, to, &self.edits(route, to, id, input))
    }

    fn letter(&self, route: &Route, to: Revision, edits: &[Edit]) -> Letter {
        let mut edits: Vec<_> = edits.iter().map(|(at, with)| (at.clone(), with.as_bytes())).collect();
        Letter { text: self.message.splice(&mut edits), mirror: self.mirror(route, to), in_pieces: false }
    }

    fn mirror(&self, route: &Route, to: Revision) -> Mirror {
        if !to.is_modern() {
            return Mirror::default();
        }
        let method = self.message.method();
        let own = std::str::from_utf8(&route.name).ok().and_then(Text::of);
        let name = named_by(method).and(own);
        Mirror::of(to, method, name.as_deref(), &route.headers, self.arguments())
    }

    /// The raw arguments of a tool's call, if it has any.
    pub(super) fn arguments(&self) -> Option<&str> {
        if self.subject != Subject::Tool {
            return None;
        }
        let [arguments] = self.message.params_members(["arguments"]).ok()?;
        self.message.slice(arguments?)
    }

    /// All that the server is to see otherwise than the client wrote it.
    fn edits(&self, route: &Route, to: Revision, id: u64, input: Option<&Input>) -> Vec<Edit> {
        let own = String::from_utf8_lossy(&route.name).into_owned();
        let mut edits =
            vec![(self.message.id_span().unwrap_or_default(), id.to_string()), (self.name_at.clone(), own)];
        edits.extend(self.token_at.clone().map(|at| (at, id.to_string())));
        match (self.is_modern, to.is_modern()) {
            // Its own envelope stays as it is: the revision is the same, and the rest is about the client.
            (true, true) => edits.extend(self.passed_on()),
            (_, false) => {
                edits.extend(envelope_cuts(&self.message).into_iter().map(|at| (at, String::new())));
            }
            (false, true) => edits.extend(enveloped(&self.message, &self.envelope(to))),
        }
        // What the other era means by it is nothing.
        if let Some(at) = self.task_at.clone().filter(|_| self.is_modern || to.is_modern()) {
            let params = self.message.params_span().unwrap_or_default();
            let text = std::str::from_utf8(self.message.text()).unwrap_or_default();
            let cut = cuts(&members_of(text, params), |member| member.value == at);
            edits.extend(cut.into_iter().map(|at| (at, String::new())));
        }
        if let Some(input) = input {
            let responses: Vec<_> = input.responses.iter().map(|(key, raw)| (&**key, raw.as_str())).collect();
            edits.extend(retried(&self.message, Some(&responses), input.state.as_deref()));
        } else if self.is_modern && !to.is_modern() {
            edits.extend(retried(&self.message, None, None));
        }
        edits
    }

    /// What a modern client's request brings of an earlier round, as its modern server knows it.
    fn passed_on(&self) -> Vec<Edit> {
        match self.errand.state.as_deref() {
            Some(State::Servers { raw, .. }) => {
                let [at] = self.message.params_members(["requestState"]).unwrap_or_default();
                Vec::from_iter(at.map(|at| (at, (**raw).to_owned())))
            }
            // The round was ours.
            Some(State::Held(_) | State::Again(_)) => retried(&self.message, None, None),
            None => Vec::new(),
        }
    }

    /// Who a client with a session is and what it can do, as every request to a modern server says.
    pub(super) fn envelope(&self, to: Revision) -> String {
        let session = self.errand.guard.session();
        let agreed = session.agreed();
        let capabilities = modern_capabilities(&agreed.capabilities, session.speaks());
        let capabilities = if self.sees_through.load(Ordering::Relaxed) {
            declaring(&capabilities, TASKS_EXTENSION)
        } else {
            Cow::Borrowed(&*capabilities)
        };
        let (name, version) = agreed.client.rsplit_once('/').unwrap_or((&agreed.client, ""));
        envelope_members(to, &capabilities, &client_info(name, version), session.level())
    }
}
