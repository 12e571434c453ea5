//! What only a server itself understands: in its own view it is asked as it stands.

use bytes::Bytes;

use super::refusal::Refusal;
use super::request::{Errand, Request};
use crate::catalog::View;
use crate::wire::Message;

/// Answers a request of a method that we do not know.
pub(super) async fn pass(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let request = match Request::read_unknown(errand, message) {
        Ok(request) => request,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    let snapshot = request.errand.relay.fleet.snapshot();
    let upstream = match &request.errand.view {
        View::One(server) => snapshot.upstreams.get(server),
        View::All | View::Named(_) => None,
    };
    match upstream {
        Some(upstream) => request.run(upstream, b"").await,
        None => request.refuse(&Refusal::UnknownMethod(request.name.clone())),
    }
}
