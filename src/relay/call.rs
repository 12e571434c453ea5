//! A request whose answer takes time, polled by whoever writes the response: no task and no channel per call that is
//! answered at once. One that tells more than its answer goes on by itself, in a task, and is followed.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;
use crate::session::{Feed, Follower, Session};
use crate::upstream::Upstream;
use crate::wire::{self, Code};

/// A request under way, or several. Dropped before its end, it runs on by itself: a client that hangs up has not
/// cancelled (specification, `basic/transports`).
pub struct Call {
    run: Option<Run>,
    tasks: TaskTracker,
}

/// What is left of a call. Holds no [`Call`]: a runtime that ends drops at once what is spawned on it, and a `Call` would
/// then spawn itself again, and so on for ever.
struct Run {
    answer: Option<Running>,
    asides: Arc<Asides>,
    last: Option<Step>,
    /// What is answered where it panics, and who counts it.
    guard: Option<(Bytes, Arc<Metrics>)>,
}

type Running = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// The next thing that a call has for its client.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A message that comes before the answer.
    Aside(Bytes),
    /// A request to the client, under an id of ours: its answer goes to the session.
    Asked(Bytes),
    /// A notification that a request to the client is no longer to be answered.
    Withdrawn(Bytes),
    /// An answer of several; more follow, or at least the end.
    Part(Bytes),
    /// Some bytes of an answer that is too long to be held, for [those](Call::in_pieces) who take them; `None` where it
    /// breaks off. Nothing but more of them follows, and the end, which is no answer.
    Piece(Option<Bytes>),
    /// The answer, or the last of several; `None` where the client has cancelled and wants none. Nothing follows.
    Answer(Option<Bytes>),
}

/// What a call wants to tell before its answer. The call and its reader are polled by the same task in turn, so nobody
/// needs waking.
#[derive(Debug, Default)]
pub(super) struct Asides {
    queue: Mutex<VecDeque<Step>>,
    /// Nobody reads any more.
    unheard: AtomicBool,
    /// A long answer may come in pieces.
    in_pieces: AtomicBool,
    /// Whose server asks the client, if one has.
    asker: OnceLock<Arc<Upstream>>,
}

/// A call that tells more than this between two polls waits until it has been read.
const ROOM: usize = 64;

impl Asides {
    /// Puts `message` out, once there is room.
    pub(super) async fn push(&self, message: Bytes) {
        self.put(Step::Aside(message)).await;
    }

    /// Asks the client, once there is room.
    pub(super) async fn ask(&self, request: Bytes) {
        self.put(Step::Asked(request)).await;
    }

    /// Takes back what the client was asked, once there is room.
    pub(super) async fn withdraw(&self, notification: Bytes) {
        self.put(Step::Withdrawn(notification)).await;
    }

    /// Tells some bytes of a long answer, once those before have been taken.
    pub(super) async fn piece(&self, piece: Option<Bytes>) {
        self.put_within(1, Step::Piece(piece)).await;
    }

    async fn put(&self, step: Step) {
        self.put_within(ROOM, step).await;
    }

    async fn put_within(&self, room: usize, step: Step) {
        let mut step = Some(step);
        std::future::poll_fn(|_| {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.len() >= room {
                return Poll::Pending; // polled again when the reader has emptied the queue
            }
            queue.extend(step.take());
            Poll::Ready(())
        })
        .await;
    }

    /// Whether anybody may read it.
    pub(super) fn heard(&self) -> bool {
        !self.unheard.load(Ordering::Relaxed)
    }

    /// Whether a long answer may come in pieces.
    pub(super) fn takes_pieces(&self) -> bool {
        self.in_pieces.load(Ordering::Relaxed)
    }

    /// Notes whose server asks.
    pub(super) fn asked_by(&self, upstream: &Arc<Upstream>) {
        drop(self.asker.set(upstream.clone()));
    }

