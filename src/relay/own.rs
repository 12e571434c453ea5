//! What only a server itself understands: in its own view it is asked as it stands.

use bytes::Bytes;

use super::refusal::Refusal;
use super::request::{Errand, Request};
use crate::catalog::{Route, View};
use crate::wire::Message;

/// Answers a request of a method that we do not know.
pub(super) async fn pass(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let request = match Request::read_unknown(errand, message) {
        Ok(request) => request,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    let snapshot = request.errand.relay.fleet.snapshot();
    let found = match &request.errand.view {
        View::One(server) => snapshot.upstreams.get(server).map(|upstream| (upstream, server)),
        View::All | View::Named(_) => None,
    };
    match found {
        Some((upstream, server)) => request.run(upstream, &Route::to(server.clone(), Bytes::new())).await,
        None => request.refuse(&Refusal::UnknownMethod(request.name.clone())),
    }
}
