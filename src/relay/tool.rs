//! `tools/call`.

use std::sync::Arc;

use bytes::Bytes;

use super::refusal::{Refusal, stub, unavailable};
use super::request::{Errand, Request, Subject, Tasks};
use crate::catalog::{Route, View};
use crate::fleet::Snapshot;
use crate::mcp::TaskSupport;
use crate::upstream::{Unavailable, Upstream};
use crate::wire::Message;

/// Panics where a test wants to see one: in no build that anybody uses.
#[cfg(debug_assertions)]
fn fail_point(message: &Message) {
    let named = std::env::var("TRUNKLINE_PANIC").is_ok_and(|tool| {
        let [name] = message.params_members(["name"]).unwrap_or([None]);
        name.and_then(|at| message.string(at)).is_some_and(|name| name == tool)
    });
    assert!(!named, "a test asked for it");
}

/// Answers a `tools/call`; `None` where the client cancelled it.
pub(super) async fn call(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    #[cfg(debug_assertions)]
    fail_point(&message);
    let call = match Request::read(errand, message, Subject::Tool, "name") {
        Ok(call) => call,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    let snapshot = call.errand.snapshot();
    let found = match snapshot.catalog.tool(&call.errand.view, &call.name) {
        Some(route) => Ok((snapshot.upstreams.get(&route.server).cloned(), route)),
        None => Box::pin(look_again(&call, snapshot)).await,
    };
    if call.is_modern
        && let Ok((_, route)) = &found
        && let Err(refusal) = call.fits(route)
    {
        return call.refuse(&refusal);
    }
    match found {
        Ok((_, route)) if route.for_pages && !call.audience().ui => {
            call.refuse(&Refusal::UnknownTool(call.name.clone()))
        }
        Ok((Some(upstream), route))
            if route.task_support == TaskSupport::Required && call.tasks != Tasks::Asked =>
        {
            // The listing may be of a time when its server spoke otherwise.
            if upstream.hello().is_some_and(|hello| hello.revision.is_modern()) {
                call.run(&upstream, &route).await
            } else if call.tasks == Tasks::Taken && Request::shares_tasks(&upstream.server()) {
                Box::pin(call.start_task(&upstream, &route)).await
            } else {
                Box::pin(call.run_as_task(&upstream, &route)).await
            }
        }
        Ok((Some(upstream), route)) => call.run(&upstream, &route).await,
        Ok((None, _)) => call.refuse(&Refusal::UnknownTool(call.name.clone())),
        Err(answer) => Some(answer),
    }
}

impl Request {
    /// Whether what came with the call of a client without a session goes the way `route`.
    fn fits(&self, route: &Route) -> Result<(), Refusal> {
        self.errand.shown.check(&route.headers, self.arguments()).map_err(Refusal::Headers)?;
        self.same_server(route)
    }
}

/// A name that nobody has: its tail may say whose it could be, and that server may have it by now.
async fn look_again(
    call: &Request,
    snapshot: Arc<Snapshot>,
) -> Result<(Option<Arc<Upstream>>, Route), Bytes> {
    let (relay, view) = (&call.errand.relay, &call.errand.view);
    let (snapshot, found) = if relay.fleet.first_round_done() && snapshot.personal.is_empty() {
        (snapshot, None)
    } else {
        relay.first_round().await;
        relay.look_for(view, call.errand.behalf()).await;
        let snapshot = call.errand.snapshot();
        let found = snapshot.catalog.tool(view, &call.name);
        (snapshot, found)
    };
    if let Some(route) = found {
        return Ok((snapshot.upstreams.get(&route.server).cloned(), route));
    }
    let unknown = || Refusal::UnknownTool(call.name.clone()).answer(Some(&call.id));
    let server = snapshot.catalog.server_of_unknown(view, &call.name).ok_or_else(unknown)?;
    let upstream = snapshot.upstreams.get(&server).cloned().ok_or_else(unknown)?;
    let mut latest = snapshot;
    // One that each caller reaches by himself has been asked above.
    if !upstream.is_personal() && !relay.misses.has(&latest, &server, &call.name) {
        relay.look_again(&upstream).await;
        latest = call.errand.snapshot();
        if let Some(route) = latest.catalog.tool(view, &call.name) {
            return Ok((latest.upstreams.get(&route.server).cloned(), route));
        }
        relay.misses.add(&latest, &server, &call.name);
    }
    let settings = upstream.server();
    let told = |why: &Unavailable| {
        upstream.series().stub();
        let text = unavailable("Tool", &call.name, &server, why);
        Err(stub(call.speaks(), &call.id, &server, &text, why.again()))
    };
    match upstream.unavailable() {
        Some(why) => told(&why),
        // In its own view a server without filters answers for itself: it may know more names than it lists.
        None if matches!(view, View::One(_))
            && settings.tools.allow.is_empty()
            && settings.tools.deny.is_empty() =>
        {
            let name = call.message.text().slice(call.name_at.clone());
            Ok((Some(upstream), Route::to(server, name)))
        }
        None => match upstream.unlisted_of(call.errand.behalf()) {
            Some(why) => told(&why),
            None => Err(unknown()),
        },
    }
}
