//! A server that is a child process: one message per line (specification, `basic/transports`).
//!
//! A child has a process group of its own and goes with it: TERM, then KILL, to the whole group. If we are killed
//! ourselves nobody is left to do that; then the end of its input ends every child that behaves.

mod group;
mod keeper;
mod lines;
mod pumps;
mod spawn;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::task::TaskTracker;

pub use self::lines::{Line, Lines};

use self::group::Group;
use self::keeper::{Keeper, Orders};
use self::pumps::Common;
use super::table::{Call, Table, Unbound};
use super::tally::Tally;
use super::text::Secrets;
use super::{Failure, Sizes};
use crate::config;
use crate::wire::flat;

/// Messages queued for a child that does not read. Whoever has one more waits.
const QUEUE: usize = 16;
/// How long a child keeps its slot for starting.
const SLOT: Duration = Duration::from_secs(2);

/// A running child.
#[derive(Debug)]
pub(super) struct Stdio {
    queue: mpsc::Sender<Bytes>,
    common: Arc<Common>,
    orders: Orders,
    tasks: TaskTracker,
}

impl Stdio {
    /// Starts the child, which keeps `slot` until it has settled or for two seconds.
    pub(super) fn start(
        server: &config::Server,
        stdio: &config::Stdio,
        sizes: Sizes,
        slot: OwnedSemaphorePermit,
    ) -> Result<Self, Failure> {
        let child = spawn::spawn(stdio)?;
        let group = Group::new(child.id());
        let orders = Orders::default();
        let common = Arc::new(Common {
            settled: orders.settled.clone(),
            name: server.name.clone(),
            table: Arc::new(Table::new()),
            sizes,
            secrets: Secrets::new(
                stdio.env.iter().map(|(_, value)| value).chain(&server.secrets).map(String::as_str),
            ),
            tail: Mutex::new(VecDeque::new()),
        });
        let (queue, lines) = mpsc::channel(QUEUE);
        let tasks = TaskTracker::new();
        let keeper = Keeper {
            child,
            group,
            common: Arc::clone(&common),
            orders: orders.clone(),
            queue: lines,
            tasks: tasks.clone(),
        };
        drop(tasks.spawn(keeper.run()));
        let settled = orders.settled.clone();
        drop(tasks.spawn(async move {
            drop(tokio::time::timeout(SLOT, settled.cancelled()).await);
            drop(slot);
        }));
        Ok(Self { queue, common, orders, tasks })
    }

    pub(super) async fn request(&self, id: u64, text: Bytes) -> Result<Call, Failure> {
        let call = self.common.table.enter(id)?;
        self.send(text).await?;
        Ok(call)
    }

    /// Queues a line; waits for room.
    pub(super) async fn send(&self, text: Bytes) -> Result<(), Failure> {
        let closed = || Failure::Unreachable("it closed its input".into());
        self.queue.send(flat(text)).await.map_err(|_| self.common.table.ended().unwrap_or_else(closed))
    }

    pub(super) fn listen(&self) -> Result<Unbound, Failure> {
        self.common.table.listen()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.common.table.ended().is_none()
    }

    pub(super) fn settled(&self) {
        self.orders.settled.cancel();
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.common.table.tally
    }

    /// Ends the child and waits until it is reaped.
    pub(super) async fn close(&self) {
        self.orders.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.orders.kill.cancel();
    }
}
