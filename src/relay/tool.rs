//! `tools/call`.

use std::sync::Arc;

use bytes::Bytes;

use super::Relay;
use super::call::Asides;
use super::forward::ToolCall;
use super::refusal::{Refusal, stub, unavailable};
use crate::catalog::{Route, View};
use crate::fleet::Snapshot;
use crate::session::CallGuard;
use crate::upstream::Upstream;
use crate::wire::Message;

/// Answers a `tools/call`; `None` where the client cancelled it.
pub(super) async fn call(
    relay: Arc<Relay>,
    view: View,
    message: Message,
    guard: CallGuard,
    asides: Arc<Asides>,
) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let call = match ToolCall::read(message, guard, asides, relay.clock.clone()) {
        Ok(call) => call,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    let snapshot = relay.fleet.snapshot();
    let found = match snapshot.catalog.tool(&view, &call.name) {
        Some(route) => Ok((snapshot.upstreams.get(&route.server).cloned(), route)),
        None => Box::pin(look_again(&relay, snapshot, &view, &call)).await,
    };
    match found {
        Ok((Some(upstream), route)) => call.run(&upstream, &route).await,
        Ok((None, _)) => Some(Refusal::UnknownTool(call.name).answer(Some(&id))),
        Err(answer) => Some(answer),
    }
}

/// A name that nobody has: its tail may say whose it could be, and that server may have it by now.
async fn look_again(
    relay: &Relay,
    snapshot: Arc<Snapshot>,
    view: &View,
    call: &ToolCall,
) -> Result<(Option<Arc<Upstream>>, Route), Bytes> {
    let unknown = || Refusal::UnknownTool(call.name.clone()).answer(Some(&call.id));
    let server = snapshot.catalog.server_of_unknown(view, &call.name).ok_or_else(unknown)?;
    let upstream = snapshot.upstreams.get(&server).cloned().ok_or_else(unknown)?;
    let mut latest = snapshot;
    if !relay.misses.has(&latest, &server, &call.name) {
        upstream.look_again(relay.fleet.limits().first_list_wait).await;
        relay.fleet.rebuild().await;
        latest = relay.fleet.snapshot();
        if let Some(route) = latest.catalog.tool(view, &call.name) {
            return Ok((latest.upstreams.get(&route.server).cloned(), route));
        }
        relay.misses.add(&latest, &server, &call.name);
    }
    let settings = upstream.server();
    match upstream.unavailable() {
        Some(why) => {
            upstream.series().stub();
            let text = unavailable(&call.name, &server, &why);
            Err(stub(&call.id, &server, &text, Some(why.retry_after)))
        }
        // In its own view a server without filters answers for itself: it may know more names than it lists.
        None if matches!(view, View::One(_))
            && settings.tools.allow.is_empty()
            && settings.tools.deny.is_empty() =>
        {
            let name = call.message.text().slice(call.name_at.clone());
            Ok((Some(upstream), Route { server, name }))
        }
        None => Err(unknown()),
    }
}
