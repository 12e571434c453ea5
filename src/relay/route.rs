//! Requests by name: `prompts/get` and `completion/complete`.

use std::sync::Arc;

use bytes::Bytes;

use super::hold::State;
use super::refusal::{Refusal, unavailable};
use super::request::{Errand, Request, Subject};
use crate::catalog::Route;
use crate::fleet::Snapshot;
use crate::wire::Message;

/// Answers a `prompts/get`; `None` where the client cancelled it.
pub(super) async fn prompt(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    match Request::read(errand, message, Subject::Prompt, "name") {
        Ok(request) => request.go().await,
        Err(refusal) => Some(refusal.answer(Some(&id))),
    }
}

/// Answers a `completion/complete`; `None` where the client cancelled it.
pub(super) async fn complete(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    match Request::read_completion(errand, message) {
        Ok(request) => request.go().await,
        Err(refusal) => Some(refusal.answer(Some(&id))),
    }
}

impl Request {
    /// Sends it where its name or URI says, and gives the answer; `None` where the client cancelled it.
    pub(super) async fn go(&self) -> Option<Bytes> {
        let (snapshot, found) = self.find().await;
        let route = match found {
            Ok(route) => route,
            Err(refusal) => return self.refuse(&refusal),
        };
        if let Err(refusal) = self.same_server(&route) {
            return self.refuse(&refusal);
        }
        match snapshot.upstreams.get(&route.server) {
            Some(upstream) => self.run(upstream, &route).await,
            None => self.refuse(&self.unknown()),
        }
    }

    /// Whether a server's own state, if the client brings one, goes back to that server: names may have changed hands.
    pub(super) fn same_server(&self, route: &Route) -> Result<(), Refusal> {
        match self.errand.state.as_deref() {
            Some(State::Servers { server, .. }) if **server != *route.server.as_str() => {
                Err(Refusal::BadState)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// As [`route`](Self::route). Right after a start servers have not said yet what they have, and some tell each caller
    /// something else: then it waits for that.
    pub(super) async fn find(&self) -> (Arc<Snapshot>, Result<Route, Refusal>) {
        let (fleet, snapshot) = (&self.errand.relay.fleet, self.errand.snapshot());
        let found = self.route(&snapshot);
        if found.is_ok() || (fleet.first_round_done() && snapshot.personal.is_empty()) {
            return (snapshot, found);
        }
        self.errand.relay.first_round().await;
        self.errand.relay.look_for(&self.errand.view, self.errand.behalf()).await;
        let snapshot = self.errand.snapshot();
        let found = self.route(&snapshot);
        (snapshot, found)
    }

    /// Who knows what it is about, and under which name.
    pub(super) fn route(&self, snapshot: &Arc<Snapshot>) -> Result<Route, Refusal> {
        let (catalog, view, name) = (&snapshot.catalog, &self.errand.view, &*self.name);
        let found = match self.subject {
            Subject::Tool => catalog.tool(view, name),
            Subject::Prompt | Subject::OfPrompt => catalog.prompt(view, name),
            Subject::Resource => catalog.resource(view, name).or_else(|| self.sighted(snapshot)),
            Subject::OfTemplate => catalog.template(view, name).or_else(|| self.sighted(snapshot)),
            Subject::Task => self.errand.relay.task(snapshot, self),
            Subject::Unknown => None,
        };
        found.map_or_else(|| self.nobodys(snapshot), Ok)
    }

    /// What nobody lists: its server may be away and never have listed anything, and in its own view it knows best.
    fn nobodys(&self, snapshot: &Arc<Snapshot>) -> Result<Route, Refusal> {
        if self.subject == Subject::Task {
            return Err(self.unknown());
        }
        let server = snapshot.catalog.server_of_unknown(&self.errand.view, &self.name);
        let server = server.ok_or_else(|| self.unknown())?;
        let upstream = snapshot.upstreams.get(&server).ok_or_else(|| self.unknown())?;
        let joined = || upstream.unlisted_of(self.errand.behalf()).filter(|_| !self.in_own_view());
        if let Some(why) = upstream.unavailable().or_else(joined) {
            let text = unavailable(self.subject.noun(), &self.name, &server, &why);
            return Err(Refusal::Away { server, text, retry_after: why.again() });
        }
        if !self.in_own_view() {
            return Err(self.unknown());
        }
        Ok(Route::to(server, self.message.text().slice(self.name_at.clone())))
    }

    fn unknown(&self) -> Refusal {
        let name = self.name.clone();
        match self.subject {
            Subject::Tool => Refusal::UnknownTool(name),
            Subject::Prompt | Subject::OfPrompt => Refusal::UnknownPrompt(name),
            Subject::Resource | Subject::OfTemplate => Refusal::UnknownResource(name),
            Subject::Task => Refusal::UnknownTask(name),
            Subject::Unknown => Refusal::UnknownMethod(name),
        }
    }
}
