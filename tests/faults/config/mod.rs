//! Section E: the configuration and its reload.

mod files;
mod held;
mod many;
mod refused;
mod reload;
mod stamps;

use crate::support::{Client, World, until};

/// Configurations that were taken.
pub(super) const TAKEN: &str = r#"trunkline_config_reloads_total{result="success"}"#;
/// Configurations that were refused.
pub(super) const REFUSED: &str = r#"trunkline_config_reloads_total{result="failure"}"#;
/// Whether the last one was taken.
pub(super) const LAST: &str = "trunkline_config_last_reload_successful";

/// Saves another text, and waits until it is in force.
pub(super) async fn save(world: &World, text: &str) {
    let before = world.metric(TAKEN).await;
    world.mount.save(text);
    until("it is taken", async || (world.metric(TAKEN).await > before).then_some(())).await;
}

/// What a call without arguments is told.
pub(super) async fn said(client: &Client, tool: &str) -> String {
    let answer = client.call(tool, "{}").await;
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
