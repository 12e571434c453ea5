//! What a server tells in the middle of a request.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::legs::Legs;
use super::request::Request;
use crate::mcp::{Features, Level, method};
use crate::names::ServerName;
use crate::session::Session;
use crate::upstream::{Exchange, Upstream, elicitation};
use crate::wire::Message;

impl Request {
    /// Takes a notification that came with the request's reply to whom it concerns.
    pub(super) async fn aside(
        &self,
        upstream: &Upstream,
        exchange: &Exchange,
        legs: &mut Legs,
        message: Message,
    ) {
        let (asides, server) = (&self.errand.asides, upstream.server());
        let message = self.errand.relay.seal_tasks(self.whose(), &server.name, &message).unwrap_or(message);
        match message.method() {
            method::TOOLS_CHANGED | method::PROMPTS_CHANGED | method::RESOURCES_CHANGED => {
                upstream.changed_for(self.errand.behalf(), Features::changed_by(message.method()));
            }
            method::PROGRESS => {
                if let Some(progress) = self.progress(exchange, &message) {
                    asides.push(progress).await;
                }
            }
            method::RESOURCES_UPDATED => {
                if let Some(text) = self.updated(&server.name, &message) {
                    asides.push(text).await;
                }
            }
            method::CANCELLED => self.withdrawn(legs, &message).await,
            // Before an answer a modern client expects nothing else than progress and the log.
            other if self.is_modern && other != method::MESSAGE => {}
            method::MESSAGE if !wants(self.errand.guard.session(), &message) => {}
            method::ELICITATION_COMPLETE => {
                if let Some(key) = elicitation(&server.name, &message) {
                    self.errand.guard.session().give_back(&key);
                }
                asides.push(message.text().clone()).await;
            }
            // A status, once its id is sealed, means something to its owner only.
            method::MESSAGE | method::TASKS_STATUS => asides.push(message.text().clone()).await,
            _ if self.in_own_view() => asides.push(message.text().clone()).await,
            other => {
                tracing::debug!(server = %server.name, method = other, "a notification that concerns no client");
            }
        }
    }

    /// That a resource changed, if the client subscribed to it.
    fn updated(&self, server: &ServerName, message: &Message) -> Option<Bytes> {
        let [uri] = message.params_members(["uri"]).ok()?;
        let (uri, session) = (message.string(uri?)?, self.errand.guard.session());
        self.errand.relay.updated(&self.errand.view, session, server, &uri, message)
    }

    /// Progress under the client's own token, if it is of this call and the client wants it.
    fn progress(&self, exchange: &Exchange, message: &Message) -> Option<Bytes> {
        let token = self.message.text().slice(self.token_at.clone()?);
        let [Some(token_at)] = message.params_members(["progressToken"]).ok()? else { return None };
        let told: u64 = message.slice(token_at.clone())?.parse().ok()?;
        let ours = told == exchange.id() || told == self.task_token.load(Ordering::Relaxed);
        ours.then(|| message.splice(&mut [(token_at, &token)]))
    }
}

/// Whether a log message is loud enough for a client.
pub(super) fn wants(session: &Session, message: &Message) -> bool {
    let level = message.params_members(["level"]).ok().and_then(|[level]| message.string(level?));
    // A level that nobody knows is the client's to judge.
    let level = level.as_deref().and_then(Level::of);
    session.threshold().is_some_and(|least| level.is_none_or(|level| level >= least))
}
