//! What a server lists.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::ask::{ask, disowns, is_unknown_method, result_of};
use super::state::{Ready, ends_link};
use crate::catalog::{Budget, Listing, Pages, Turn};
use crate::mcp::{Feature, Features};
use crate::transport::Failure;

/// What a server was found to have.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) listing: Listing,
    /// Why some kind is not what it is now but what was known of it.
    pub(super) failed: Option<Failure>,
}

/// All that the server has of these kinds, the others as in `listing`. Tools are asked for although it announced none:
/// some have them all the same. A kind that cannot be listed leaves the others alone.
///
/// # Errors
/// Where the link is of no use.
pub(super) async fn list(
    ready: Arc<Ready>,
    features: Features,
    mut listing: Listing,
    limit: Duration,
) -> Result<Found, Failure> {
    // Over a child's stream nothing stands beside a message.
    listing.mirrors = ready.hello.revision.is_modern() && !ready.link.has_one_stream();
    let (last, mut failed) = (Instant::now() + limit, None);
    for feature in features.iter() {
        let offers = &ready.hello.offers;
        let announced = match feature {
            Feature::Tool => offers.tools,
            Feature::Prompt => offers.prompts,
            Feature::Resource | Feature::Template => offers.resources,
        };
        let asked = ready.since.elapsed();
        if announced || feature == Feature::Tool {
            // Many servers have resources and know no templates.
            let must = announced && feature != Feature::Template;
            let time = Time { last, limit, fresh: listing.of(feature).is_empty() };
            match pages(&ready, feature, must, time).await {
                Ok(pages) => listing.take(feature, pages),
                Err(failure) if is_fatal(&ready, &failure) => return Err(failure),
                Err(failure) => {
                    failed.get_or_insert(failure);
                    continue;
                }
            }
        }
        ready.listed.note(feature, asked);
    }
    Ok(Found { listing, failed })
}

/// A modern server answers every request by a message, so one that does not is another one now.
fn is_fatal(ready: &Ready, failure: &Failure) -> bool {
    let other = ready.is_modern() && matches!(failure, Failure::Status { code: 400..=499, .. });
    other || ends_link(failure)
}

/// How long a list may take.
#[derive(Debug, Clone, Copy)]
struct Time {
    last: Instant,
    limit: Duration,
    /// Nothing is known yet, so that a part is better than nothing.
    fresh: bool,
}

/// All pages of one kind, within the budget.
async fn pages(ready: &Ready, feature: Feature, must: bool, time: Time) -> Result<Listing, Failure> {
    let mut pages = Pages::new(feature);
    let mut params = "{}".to_owned();
    loop {
        let answer = match timeout_at(time.last, ask(ready, feature.list(), &params)).await {
            Ok(answer) => answer?,
            Err(_) if time.fresh && params != "{}" => return Ok(pages.out_of_time()),
            Err(_) => {
                return Err(Failure::Cut(format!("it did not list what it has within {:?}", time.limit)));
            }
        };
        if must && ready.listed.at(feature).is_some() && params == "{}" && disowns(&answer) {
            return Err(Failure::SessionGone);
        }
        match result_of(&answer) {
            Err(_) if !must || (time.fresh && is_unknown_method(&answer)) => return Ok(pages.finish()),
            // An empty cursor is valid, but some mean by it that there are no more pages.
            Err(_) if params == EMPTY_CURSOR => return Ok(pages.finish()),
            told => told?,
        };
        let result = answer.body_bytes().unwrap_or_default();
        let turn = pages.add(&result, Budget::default());
        match turn.map_err(|bad| Failure::Garbage(format!("its answer to {}: {bad}", feature.list())))? {
            Turn::Done => return Ok(pages.finish()),
            Turn::Next(cursor) => params = format!(r#"{{"cursor":{cursor}}}"#),
        }
    }
}

const EMPTY_CURSOR: &str = r#"{"cursor":""}"#;
