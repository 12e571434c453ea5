//! A request whose answer takes time, polled by whoever writes the response: no task and no channel per call.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_util::task::TaskTracker;

/// A request under way. Dropped before its end, it runs on by itself: a client that hangs up has not cancelled
/// (specification, `basic/transports`).
pub struct Call {
    answer: Option<Running>,
    asides: Arc<Asides>,
    orphans: TaskTracker,
    last: Option<Step>,
}

type Running = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// The next thing that a call has for its client.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A message that comes before the answer.
    Aside(Bytes),
    /// The answer; `None` where the client has cancelled and wants none. Nothing follows.
    Answer(Option<Bytes>),
}

/// What a call wants to tell before its answer. The call and its reader are polled by the same task in turn, so nobody
/// needs waking.
#[derive(Debug, Default)]
pub(super) struct Asides {
    queue: Mutex<VecDeque<Bytes>>,
    /// Nobody reads any more.
    unheard: AtomicBool,
}

/// A call that tells more than this between two polls waits until it has been read.
const ROOM: usize = 64;

impl Asides {
    /// Puts `message` out, once there is room.
    pub(super) async fn push(&self, message: Bytes) {
        let mut message = Some(message);
        std::future::poll_fn(|_| {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.len() >= ROOM {
                return Poll::Pending; // polled again when the reader has emptied the queue
            }
            queue.extend(message.take());
            Poll::Ready(())
        })
        .await;
    }

    /// Whether anybody may read it.
    pub(super) fn heard(&self) -> bool {
        !self.unheard.load(Ordering::Relaxed)
    }

    fn pop(&self) -> Option<Bytes> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Forgets what nobody will read; whether there was anything.
    fn clear(&self) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let found = !queue.is_empty();
        queue.clear();
        found
    }
}

impl Call {
    /// A call that `run` answers; it starts at the first poll.
    pub(super) fn start<F>(orphans: &TaskTracker, run: impl FnOnce(Arc<Asides>) -> F) -> Self
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        let asides = Arc::new(Asides::default());
        let answer = Box::pin(run(asides.clone()));
        Self { answer: Some(answer), asides, orphans: orphans.clone(), last: None }
    }

    /// The next step.
    pub async fn step(&mut self) -> Step {
        std::future::poll_fn(|cx| self.poll_step(cx)).await
    }

    /// As [`step`](Self::step), for bodies.
    pub fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(aside) = self.asides.pop() {
            return Poll::Ready(Step::Aside(aside));
        }
        if let Some(running) = &mut self.answer {
            if let Poll::Ready(answer) = running.as_mut().poll(cx) {
                self.answer = None;
                self.last = Some(Step::Answer(answer));
            }
            if let Some(aside) = self.asides.pop() {
                return Poll::Ready(Step::Aside(aside));
            }
        }
        match self.last.take() {
            Some(last) => Poll::Ready(last),
            None => Poll::Pending,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(running) = self.answer.take() else { return };
        // Without a runtime there is nothing left that could answer.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.orphans.spawn(run_on(running, self.asides.clone()));
        }
    }
}

/// Polls a call to its end for nobody. Holds no [`Call`]: a runtime that ends drops at once what is spawned on it, and a
/// `Call` would then spawn itself again, and so on for ever.
async fn run_on(mut running: Running, asides: Arc<Asides>) {
    asides.unheard.store(true, Ordering::Relaxed);
    std::future::poll_fn(|cx| {
        loop {
            if running.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if !asides.clear() {
                return Poll::Pending; // it waits for something else than room
            }
        }
    })
    .await;
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("running", &self.answer.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn asides_come_in_order_before_the_answer_however_many() {
        let tasks = TaskTracker::new();
        let mut call = Call::start(&tasks, |asides| async move {
            for n in 0..1000 {
                asides.push(n.to_string().into()).await;
            }
            Some("end".into())
        });
        for n in 0..1000 {
            assert_eq!(call.step().await, Step::Aside(n.to_string().into()));
        }
        assert_eq!(call.step().await, Step::Answer(Some("end".into())));
    }

    #[test]
    fn a_call_that_is_dropped_with_its_runtime_ends() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let tasks = TaskTracker::new();
        let (tell, told) = std::sync::mpsc::channel();
        let mut call = Call::start(&tasks, |_| async move {
            tell.send(()).unwrap();
            std::future::pending().await
        });
        runtime.spawn(async move { call.step().await });
        told.recv().unwrap();
        drop(runtime);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn a_dropped_call_runs_to_its_end() {
        let tasks = TaskTracker::new();
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut call = Call::start(&tasks, |asides| async move {
            asides.push("first".into()).await;
            tokio::task::yield_now().await;
            for _ in 0..1000 {
                asides.push("more".into()).await;
            }
            tell.send(()).unwrap();
            None
        });
        assert_eq!(call.step().await, Step::Aside("first".into()));
        drop(call);
        told.await.unwrap();
        tasks.close();
        tasks.wait().await;
    }
}
