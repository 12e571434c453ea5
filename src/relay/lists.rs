//! For how long, and for whom, a client may keep a list of ours (specification of 2026-07-28, `server/utilities/caching`).

use bytes::Bytes;

use super::answer::own_result;
use crate::catalog::{Caching, View};
use crate::fleet::Snapshot;
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::{Feature, IDENTITY, Revision};
use crate::upstream::{State, Upstream};
use crate::wire;

/// How long the list of a server is good that does not say so itself, but tells when it changes, in milliseconds.
const USUAL_MS: u64 = 60_000;
/// How long it is while the server is away: it may come back with another one.
const AWAY_MS: u64 = 5_000;

/// The answer to a request under the raw id `id` for a list of `view`: `result`, in words of the client's era.
pub(super) fn answer(
    snapshot: &Snapshot,
    view: &View,
    feature: Feature,
    revision: Revision,
    id: &[u8],
    result: &Bytes,
) -> Bytes {
    let items = std::str::from_utf8(result).ok().and_then(|text| text.strip_prefix('{'));
    let Some(items) = items.filter(|_| revision.is_modern()) else { return wire::response(id, result) };
    let kept = kept(snapshot, view, feature);
    let (ttl, scope) = (kept.ttl_ms.unwrap_or(USUAL_MS), if kept.private { "private" } else { "public" });
    let meta = format!(r#"{{"{SERVER_INFO}":{IDENTITY}}}"#);
    let result = format!(r#"{{"ttlMs":{ttl},"cacheScope":"{scope}","_meta":{meta},{items}"#);
    own_result(revision, id, &result)
}

/// What holds for all that `view` lists of a kind: the shortest time and the narrowest scope of its servers.
fn kept(snapshot: &Snapshot, view: &View, feature: Feature) -> Caching {
    let upstreams = snapshot.catalog.servers(view).filter_map(|name| snapshot.upstreams.get(name));
    upstreams.map(|upstream| of(upstream, feature)).fold(Caching::default(), Caching::and)
}

fn of(upstream: &Upstream, feature: Feature) -> Caching {
    let said = upstream.listing().map(|listing| listing.caching(feature)).unwrap_or_default();
    if !matches!(upstream.state(), State::Ready(_)) {
        return Caching { ttl_ms: Some(said.ttl_ms.unwrap_or(AWAY_MS).min(AWAY_MS)), ..said };
    }
    let tells = upstream.hello().is_some_and(|hello| match feature {
        Feature::Tool => !hello.offers.tools || hello.offers.tools_changed,
        Feature::Prompt => !hello.offers.prompts || hello.offers.prompts_changed,
        Feature::Resource | Feature::Template => !hello.offers.resources || hello.offers.resources_changed,
    });
    Caching { ttl_ms: Some(said.ttl_ms.unwrap_or(if tells { USUAL_MS } else { 0 })), ..said }
}