    fn pop(&self) -> Option<Step> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Call {
    /// A call that `run` answers; it starts at the first poll.
    pub(super) fn start<F>(tasks: &TaskTracker, run: impl FnOnce(Arc<Asides>) -> F) -> Self
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        let asides = Arc::new(Asides::default());
        let answer = Some(Box::pin(run(asides.clone())) as Running);
        Self { run: Some(Run { answer, asides, last: None, guard: None }), tasks: tasks.clone() }
    }

    /// The same, for the request `id`: should it panic, that is answered with an error, and counted.
    pub(super) fn guarded(mut self, id: Bytes, metrics: &Arc<Metrics>) -> Self {
        if let Some(run) = &mut self.run {
            run.guard = Some((id, metrics.clone()));
        }
        self
    }

    /// Whoever reads takes a long answer in pieces.
    #[must_use]
    pub fn in_pieces(self) -> Self {
        if let Some(run) = &self.run {
            run.asides.in_pieces.store(true, Ordering::Relaxed);
        }
        self
    }

    /// Whose server asks the client, if one has.
    pub(super) fn asker(&self) -> Option<Arc<Upstream>> {
        self.run.as_ref()?.asides.asker.get().cloned()
    }

    /// Calls side by side as one, each of whose answers is a step; `None` for no calls.
    pub fn join(calls: Vec<Self>) -> Option<Self> {
        let tasks = calls.first()?.tasks.clone();
        Some(Self::start(&tasks, |asides| together(calls, asides)))
    }

    /// The next step.
    pub async fn step(&mut self) -> Step {
        std::future::poll_fn(|cx| self.poll_step(cx)).await
    }

    /// As [`step`](Self::step), for bodies.
    pub fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        match &mut self.run {
            Some(run) => run.poll_step(cx),
            None => Poll::Pending,
        }
    }

    /// Lets it go on by itself, whoever reads, and its steps onto a stream of `session`, after those it has `told` already.
    /// `request` is its raw id, if it answers one request.
    pub fn keep(mut self, session: &Arc<Session>, request: Option<&[u8]>, told: Vec<Bytes>) -> Follower {
        let (feed, follower) = session.stream(request);
        for message in told {
            feed.add(message);
        }
        if let Some(run) = self.run.take() {
            run.asides.in_pieces.store(false, Ordering::Relaxed); // what can be resumed is kept whole
            self.tasks.spawn(run.feed(feed));
        }
        follower
    }
}

impl Run {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(aside) = self.asides.pop() {
            return Poll::Ready(aside);
        }
        if let Some(running) = &mut self.answer {
            // One call's bug must not end what else runs on this connection, or in this task.
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
            if let Poll::Ready(answer) = polled.unwrap_or_else(|_| Poll::Ready(self.panicked())) {
                self.answer = None;
                self.last = Some(Step::Answer(answer));
            }
            if let Some(aside) = self.asides.pop() {
                return Poll::Ready(aside);
            }
        }
        match self.last.take() {
            Some(last) => Poll::Ready(last),
            None => Poll::Pending,
        }
    }

    fn panicked(&self) -> Option<Bytes> {
        tracing::error!("a call panicked: this is a bug; its client is told, and nothing else is touched");
        let (id, metrics) = self.guard.as_ref()?;
        metrics.panicked();
        Some(wire::error(
            Some(id),
            Code::Internal,
            "this call met a bug of ours; it may or may not have taken effect",
        ))
    }

    async fn step(&mut self) -> Step {
        std::future::poll_fn(|cx| self.poll_step(cx)).await
    }

    /// Runs to the end and puts everything onto a stream.
    async fn feed(mut self, feed: Feed) {
        loop {
            match self.step().await {
                Step::Aside(message)
                | Step::Asked(message)
                | Step::Withdrawn(message)
                | Step::Part(message) => {
                    feed.push(message).await;
                }
                Step::Piece(_) => {} // none come here
                Step::Answer(answer) => return feed.end(answer),
            }
        }
    }

    /// Runs to the end for nobody.
    async fn finish(mut self) {
        self.asides.unheard.store(true, Ordering::Relaxed);
        while !matches!(self.step().await, Step::Answer(_)) {}
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(run) = self.run.take().filter(|run| run.answer.is_some()) else { return };
        // Without a runtime there is nothing left that could answer.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.tasks.spawn(run.finish());
        }
    }
}

