//! Requests by URI: reading, and being told of changes.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::refusal::{Refusal, unavailable};
use super::request::{Errand, Request, Subject};
use super::uris::{self, seen_by};
use crate::catalog::Route;
use crate::fleet::Snapshot;
use crate::metrics::{Method, Outcome};
use crate::names::ServerName;
use crate::session::Session;
use crate::upstream::{SubscribeError, Upstream};
use crate::wire::{self, Message, Span, Text, members, quoted};

/// Answers a `resources/read`; `None` where the client cancelled it.
pub(super) async fn read(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    match Request::read(errand, message, Subject::Resource, "uri") {
        Ok(request) => request.go().await,
        Err(refusal) => Some(refusal.answer(Some(&id))),
    }
}

/// Answers a `resources/subscribe`; `None` where the client cancelled it.
pub(super) async fn subscribe(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let request = match Request::read(errand, message, Subject::Resource, "uri") {
        Ok(request) => request,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    let done = tokio::select! {
        done = request.subscribe() => done,
        () = request.errand.guard.cancelled() => return None,
    };
    Some(done.unwrap_or_else(|refusal| refusal.answer(Some(&id))))
}

/// Answers a `resources/unsubscribe`. That there was no subscription is fine.
pub(super) async fn unsubscribe(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let request = match Request::read(errand, message, Subject::Resource, "uri") {
        Ok(request) => request,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    if let Ok(route) = request.route(&request.errand.snapshot()) {
        request.errand.guard.session().give_back(&Key::of(&route.server, &own(&route)));
    }
    Some(wire::response(&id, b"{}"))
}

/// What a subscription is held under.
pub(super) struct Key;

impl Key {
    pub(super) fn of(server: &ServerName, uri: &str) -> String {
        format!("sub {server} {uri}")
    }

    /// What the keys of all subscriptions to `server` begin with.
    fn start(server: &ServerName) -> String {
        format!("sub {server} ")
    }
}

/// The server's own URI.
pub(super) fn own(route: &Route) -> Cow<'_, str> {
    std::str::from_utf8(&route.name).ok().and_then(Text::of).unwrap_or_default()
}

/// Whether `session` subscribed to `uri` of `server`, or to something that it is a part of (specification,
/// `server/resources`: what is told may be a sub-resource).
pub(super) fn subscribed(session: &Session, server: &ServerName, uri: &str) -> bool {
    let start = Key::start(server);
    session.holds_any(|key| key.strip_prefix(&start).is_some_and(|whole| is_part(uri, whole)))
}

fn is_part(uri: &str, whole: &str) -> bool {
    let Some(rest) = uri.strip_prefix(whole) else { return false };
    rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#'])
}

impl Request {
    async fn subscribe(&self) -> Result<Bytes, Refusal> {
        let (snapshot, route) = self.find().await;
        let route = route?;
        let upstream = snapshot.upstreams.get(&route.server);
        let upstream = upstream.ok_or_else(|| Refusal::UnknownResource(self.name.clone()))?;
        let (session, uri) = (self.errand.guard.session(), own(&route));
        let key = Key::of(&route.server, &uri);
        if !session.holds(&key) {
            let counted = self.errand.relay.clock.to_the_end(counted(upstream, &uri)).await;
            let counted = counted.map_err(|_| {
                let text = format!(
                    "resource {} is unavailable: the proxy in front of server {} is being stopped",
                    self.name, route.server
                );
                Refusal::Away { server: route.server.clone(), text, retry_after: None }
            })?;
            match counted {
                Ok(subscription) => {
                    if !session.hold(&key, subscription) && !session.holds(&key) {
                        return Err(Refusal::TooManySubscriptions);
                    }
                }
                Err(SubscribeError::Refused(error)) => return Ok(wire::failure(&self.id, &error)),
                Err(SubscribeError::Unavailable(why)) => {
                    let text = unavailable(self.subject.noun(), &self.name, &route.server, &why);
                    let retry_after = why.again();
                    return Err(Refusal::Away { server: route.server, text, retry_after });
                }
            }
        }
        Ok(wire::response(&self.id, b"{}"))
    }

    /// Whose the URI is that no list has, but a result had.
    pub(super) fn sighted(&self, snapshot: &Arc<Snapshot>) -> Option<Route> {
        let servers = snapshot.catalog.servers(&self.errand.view);
        let server = self.errand.relay.sightings.owner(servers, &seen_by(self.whose(), &self.name))?;
        Some(Route::to(server.clone(), quoted(&self.name).into()))
    }

    /// The URIs in the `result`, or error, of `answer` that read otherwise here: their places in it, and what is to stand there. Those that stay as
    /// they are are remembered, so that the client can ask for them.
    pub(super) fn renamed(&self, server: &ServerName, answer: &Message, result: &str) -> Vec<(Span, String)> {
        if self.in_own_view() {
            return Vec::new();
        }
        let places = if answer.kind() == wire::Kind::Error { in_error(result) } else { uris::places(result) };
        if places.is_empty() {
            return Vec::new();
        }
        let relay = &self.errand.relay;
        let (snapshot, start) = (relay.fleet.snapshot(), answer.body_span().unwrap_or_default().start);
        let mut edits = Vec::new();
        for place in places {
            let Some(own) = result.get(place.clone()).and_then(Text::of) else { continue };
            match snapshot.catalog.uri(&self.errand.view, server, &own) {
                Cow::Borrowed(same) => relay.sightings.note(server, &seen_by(self.whose(), same)),
                Cow::Owned(other) => {
                    edits.push((place.start + start..place.end + start, quoted(&other)));
                }
            }
        }
        relay.sightings.retain(|server| snapshot.config.servers.contains_key(server));
        edits
    }
}

/// Where an error says which resource it is about.
fn in_error(error: &str) -> Vec<Span> {
    let member = |span: Span, key| {
        let [found] = members(error.get(span.clone())?, [key]).ok()?;
        found.map(|found| found.start + span.start..found.end + span.start)
    };
    let uri = member(0..error.len(), "data").and_then(|data| member(data, "uri"));
    Vec::from_iter(uri)
}

async fn counted(
    upstream: &Arc<Upstream>,
    uri: &str,
) -> Result<crate::upstream::Subscription, SubscribeError> {
    let running = upstream.series().begin(Method::ResourcesSubscribe);
    let done = upstream.subscribe(uri).await;
    running.end(match &done {
        Ok(_) => Outcome::Ok,
        Err(SubscribeError::Refused(_)) => Outcome::RpcError,
        Err(SubscribeError::Unavailable(_)) => Outcome::Stub,
    });
    done
}

#[cfg(test)]
mod tests {
    use super::is_part;

    #[test]
    fn a_part_is_not_just_a_longer_name() {
        for (uri, whole, part) in [
            ("file:///a", "file:///a", true),
            ("file:///a/b", "file:///a", true),
            ("file:///a/b", "file:///a/", true),
            ("file:///a?x", "file:///a", true),
            ("file:///ab", "file:///a", false),
            ("file:///", "file:///a", false),
        ] {
            assert_eq!(is_part(uri, whole), part, "{uri} of {whole}");
        }
    }
}
