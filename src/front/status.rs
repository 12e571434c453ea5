//! `/status`: how every server is, for people and scripts.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::admin::LastReload;
use crate::fleet::Snapshot;
use crate::mcp::Feature;
use crate::upstream::{State, Upstream};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    version: &'static str,
    /// Problems of the last file that was refused; empty if the last one is in force.
    config_problems: &'a [String],
    /// What the file in force gives reason to say.
    config_warnings: &'a [String],
    /// Keys whose change takes effect with a restart.
    needs_restart: &'a [&'static str],
    servers: Vec<ServerStatus>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerStatus {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    state: &'static str,
    /// How long it has been so.
    #[serde(skip_serializing_if = "Option::is_none")]
    for_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_in_seconds: Option<f64>,
    /// Where trying again alone does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    what_to_do: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    /// `modern`, without sessions, or `legacy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// Why it gets no calls although it is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    breaker: Option<Breaker>,
    tools: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_cut: Option<&'static str>,
    /// Items of its lists that are left out: without a name or schema, or with the name of another.
    #[serde(skip_serializing_if = "is_none")]
    left_out: usize,
    /// Why the last attempt to list them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_problem: Option<String>,
    /// Names that had to be changed: the server's own → the exposed one.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    altered_names: serde_json::Map<String, serde_json::Value>,
    /// When its settings were last changed, in milliseconds since 1970.
    updated_at: u64,
    /// Why the newest settings are not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings_problem: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// A breaker that stops calls.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Breaker {
    /// `open`, or `halfOpen` while one call is let through to see how it ends.
    state: &'static str,
    reason: String,
    next_try_in_seconds: f64,
    /// How often it was opened since a call last succeeded.
    times: u32,
}

const CREDENTIALS: &str =
    "set or renew its credentials (`headers`) in the configuration; the file is read when saved";

/// The status as JSON.
pub(super) fn render(snapshot: &Snapshot, reload: &LastReload) -> String {
    let servers = snapshot.config.servers.keys();
    let servers =
        servers.filter_map(|name| snapshot.upstreams.get(name)).map(|up| server(up, snapshot)).collect();
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        config_problems: &reload.problems,
        config_warnings: &reload.warnings,
        needs_restart: &reload.needs_restart,
        servers,
    };
    serde_json::to_string_pretty(&status).unwrap_or_default() + "\n"
}

fn server(upstream: &Upstream, snapshot: &Snapshot) -> ServerStatus {
    let settings = upstream.server();
    let state = upstream.state();
    let now = Instant::now();
    let seconds = |time: Duration| (time.as_secs_f64() * 10.0).round() / 10.0;
    let part = snapshot.catalog.part(settings.name.as_str());
    let listing = upstream.listing();
    let altered = part.into_iter().flat_map(|part| part.altered());
    let mut status = ServerStatus {
        name: settings.name.to_string(),
        title: settings.title.clone(),
        state: state.word(),
        for_seconds: None,
        reason: None,
        next_try_in_seconds: None,
        what_to_do: None,
        revision: None,
        era: None,
        server: None,
        breaker: upstream.open_breaker().map(|open| Breaker {
            state: if open.probing { "halfOpen" } else { "open" },
            next_try_in_seconds: seconds(open.until.saturating_duration_since(now)),
            reason: open.what,
            times: open.times,
        }),
        tools: part.map_or(0, |part| part.count(Feature::Tool)),
        tools_problem: upstream.unlisted().map(|why| why.to_string()),
        left_out: listing.as_ref().map_or(0, |listing| listing.dropped().count()),
        tools_cut: listing.as_ref().and_then(|listing| listing.cut()),
        altered_names: altered
            .map(|(raw, exposed)| (serde_json::from_slice(&raw).unwrap_or_default(), exposed.into()))
            .collect(),
        updated_at: upstream.updated_at(),
        settings_problem: snapshot.held_back(&settings.name),
    };
    match &state {
        State::Ready(ready) => {
            status.for_seconds = Some(seconds(now - ready.since));
            let revision = ready.hello.revision;
            status.revision = Some(revision.as_str());
            status.era = Some(if revision.is_modern() { "modern" } else { "legacy" });
            status.server = Some(format!("{} {}", ready.hello.server.name, ready.hello.server.version));
        }
        State::Down(why) => {
            status.for_seconds = Some(seconds(now - why.since));
            status.reason = Some(why.what.clone());
            status.what_to_do = why.unauthorized.then_some(CREDENTIALS);
            status.next_try_in_seconds = Some(seconds(why.next.saturating_duration_since(now)));
        }
        State::Idle | State::Connecting | State::PerCaller | State::Stopped => {}
    }
    if status.reason.is_none()
        && let Some((time, why)) = upstream.resting()
    {
        status.reason = Some(why.to_owned());
        status.next_try_in_seconds = Some(seconds(time));
    }
    status
}
