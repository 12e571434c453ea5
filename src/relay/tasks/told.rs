//! How tasks are, told to a client that listens: they are looked at in its place, as often as their servers want, so it
//! works for servers of both eras and over every transport.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::mcp::{Shown, Task, TaskStatus, method, task_notice};
use crate::relay::call::Step;
use crate::relay::{Caller, Relay, tasks};
use crate::wire::{Kind, Message, notification, quoted};

/// Most tasks that one stream tells of.
const MOST: usize = 64;
/// What waits to be read of them.
const ROOM: usize = 16;
/// How often to look where the server does not say.
const USUAL: Duration = Duration::from_secs(1);
/// Bounds of what it says.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(30);

/// Tasks that are looked at, until it is dropped.
#[derive(Debug, Default)]
pub(in crate::relay) struct Looking {
    told: Option<mpsc::Receiver<Bytes>>,
    _looking: JoinSet<()>,
}

impl Looking {
    /// The next notification; never ends. Cancel-safe.
    pub(in crate::relay) async fn next(&mut self) -> Bytes {
        match &mut self.told {
            Some(told) => match told.recv().await {
                Some(message) => message,
                None => std::future::pending().await, // all have ended
            },
            None => std::future::pending().await,
        }
    }
}

impl Relay {
    /// Looks at those of `tasks` that are ours, for `caller`, who wants to hear of them by its request `listen`. Gives their
    /// ids.
    pub(in crate::relay) fn look_at_tasks(
        self: &Arc<Self>,
        caller: &Caller,
        listen: &Message,
        tasks: Vec<Box<str>>,
    ) -> (Vec<Box<str>>, Looking) {
        let snapshot = self.fleet.snapshot();
        let is_known = |id: &str| {
            let server = self.server_of_task(caller.session.principal(), id);
            server.is_some_and(|server| snapshot.catalog.servers(&caller.view).any(|name| *name == server))
        };
        let known: Vec<_> = tasks.into_iter().filter(|id| is_known(id)).take(MOST).collect();
        if known.is_empty() {
            return (known, Looking::default());
        }
        let (tell, told) = mpsc::channel(ROOM);
        let meta = listen.params_members(["_meta"]).ok().and_then(|[at]| listen.slice(at?)).unwrap_or("{}");
        let mut looking = JoinSet::new();
        for (number, id) in known.iter().enumerate() {
            let look = format!(
                r#"{{"jsonrpc":"2.0","id":"trunkline-look-{number}","method":"{}","params":{{"taskId":{},"_meta":{meta}}}}}"#,
                method::TASKS_GET,
                quoted(id)
            );
            let (view, shown, handed) = (caller.view.clone(), Shown::default(), caller.handed.clone());
            let caller = Caller { session: caller.session.clone(), view, events: false, shown, handed };
            looking.spawn(self.clone().look(caller, look.into(), tell.clone()));
        }
        (known, Looking { told: Some(told), _looking: looking })
    }

    /// Looks at a task by the request `look` until it has ended, and tells of what is new.
    async fn look(self: Arc<Self>, caller: Caller, look: Bytes, tell: mpsc::Sender<Bytes>) {
        let mut before = String::new();
        while let Some((task, now)) = self.look_once(&caller, &look).await {
            if now != before {
                if tell.send(notification(method::TASKS_TOLD, &now)).await.is_err() {
                    return;
                }
                before = now;
            }
            if !matches!(task.status, TaskStatus::Working | TaskStatus::InputRequired) {
                return;
            }
            sleep(task.pause.unwrap_or(USUAL).clamp(OFTEN, SELDOM)).await;
        }
    }

    /// The task and what a notification says of it; `None` where it is not there, or nobody can say.
    async fn look_once(self: &Arc<Self>, caller: &Caller, look: &Bytes) -> Option<(Task, String)> {
        let look = Message::parse(look.clone(), usize::MAX).ok()?;
        let mut call = self.started(caller, look, false, None, tasks::about).ok()?;
        let answer = loop {
            if let Step::Answer(answer) = call.step().await {
                break answer?;
            }
        };
        let answer = Message::parse(answer, usize::MAX).ok()?;
        let result = answer.body().filter(|_| answer.kind() == Kind::Result)?;
        Some((Task::read(result)?, task_notice(result)))
    }
}
