//! The tasks of one link.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::rt::Executor;
use tokio::task::{AbortHandle, Id};
use tokio_util::task::TaskTracker;

/// Handles kept before the first look for tasks that are over.
const FEW: usize = 32;

/// The tasks of one link. They end with it.
///
/// They are ended by aborting them: a token that each of them watches would cost every poll of every connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    started: Arc<Mutex<Started>>,
}

#[derive(Debug, Default)]
struct Started {
    handles: Vec<AbortHandle>,
    /// How many handles there may be before those of ended tasks are thrown away.
    most: usize,
    /// No more tasks are started.
    over: bool,
}

impl Tasks {
    /// Starts a task on the runtime of the caller. Does nothing once the link has ended.
    pub(super) fn start(&self, task: impl Future<Output: Send> + Send + 'static) {
        let mut started = self.started();
        if started.over {
            return;
        }
        if started.handles.len() >= started.most {
            started.handles.retain(|handle| !handle.is_finished());
            started.most = FEW.max(started.handles.len() * 2);
        }
        started.handles.push(self.tracker.spawn(task).abort_handle());
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Ends those that run now, but for one.
    pub(super) fn abort_but(&self, spared: Option<Id>) {
        let aborted = |handle: &&AbortHandle| Some(handle.id()) != spared;
        self.started().handles.iter().filter(aborted).for_each(AbortHandle::abort);
    }

    /// Ends them all without waiting, and lets no others start.
    pub(super) fn cancel(&self) {
        self.started().over = true;
        self.abort_but(None);
    }

    /// Ends them all.
    pub(super) async fn end(&self) {
        self.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.start(task);
    }
}
