//! One task that takes changes of the configuration over, one after the other.

use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::signal::unix::Signal;

use super::kept_key;
use super::load::{Origin, Seen};
use super::mount;
use super::serve::tell;
use super::watch::Watch;
use crate::auth::admits;
use crate::config::{Change, Config, KeyChange, Parsed, Problem};
use crate::fleet::Fleet;
use crate::front::{Admin, LastReload, Tls};
use crate::metrics::Metrics;
use crate::session::{Keyring, Sessions};

/// Reads the file again when it may have changed; what is invalid changes nothing.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) origin: Origin,
    /// What was in force at the start: what differs from it and needs a restart still does.
    pub(super) started: Arc<Config>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) keys: Arc<Keyring>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) admin: Arc<Admin>,
    pub(super) metrics: Arc<Metrics>,
    /// The endpoint's certificate, if it has one.
    pub(super) tls: Option<Arc<Tls>>,
    /// What was last said of an invalid file, so that it is said once.
    refused: Option<String>,
    /// What there is to say of where the file is mounted.
    mounted: Option<String>,
    /// What the last reading saw.
    seen: Seen,
}

impl Reload {
    pub(super) fn new(
        origin: Origin,
        started: Arc<Config>,
        fleet: Arc<Fleet>,
        keys: Arc<Keyring>,
        sessions: Arc<Sessions>,
        admin: Arc<Admin>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (refused, mounted, seen) = (None, None, Seen::default());
        Self { origin, started, fleet, keys, sessions, admin, metrics, tls: None, refused, mounted, seen }
    }

    /// Watches the file that gave `first`, and `hangup`, for ever.
    pub(super) async fn run(mut self, first: &Parsed, mut hangup: Signal) {
        self.mounted = self.origin.file().and_then(mount::warning);
        if let Some(warning) = &self.mounted {
            tracing::warn!("{warning}");
        }
        self.taken(&first.notes);
        let mut watch = Watch::new();
        let mut files = first.files.clone();
        loop {
            // Watched first and read then: what changes after the reading is noticed.
            let sees = watch.follow(self.origin.file().into_iter().chain(files.iter().map(AsRef::as_ref)));
            self.metrics.watching(sees);
            if let Some(tls) = &self.tls {
                tls.reload();
            }
            if let Some(parsed) = self.read() {
                if parsed.files != files {
                    files.clone_from(&parsed.files);
                    self.seen = Seen::default(); // it is read again once they are watched
                    continue;
                }
                self.apply(parsed).await;
            }
            tokio::select! {
                () = watch.changed() => {}
                Some(()) = hangup.recv() => tracing::info!("SIGHUP: the configuration is read again"),
            }
        }
    }

    /// What the file says, if that is something else than before.
    fn read(&mut self) -> Option<Parsed> {
        if self.seen.is_still_so() {
            return None;
        }
        let (loaded, seen) = self.origin.load_and_see();
        self.seen = seen;
        match loaded {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                let told = error.to_string();
                if self.refused.as_ref() != Some(&told) {
                    tracing::error!(
                        "the configuration is not taken over, the last one stays in force:\n{told}"
                    );
                    self.metrics.reloaded(false);
                    self.last().problems = told.lines().map(str::to_owned).collect();
                    self.refused = Some(told);
                }
                None
            }
        }
    }

    async fn apply(&mut self, parsed: Parsed) {
        let was_refused = self.refused.take().is_some();
        if *self.fleet.snapshot().config == parsed.config {
            if was_refused {
                tracing::info!("the configuration is valid again and says what is in force");
                self.metrics.reloaded(true);
            }
            self.taken(&parsed.notes);
            return;
        }
        tell(&parsed.notes);
        let notes = parsed.notes;
        let needs_restart = Change::between(&self.started, &parsed.config).needs_restart;
        let change = Change::between(&self.fleet.snapshot().config, &parsed.config);
        if change.session_keys {
            self.keys.set(&kept_key::keys(&parsed.config));
            tracing::info!("other session keys: what was sealed with keys that are gone opens no more");
        }
        let keys =
            KeyChange::between(self.fleet.snapshot().config.auth.as_ref(), parsed.config.auth.as_ref());
        self.fleet.apply(Arc::new(parsed.config)).await;
        self.turn_out();
        if !keys.is_empty() {
            let KeyChange { added, removed, rotated } = keys;
            tracing::info!(?added, ?removed, ?rotated, "the keys of callers have changed");
        }
        if !needs_restart.is_empty() {
            tracing::warn!("restart trunkline for the change of {} to take effect", needs_restart.join(", "));
        }
        let Change { added, removed, replaced, retuned, .. } = change;
        tracing::info!(?added, ?removed, ?replaced, ?retuned, "the configuration was taken over");
        self.metrics.reloaded(true);
        self.last().needs_restart = needs_restart;
        self.taken(&notes);
    }

    /// Ends the sessions of those who are no longer let in, or not by the key that they came with, with their streams.
    fn turn_out(&self) {
        let config = self.fleet.snapshot().config.clone();
        for session in self.sessions.all() {
            if !admits(config.auth.as_ref(), session.principal(), session.key()) {
                self.sessions.close(session.id());
            }
        }
    }

    /// Tells on the status that a file with these `notes` is in force.
    fn taken(&self, notes: &[Problem]) {
        let mut last = self.last();
        last.problems.clear();
        let notes = notes.iter().map(|note| format!("{}: {note}", note.severity));
        last.warnings = self.mounted.iter().map(|told| format!("warning: {told}")).chain(notes).collect();
    }

    fn last(&self) -> MutexGuard<'_, LastReload> {
        self.admin.last_reload.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
