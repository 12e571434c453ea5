//! From which level on clients want a server's log: the server is told the loudest wish of all, which is the lowest level.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::ask::ask;
use super::state::Ready;
use crate::mcp::{Level, method};

/// How long the server may take to change its level.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a call waits for that: it is about its result first.
const PATIENCE: Duration = Duration::from_secs(1);

/// The wishes of all clients. An upstream's successor goes on with them.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// How many wish for each level.
    wishes: Mutex<[usize; Level::ALL.len()]>,
    loudest: watch::Sender<Option<Level>>,
    /// What the server was told.
    told: watch::Sender<Option<Level>>,
}

/// One client's wish to hear a server's log, for as long as it is held.
#[derive(Debug)]
#[must_use = "a wish that is dropped is withdrawn"]
pub struct LevelWish {
    levels: Arc<Levels>,
    level: Level,
}

impl Levels {
    pub(super) fn wish(self: &Arc<Self>, level: Level) -> LevelWish {
        self.count(level, |wishes| *wishes += 1);
        LevelWish { levels: self.clone(), level }
    }

    fn count(&self, level: Level, change: impl FnOnce(&mut usize)) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((wishes, _)) = wishes.iter_mut().zip(Level::ALL).find(|(_, of)| *of == level) {
            change(wishes);
        }
        let loudest = wishes.iter().zip(Level::ALL).find(|(wishes, _)| **wishes > 0).map(|(_, level)| level);
        // Under the lock, so that the last change is the last told.
        self.loudest.send_if_modified(|told| std::mem::replace(told, loudest) != loudest);
    }

    /// Waits a while until the server of this link knows that `level` is wanted: what a call says at its beginning would
    /// not be said otherwise.
    pub(super) async fn reach(&self, ready: &Ready, level: Level) {
        if ready.is_modern() || !ready.hello.offers.logging {
            return;
        }
        let mut told = self.told.subscribe();
        drop(timeout(PATIENCE, told.wait_for(|told| told.is_some_and(|told| told <= level))).await);
    }

    /// Tells the server of this link the loudest wish, now and whenever it is another one, for ever. Whatever changes
    /// while the server is being told is told as one.
    pub(super) async fn keep(&self, ready: &Ready) {
        let mut loudest = self.loudest.subscribe();
        if !ready.hello.offers.logging || ready.is_modern() {
            std::future::pending::<()>().await;
        }
        let mut told = None;
        self.told.send_replace(told);
        loop {
            // Wishes of clients without sessions come and go with their calls; what the server knows it need not hear again.
            let level = *loudest.borrow_and_update();
            if let Some(level) = level.filter(|_| level != told) {
                set(ready, level).await;
                told = Some(level);
                self.told.send_replace(told);
            }
            // The sender lives in `self`, so waiting cannot fail.
            drop(loudest.changed().await);
        }
    }
}

/// Tells the server of this link from which level on we want its log.
pub(super) async fn set(ready: &Ready, level: Level) {
    if ready.is_modern() {
        return; // each request says it
    }
    let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
    match timeout(LIMIT, ask(ready, method::SET_LEVEL, &params)).await {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => tracing::debug!(%failure, "the level of the log could not be set"),
        Err(_) => tracing::debug!("the level of the log could not be set within {LIMIT:?}"),
    }
}

impl Drop for LevelWish {
    fn drop(&mut self) {
        self.levels.count(self.level, |wishes| *wishes -= 1);
    }
}
