//! What the tests are made of: a [`World`] that runs the real program, [`Fake`] servers whose script a test writes, a
//! [`Client`] that sends and sees raw bytes, and counters of what a process holds.

mod bridge;
mod client;
mod config;
mod everything;
mod fake;
mod faulty;
mod http;
mod inside;
mod line;
mod modern;
mod needs;
pub(crate) mod process;
pub(crate) mod raw;
mod relay;
mod script;
mod sse;
mod stdio;
mod world;

pub(crate) use client::{Client, Events, hello};
pub(crate) use config::{Mount, entries, file, refused_port};
pub(crate) use everything::{Everything, everything};
pub(crate) use fake::{Fake, Seen, socket};
pub(crate) use faulty::{Act, ENDLESS};
pub(crate) use inside::Inside;
pub(crate) use line::Line;
pub(crate) use modern::{MODERN, Modern};
pub(crate) use needs::{Group, name, own_network, run, skip};
pub(crate) use relay::{Ending, Relay, Weather};
pub(crate) use script::{PROGRESS, Reply, Script, Step, answer, error, progress, text, tool};
pub(crate) use world::{World, program};

use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// How long anything may take that should be quick.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Looks again and again until `look` finds something, within [`SOON`].
pub(crate) async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(SOON, what, look).await
}

/// As [`until`], within `limit`.
pub(crate) async fn within<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            match look().await {
                Some(found) => return found,
                None => sleep(Duration::from_millis(10)).await, // there is no signal but the state itself
            }
        }
    };
    timeout(limit, looking).await.unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}

/// What `look` finds once it has found the same for a while: connections close a moment after they were let go.
pub(crate) async fn standing<T: PartialEq + Copy>(what: &str, mut look: impl FnMut() -> T) -> T {
    let (mut last, mut same) = (look(), 0);
    until(&format!("{what} stands still"), async || {
        let now = look();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        (same >= 30).then_some(now)
    })
    .await
}

/// `short`, or `long` where all was asked for.
pub(crate) fn scaled(short: usize, long: usize) -> usize {
    if std::env::var_os("TRUNKLINE_LONG").is_some() { long } else { short }
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The shortest time between two of them.
pub(crate) fn closest(times: &[Instant]) -> Duration {
    times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(Duration::MAX)
}

/// All of them, side by side.
pub(crate) async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                *done = Some(value);
            }
        }
        if waiting.iter().all(|(_, done)| done.is_some()) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}