/// Polls all of `calls` to their ends. The last answer is returned, the others are steps like the calls' asides.
async fn together(mut calls: Vec<Call>, asides: Arc<Asides>) -> Option<Bytes> {
    loop {
        match std::future::poll_fn(|cx| poll_any(&mut calls, cx)).await {
            Step::Answer(answer) if calls.is_empty() => return answer,
            Step::Answer(None) => {}
            Step::Answer(Some(answer)) => asides.put(Step::Part(answer)).await,
            step
            @ (Step::Aside(_) | Step::Asked(_) | Step::Withdrawn(_) | Step::Part(_) | Step::Piece(_)) => {
                asides.put(step).await;
            }
        }
    }
}

/// The next step of one of `calls`, each in its turn; with its answer a call is taken out.
fn poll_any(calls: &mut Vec<Call>, cx: &mut Context<'_>) -> Poll<Step> {
    let ready = calls.iter_mut().enumerate().find_map(|(place, call)| match call.poll_step(cx) {
        Poll::Ready(step) => Some((place, step)),
        Poll::Pending => None,
    });
    let Some((place, step)) = ready else { return Poll::Pending };
    calls.rotate_left(place);
    if matches!(step, Step::Answer(_)) {
        calls.remove(0);
    } else {
        calls.rotate_left(1);
    }
    Poll::Ready(step)
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("running", &self.run.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::metrics::Metrics;
    use crate::session::{Agreed, Keyring, Sessions, Told};

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

    #[tokio::test]
    async fn a_kept_call_goes_on_without_a_reader() {
        let sessions = Sessions::new(&Limits::default(), Arc::new(Keyring::random()), Metrics::new("test"));
        let agreed =
            Agreed { revision: "2025-11-25".into(), capabilities: "{}".into(), client: String::new() };
        let session = sessions.open("", agreed).unwrap();
        let tasks = TaskTracker::new();
        let call = Call::start(&tasks, |asides| async move {
            for n in 1..=1000 {
                asides.push(n.to_string().into()).await;
            }
            Some("end".into())
        });
        let follower = call.keep(&session, Some(b"1"), vec!["0".into()]);
        let start = follower.mark();
        drop(follower);
        tasks.close();
        tasks.wait().await;
        let crate::session::Resumed::Stream(mut follower) = session.resume(&start) else { panic!() };
        for n in 0..=1000_u64 {
            let message = n.to_string().into();
            assert_eq!(follower.next().await, Some(Told::Message { number: n + 1, message, last: false }));
        }
        let end = Told::Message { number: 1002, message: "end".into(), last: true };
        assert_eq!((follower.next().await, follower.next().await), (Some(end), None));
    }

    #[tokio::test]
    async fn joined_calls_run_side_by_side_and_tell_everything() {
        let tasks = TaskTracker::new();
        let (go, wait) = tokio::sync::oneshot::channel();
        let first = Call::start(&tasks, |asides| async move {
            asides.push("aside".into()).await;
            wait.await.unwrap();
            for _ in 0..1000 {
                asides.push("more".into()).await;
            }
            Some("first".into())
        });
        let second = Call::start(&tasks, |_| async { Some("second".into()) });
        let cancelled = Call::start(&tasks, |_| async { None });
        let mut all = Call::join(vec![first, second, cancelled]).unwrap();
        assert_eq!(all.step().await, Step::Aside("aside".into()));
        assert_eq!(all.step().await, Step::Part("second".into()), "it does not wait for the first");
        go.send(()).unwrap();
        for _ in 0..1000 {
            assert_eq!(all.step().await, Step::Aside("more".into()));
        }
        assert_eq!(all.step().await, Step::Answer(Some("first".into())));
        assert!(Call::join(Vec::new()).is_none());
    }
}
