//! The calls that wait for their clients to come back: by the number that the client has sealed in its state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Held;
use crate::config::Limits;
use crate::metrics::{self, HoldGuard};
use crate::upstream::Upstream;

/// All of them. Each is in a task of its own, which goes on with the call and ends it when its time is over.
#[derive(Debug)]
pub(in crate::relay) struct Holds {
    waiting: Mutex<HashMap<u128, Slot>>,
    room: Arc<Semaphore>,
    /// Most calls to one server that may ask.
    of_one: usize,
    time: Duration,
    /// Nobody comes back any more.
    closing: CancellationToken,
}

/// What the table knows of a call: enough to judge a retry without waking it.
struct Slot {
    claim: oneshot::Sender<oneshot::Sender<Held>>,
    /// The keys and methods of what the client is asked.
    asked: Vec<(Box<str>, Box<str>)>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("asked", &self.asked.len()).finish_non_exhaustive()
    }
}

/// A call's right to ask, counted for all and for its server.
#[derive(Debug)]
pub(in crate::relay) struct Room {
    _permit: OwnedSemaphorePermit,
    counted: HoldGuard,
}

impl Room {
    /// Gives it back.
    pub(in crate::relay) fn end(self, result: metrics::Held) {
        self.counted.end(result);
    }
}

impl Holds {
    pub(in crate::relay) fn new(limits: &Limits) -> Self {
        Self {
            waiting: Mutex::default(),
            room: Arc::new(Semaphore::new(limits.holds)),
            of_one: limits.holds.div_ceil(2),
            time: limits.hold_time,
            closing: CancellationToken::new(),
        }
    }

    /// How long a client may take to come back.
    pub(in crate::relay) fn time(&self) -> Duration {
        self.time
    }

    /// Room for one more call of `upstream` that asks its client; `None` where there is none.
    pub(in crate::relay) fn room(&self, upstream: &Upstream) -> Option<Room> {
        let counted = upstream.series().hold(self.of_one)?;
        let Ok(permit) = self.room.clone().try_acquire_owned() else {
            counted.end(metrics::Held::Refused);
            return None;
        };
        Some(Room { _permit: permit, counted })
    }

    /// A number that no other call has.
    pub(in crate::relay) fn number() -> u128 {
        let mut number = [0; 16];
        rand::fill(&mut number).expect("the system gives random bytes");
        u128::from_be_bytes(number)
    }

    /// Goes on with `held` in a task of `tasks` until its client comes back for `number`, or its time is over.
    pub(in crate::relay) fn park(self: &Arc<Self>, tasks: &TaskTracker, number: u128, held: Held) {
        let (claim, claimed) = oneshot::channel();
        self.waiting().insert(number, Slot { claim, asked: held.asked() });
        tasks.spawn(self.clone().keep(number, held, claimed));
    }

    /// What the call `number` asked, if it waits.
    pub(in crate::relay) fn asked(&self, number: u128) -> Option<Vec<(Box<str>, Box<str>)>> {
        self.waiting().get(&number).map(|slot| slot.asked.clone())
    }

    /// Takes the call back, once: whoever comes later finds nothing.
    pub(in crate::relay) async fn take(&self, number: u128) -> Option<Held> {
        let slot = self.waiting().remove(&number)?;
        let (give, given) = oneshot::channel();
        slot.claim.send(give).ok()?;
        given.await.ok()
    }

    /// How many wait.
    #[cfg(test)]
    pub(in crate::relay) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Resolves once nobody comes back any more.
    pub(in crate::relay) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// Ends all that wait, now and from now on.
    pub(in crate::relay) fn close(&self) {
        self.closing.cancel();
    }

    async fn keep(
        self: Arc<Self>,
        number: u128,
        mut held: Held,
        mut claimed: oneshot::Receiver<oneshot::Sender<Held>>,
    ) {
        let until = Instant::now() + self.time;
        loop {
            tokio::select! {
                biased;
                taker = &mut claimed => return give(held, taker),
                () = held.go_on() => {}
                () = sleep_until(until) => break,
                () = self.closing.cancelled() => break,
            }
        }
        if self.waiting().remove(&number).is_none() {
            return give(held, claimed.await); // somebody takes it at this very moment
        }
        held.abandon().await;
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u128, Slot>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives `held` to whoever takes it. One who has gone meanwhile has hung up.
fn give(held: Held, taker: Result<oneshot::Sender<Held>, oneshot::error::RecvError>) {
    let left = match taker {
        Ok(taker) => taker.send(held).err(),
        Err(_) => Some(held),
    };
    if let Some(held) = left {
        held.cancel();
    }
}
