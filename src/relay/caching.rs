//! For how long, and for whom, clients may keep the lists that they get (specification of 2026-07-28,
//! `server/utilities/caching`).

use std::time::Duration;

use super::Relay;
use crate::catalog::{Keeping, View};
use crate::fleet::Snapshot;
use crate::mcp::{Feature, Offers};
use crate::upstream::Upstream;

/// For how long a list is good while a server that belongs to it is away, in milliseconds.
const AWAY: u64 = 5_000;

impl Relay {
    /// The members of a result that lists `feature` in `view`, as JSON within an object: the shortest time of all servers,
    /// and the narrowest scope. All pages say the same.
    pub(super) fn caching(&self, snapshot: &Snapshot, view: &View, feature: Feature) -> String {
        let usual = millis(self.fleet.limits().list_ttl);
        let upstreams = snapshot.catalog.servers(view).filter_map(|name| snapshot.upstreams.get(name));
        let each = upstreams.filter_map(|upstream| of(upstream, feature, usual));
        let all = each.fold(Keeping::default(), Keeping::and);
        let scope = if all.private { "private" } else { "public" };
        format!(r#""ttlMs":{},"cacheScope":"{scope}""#, all.ttl_ms.unwrap_or(usual))
    }
}

/// What one server adds; nothing where it has nothing of the kind.
fn of(upstream: &Upstream, feature: Feature, usual: u64) -> Option<Keeping> {
    if upstream.is_personal() {
        return Some(Keeping { ttl_ms: Some(AWAY), private: true });
    }
    let (hello, listing) = (upstream.hello(), upstream.listing());
    let kept = listing.as_ref().map_or(Keeping::default(), |listing| listing.keeping(feature));
    let has_some = listing.is_some_and(|listing| !listing.of(feature).is_empty());
    let (announced, tells) = hello.as_ref().map_or((true, false), |hello| announced(&hello.offers, feature));
    (announced || has_some).then(|| Keeping {
        ttl_ms: Some(left(kept.ttl_ms, upstream.list_age(feature), tells, usual)),
        ..kept
    })
}

/// Milliseconds that are left of a list for which its server gave `ttl`, of that age. One that is not connected is good
/// until the server may be back. A server of the older eras cannot give a time; it may tell of changes.
fn left(ttl: Option<u64>, age: Option<Duration>, tells: bool, usual: u64) -> u64 {
    match (ttl, age) {
        (_, None) => AWAY,
        (Some(ttl), Some(age)) => ttl.saturating_sub(millis(age)),
        (None, Some(_)) if tells => usual,
        (None, Some(_)) => 0,
    }
}

/// Whether a server has said that it has such things, and that it tells when they change.
fn announced(offers: &Offers, feature: Feature) -> (bool, bool) {
    match feature {
        Feature::Tool => (offers.tools, offers.tools_changed),
        Feature::Prompt => (offers.prompts, offers.prompts_changed),
        Feature::Resource | Feature::Template => (offers.resources, offers.resources_changed),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_list() {
        let age = |ms| Some(Duration::from_millis(ms));
        assert_eq!(left(Some(9_000), age(2_000), true, 60_000), 7_000);
        assert_eq!(left(Some(1_000), age(2_000), true, 60_000), 0);
        assert_eq!(left(Some(900_000), None, true, 60_000), AWAY);
        assert_eq!(left(None, age(999_999), true, 60_000), 60_000);
        assert_eq!(left(None, age(0), false, 60_000), 0);
    }
}
