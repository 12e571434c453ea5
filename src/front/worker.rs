//! One thread per core, each with a runtime of its own: a client's connection, its calls and the connections they use
//! towards servers stay on one thread, so that nothing has to be woken or locked across cores.

use std::io;
use std::num::NonZeroUsize;
use std::thread::{JoinHandle, available_parallelism};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The threads that serve clients.
#[derive(Debug)]
pub struct Workers {
    runtimes: Vec<Handle>,
    threads: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Workers {
    /// Starts as many as there are cores for us.
    ///
    /// # Errors
    /// Where the machine has no thread for us.
    pub fn start() -> io::Result<Self> {
        let count = available_parallelism().map_or(1, NonZeroUsize::get);
        let stop = CancellationToken::new();
        let (mut runtimes, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.handle().clone());
            let stop = stop.clone();
            let run = move || runtime.block_on(rest(stop));
            threads.push(std::thread::Builder::new().name(format!("worker-{number}")).spawn(run)?);
        }
        Ok(Self { runtimes, threads, stop })
    }

    /// Their runtimes, for a [`Server`](super::Server).
    pub fn runtimes(&self) -> Vec<Handle> {
        self.runtimes.clone()
    }
}

/// Waits for the end, with a timer that always runs out before hyper's for the next request's headers. Where such a timer
/// is the only one, tokio wakes the thread that has just set it: a system call for every request.
async fn rest(stop: CancellationToken) {
    let mut next = Instant::now();
    let mut standing = async || {
        next += STANDING;
        sleep_until(next).await;
    };
    while stop.run_until_cancelled(standing()).await.is_some() {}
}

/// Below the header time of [`Server`](super::Server). tokio looks at timers that are far away again each time 64 of its
/// next smaller steps have passed, 64² ms at last: one that ends with such a step wakes the thread once, not four times.
const STANDING: Duration = Duration::from_millis(2 * 64 * 64);

impl Drop for Workers {
    /// Ends the threads and whatever still runs on them.
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            // A worker whose runtime panicked has ended as well.
            drop(thread.join());
        }
    }
}
