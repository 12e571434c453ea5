//! What a server lists.

use std::sync::Arc;

use super::ask::{ask, disowns, result_of};
use super::state::Ready;
use crate::catalog::{Budget, Listing, Pages, Turn};
use crate::mcp::{Feature, Features};
use crate::transport::Failure;

/// All that the server has of these kinds, the others as in `listing`. Tools are asked for although it announced none:
/// some have them all the same.
pub(super) async fn list(
    ready: Arc<Ready>,
    features: Features,
    mut listing: Listing,
) -> Result<Listing, Failure> {
    // Over a child's stream nothing stands beside a message.
    listing.mirrors = ready.hello.revision.is_modern() && !ready.link.has_one_stream();
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
            listing.take(feature, pages(&ready, feature, must).await?);
        }
        ready.listed.note(feature, asked);
    }
    Ok(listing)
}

/// All pages of one kind, within the budget.
async fn pages(ready: &Ready, feature: Feature, must: bool) -> Result<Listing, Failure> {
    let mut pages = Pages::new(feature);
    let mut params = "{}".to_owned();
    loop {
        let answer = ask(ready, feature.list(), &params).await?;
        if must && ready.listed.at(feature).is_some() && params == "{}" && disowns(&answer) {
            return Err(Failure::SessionGone);
        }
        match result_of(&answer) {
            Err(_) if !must => return Ok(pages.finish()),
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
