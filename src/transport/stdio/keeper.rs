//! The life of a child, from its start to its reaping.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::Signal;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::group::Group;
use super::pumps::{self, Common};
use crate::transport::Failure;

/// How long a child may take to end after its input was closed, and again after TERM.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a child that closed one of its streams may take to end.
const LINGER: Duration = Duration::from_millis(500);

/// What a child's keeper is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    /// End it, in good order.
    pub(super) stop: CancellationToken,
    /// End it now.
    pub(super) kill: CancellationToken,
    /// It needs its slot for starting no more.
    pub(super) settled: CancellationToken,
}

/// Owns a child: moves its lines, ends it, reaps it and tells everybody who waits for it.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) common: Arc<Common>,
    pub(super) orders: Orders,
    pub(super) queue: mpsc::Receiver<Bytes>,
    pub(super) tasks: TaskTracker,
}

type Pump = AbortOnDropHandle<Result<(), Failure>>;

impl Keeper {
    pub(super) async fn run(self) {
        let Self { mut child, group, common, orders, queue, tasks } = self;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return }; // all three are piped
        let mut writer = start(&tasks, pumps::write(stdin, queue, orders.stop.clone()));
        let mut reader = start(&tasks, pumps::read(stdout, Arc::clone(&common)));
        let logger = start(&tasks, pumps::log(stderr, Arc::clone(&common)));
        let (why, status) = tokio::select! {
            biased;
            () = orders.kill.cancelled() => (STOPPED.clone(), None),
            () = orders.stop.cancelled() => {
                common.table.end(&STOPPED);
                (STOPPED.clone(), stop(&mut child, &group, &orders).await)
            }
            status = child.wait() => (Failure::Cut("it ended".into()), status.ok()),
            end = &mut reader => linger(&mut child, &orders, end, "it closed its output").await,
            end = &mut writer => linger(&mut child, &orders, end, "it closed its input").await,
        };
        if status.is_none() {
            group.signal(Signal::SIGKILL);
            // One that hangs in the kernel is left to tokio, which reaps it when it can.
            drop(tokio::time::timeout(PATIENCE, child.wait()).await);
        }
        group.clear().await;
        // With the group dead, what is in the pipes is all there is; only one that left the group can hold them open.
        let rest = async {
            for mut pump in [reader, logger] {
                if !pump.is_finished() {
                    drop((&mut pump).await);
                }
            }
        };
        drop(tokio::time::timeout(LINGER, rest).await);
        let why = explain(&common, why, status);
        tracing::debug!(server = %common.name, "{why}");
        common.table.end(&why);
        orders.settled.cancel();
    }
}

static STOPPED: LazyLock<Failure> = LazyLock::new(|| Failure::Cut("we stopped it".into()));

fn start(tasks: &TaskTracker, pump: impl Future<Output = Result<(), Failure>> + Send + 'static) -> Pump {
    AbortOnDropHandle::new(tasks.spawn(pump))
}

/// Closed input (the writer heard the same order), then TERM; `None` where neither helped.
async fn stop(child: &mut Child, group: &Group, orders: &Orders) -> Option<ExitStatus> {
    for signal in [None, Some(Signal::SIGTERM)] {
        if let Some(signal) = signal {
            group.signal(signal);
        }
        tokio::select! {
            () = orders.kill.cancelled() => return None,
            status = child.wait() => return status.ok(),
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }
    None
}

/// One of its streams ended: of no use any more, but mostly on its way out, and then its status tells more.
async fn linger(
    child: &mut Child,
    orders: &Orders,
    end: Result<Result<(), Failure>, JoinError>,
    closed: &str,
) -> (Failure, Option<ExitStatus>) {
    let why = match end {
        Ok(Err(failure @ Failure::TooLarge(_))) => return (failure, None),
        Ok(_) => Failure::Cut(closed.into()),
        Err(error) => Failure::Cut(error.to_string()),
    };
    let status = tokio::select! {
        () = orders.kill.cancelled() => None,
        () = orders.stop.cancelled() => None,
        status = child.wait() => status.ok(),
        () = tokio::time::sleep(LINGER) => None,
    };
    (why, status)
}

/// `why`, or the status of a child that ended by itself, with what it said last.
fn explain(common: &Common, why: Failure, status: Option<ExitStatus>) -> Failure {
    let Some(status) = status.filter(|_| why != *STOPPED) else { return why };
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, signal) => format!("killed by signal {}", signal.unwrap_or_default()),
    };
    Failure::Cut(match common.last_words() {
        Some(words) => format!("{how}: {words}"),
        None => how,
    })
}
