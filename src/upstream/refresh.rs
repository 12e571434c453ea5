//! When a server is asked anew for what it has.

use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::Listing;
use crate::config::Limits;
use crate::mcp::{Feature, Features, Offers};

/// After how long to list again: seldom where the server tells of changes (`hears`), and not later than it says itself that
/// its lists hold. One that always says "no time at all" is asked as often as others.
pub(super) fn refresh(limits: &Limits, hears: bool, listing: Option<&Listing>) -> Duration {
    let usual = limits.refresh_interval * if hears { 10 } else { 1 };
    let held = |feature| listing.and_then(|listing| listing.keeping(feature).ttl_ms).filter(|ttl| *ttl > 0);
    let shortest = Feature::ALL.into_iter().filter_map(held).min().map(Duration::from_millis);
    shortest.map_or(usual, |ttl| usual.min(ttl.max(limits.reconnect_interval)))
}

/// Between two list requests that a server asked for.
const LIST_PACE: Duration = Duration::from_secs(1);
/// When to list because somebody asked for it: now, unless it was done a moment ago.
pub(super) fn soon(planned: Option<Instant>, listed_at: Option<Instant>) -> Instant {
    let now = Instant::now();
    let earliest = listed_at.map_or(now, |at| now.max(at + LIST_PACE));
    planned.map_or(earliest, |at| at.min(earliest))
}

/// What a server says it has. Tools are listed in any case.
pub(super) fn offered(offers: &Offers) -> Features {
    let has = |feature: &Feature| match feature {
        Feature::Tool => true,
        Feature::Prompt => offers.prompts,
        Feature::Resource | Feature::Template => offers.resources,
    };
    Feature::ALL.into_iter().filter(has).collect()
}

/// Whether a server tells of every change, so that it need not be asked often.
pub(super) fn tells_all(offers: &Offers) -> bool {
    offers.tools_changed
        && (offers.prompts_changed || !offers.prompts)
        && (offers.resources_changed || !offers.resources)
}

/// Up to a tenth later, so that many upstreams do not list all at once.
pub(super) fn jittered(interval: Duration, salt: u64) -> Duration {
    let tenths = u32::try_from(salt.wrapping_mul(2_654_435_761) % 100).unwrap_or_default();
    interval + interval * tenths / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Budget, Pages};

    #[test]
    fn lists_are_asked_for_when_they_no_longer_hold() {
        let limits = Limits::default();
        let (usual, seldom) = (limits.refresh_interval, limits.refresh_interval * 10);
        let after = |ttl: &str, hears| {
            let mut pages = Pages::new(Feature::Tool);
            pages.add(&format!(r#"{{"tools":[]{ttl}}}"#).into(), Budget::default()).unwrap();
            refresh(&limits, hears, Some(&pages.finish()))
        };
        assert_eq!((refresh(&limits, false, None), after("", true)), (usual, seldom));
        assert_eq!((after(r#","ttlMs":0"#, false), after(r#","ttlMs":9999999999"#, true)), (usual, seldom));
        assert_eq!(after(r#","ttlMs":1"#, false), limits.reconnect_interval, "not all the time");
        assert_eq!(after(r#","ttlMs":90000"#, true), Duration::from_secs(90));
    }
}
