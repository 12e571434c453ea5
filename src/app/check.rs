//! `trunkline check`: what is wrong with a file, before it is used.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nix::unistd::{AccessFlags, access};

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
    if let Some(folder) = &parsed.config.catalog_cache
        && let Err(why) = usable(folder)
    {
        // Elsewhere, or for somebody else, it may be another matter; and it would start all the same.
        say(&format!("warning: `catalogCache` cannot be used here: {}: {why}", folder.display()));
    }
    let servers = parsed.config.servers.len();
    say(&format!("ok: {servers} server{} in {}", if servers == 1 { "" } else { "s" }, origin.name()));
    if connect && !try_all(&parsed).await { Exit::Failed } else { Exit::Done }
}

/// Whether files could be kept in `folder`, which is made where there is none. Nothing is changed by asking.
fn usable(folder: &Path) -> io::Result<()> {
    for part in folder.ancestors() {
        // What a relative path begins with.
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        match part.metadata() {
            Ok(found) if !found.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
            Ok(_) => return Ok(access(part, AccessFlags::W_OK | AccessFlags::X_OK)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_usable_where_it_is_or_could_be_made() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        for good in [root.path().to_owned(), root.path().join("a/b"), "not-there".into(), "a/b".into()] {
            assert!(usable(&good).is_ok(), "{good:?}");
        }
        for bad in [&file, &file.join("a"), Path::new("/dev/null/a/b")] {
            assert!(usable(bad).is_err(), "{bad:?}");
        }
        assert!(!root.path().join("a").exists());
    }
}
