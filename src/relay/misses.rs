//! Which unknown tools were asked for lately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::fleet::Snapshot;
use crate::names::ServerName;

/// Remembers that a server was asked again for a tool in vain, so that a client that insists costs it nothing. Forgotten
/// with every new snapshot: a reconnect, a changed list or a reload.
#[derive(Debug, Default)]
pub(super) struct Misses(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    snapshot: Weak<Snapshot>,
    until: HashMap<(ServerName, Box<str>), Instant>,
}

/// How long a miss is remembered: LibreChat's own figure.
const TIME: Duration = Duration::from_secs(10);
/// How many are: LibreChat's own figure.
const MOST: usize = 1_000;

impl Misses {
    /// Whether `tool` was missed lately.
    pub(super) fn has(&self, snapshot: &Arc<Snapshot>, server: &ServerName, tool: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::ptr::eq(known.snapshot.as_ptr(), Arc::as_ptr(snapshot))
            && known.until.get(&(server.clone(), tool.into())).is_some_and(|until| *until > Instant::now())
    }

    /// Remembers that `tool` was missed.
    pub(super) fn add(&self, snapshot: &Arc<Snapshot>, server: &ServerName, tool: &str) {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(known.snapshot.as_ptr(), Arc::as_ptr(snapshot)) {
            *known = Known { snapshot: Arc::downgrade(snapshot), until: HashMap::new() };
        }
        if known.until.len() >= MOST {
            known.until.retain(|_, until| *until > now);
        }
        if known.until.len() < MOST {
            known.until.insert((server.clone(), tool.into()), now + TIME);
        }
    }
}
