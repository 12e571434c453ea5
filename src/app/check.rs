//! `trunkline check`: what is wrong with a file, before it is used.

use std::sync::Arc;

use super::load::{LoadError, Origin};
use super::{Exit, complain, say};
use crate::config::Parsed;
use crate::front::Tls;
use crate::mcp::Feature;
use crate::metrics::Metrics;
use crate::transport::{Dialer, Sizes};
use crate::upstream::try_once;

/// Tells every problem of the file; with `connect` also whether each server answers.
pub async fn check(origin: &Origin, connect: bool) -> Exit {
    let parsed = match origin.load() {
        Ok(parsed) => parsed,
        Err(error) => {
            complain(&error.to_string());
            if let LoadError::Wrong(problems) = &error {
                let errors = problems.iter().filter(|p| p.severity == crate::config::Severity::Error).count();
                complain(&format!("{errors} error{}", if errors == 1 { "" } else { "s" }));
            }
            return Exit::Misused;
        }
    };
    for note in &parsed.notes {
        say(&format!("{}: {note}", note.severity));
    }
    if let Some(files) = &parsed.config.tls
        && let Err(why) = Tls::load(files, Metrics::new(env!("CARGO_PKG_VERSION")))
    {
        complain(&format!("no TLS for `listen`: {why}"));
        return Exit::Misused;
    }
    let servers = parsed.config.servers.len();
    say(&format!("ok: {servers} server{} in {}", if servers == 1 { "" } else { "s" }, origin.name()));
    if connect && !try_all(&parsed).await { Exit::Failed } else { Exit::Done }
}

/// Tries all servers side by side; whether all of them answer.
async fn try_all(parsed: &Parsed) -> bool {
    let dialer = Arc::new(Dialer::new(Sizes::from(&parsed.config.limits)));
    let mut tries = tokio::task::JoinSet::new();
    for server in parsed.config.servers.values() {
        if server.personal.is_some() {
            say(&format!("{}: not tried, since each caller reaches it by himself", server.name));
            continue;
        }
        let (dialer, server) = (dialer.clone(), server.clone());
        tries.spawn(async move { (server.name.clone(), try_once(&dialer, &server).await) });
    }
    let mut good = true;
    while let Some(ended) = tries.join_next().await {
        let Ok((name, outcome)) = ended else { continue };
        match outcome {
            Ok((hello, listing)) => {
                say(&format!(
                    "{name}: {} tools, revision {}",
                    listing.of(Feature::Tool).len(),
                    hello.revision
                ));
            }
            Err(failure) => {
                good = false;
                say(&format!("{name}: {failure}"));
            }
        }
    }
    good
}
