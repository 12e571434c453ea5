//! Tasks of 2025-11-25 that ask their clients for something. They do that only while somebody waits for what comes of
//! them, so for clients that do not wait we do.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::Whose;
use crate::catalog::Route;
use crate::mcp::{Retry, Shown, method};
use crate::metrics::Held;
use crate::names::ServerName;
use crate::relay::call::{Call, Step};
use crate::relay::hold::answers;
use crate::relay::hold::{Holds, Room};
use crate::relay::request::{Errand, Request, Subject};
use crate::relay::{Caller, Refusal, Relay};
use crate::session::Session;
use crate::upstream::Upstream;
use crate::wire::{self, Code, Message, quoted};

/// How long a look at a task waits for what it asks for.
const GATHER: Duration = Duration::from_millis(500);
/// Questions of one task that are open; more are refused.
const MOST: usize = 64;
/// JSON of ours and what was read once already.
const DEPTH: usize = usize::MAX;
/// The id of our wait, as its session knows it. Clients' own ids in that session are of other requests.
const ID: &str = "trunkline-task";

/// The tasks that are waited for, by server and its raw id.
#[derive(Debug, Default)]
pub(in crate::relay) struct Awaited(Mutex<HashMap<Key, Arc<Open>>>);

/// Whose task it is as well: servers that each caller reaches by himself may give two callers the same id.
type Key = (ServerName, Option<Arc<str>>, Bytes);

/// A task that is waited for.
#[derive(Debug)]
struct Open {
    /// In whose name.
    session: Arc<Session>,
    asked: watch::Sender<Vec<Question>>,
    /// At random.
    mark: u128,
    /// When a client last looked at it.
    seen: Mutex<Instant>,
}

/// Something that a task asks for.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Question {
    /// Its name for the client, never used again.
    pub(in crate::relay) key: Box<str>,
    /// What is asked, under the id that the wait has for it.
    pub(in crate::relay) request: Message,
}

impl Relay {
    /// What the task at `route` of `upstream` asks for, which it says it does.
    pub(in crate::relay) async fn asked_by_task(
        self: &Arc<Self>,
        request: &Request,
        upstream: &Arc<Upstream>,
        route: &Route,
    ) -> Vec<Question> {
        let Some(open) = self.wait_for_task(request, upstream, route) else { return Vec::new() };
        open.look();
        let mut asked = open.asked.subscribe();
        let some = timeout(GATHER, asked.wait_for(|asked| !asked.is_empty())).await;
        drop(some);
        open.asked.borrow().clone()
    }

    /// Waits for what comes of the task, unless somebody does already, or too many are waited for.
    fn wait_for_task(
        self: &Arc<Self>,
        request: &Request,
        upstream: &Arc<Upstream>,
        route: &Route,
    ) -> Option<Arc<Open>> {
        let mut all = self.awaited.all();
        let entry = match all.entry((route.server.clone(), request.whose().cloned(), route.name.clone())) {
            Entry::Occupied(entry) => return Some(entry.get().clone()),
            Entry::Vacant(entry) => entry,
        };
        let room = self.holds.room(upstream)?;
        let (session, view) = (request.errand.guard.session().clone(), request.errand.view.clone());
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":"{ID}","method":"{}","params":{{"taskId":{}}}}}"#,
            method::TASKS_RESULT,
            quoted(&request.name)
        );
        let message = Message::parse(text.into(), DEPTH).ok()?;
        let (shown, handed) = (Shown::default(), request.errand.handed.clone());
        let caller = Caller { session: session.clone(), view, events: true, shown, handed };
        let (upstream, way) = (upstream.clone(), route.clone());
        let run = move |errand, message| wait(errand, message, upstream, way);
        let call = self.started(&caller, message, true, None, run).ok()?;
        let (asked, seen) = (watch::Sender::default(), Mutex::new(Instant::now()));
        let mark = Holds::number() & 0xffff_ffff;
        let (key, open) = (entry.key().clone(), Arc::new(Open { session, asked, mark, seen }));
        entry.insert(open.clone());
        self.orphans.spawn(self.clone().attend(key, open.clone(), call, room));
        Some(open)
    }

    /// Goes on with the wait until the task has ended, or no client looks at it any more.
    async fn attend(self: Arc<Self>, key: Key, open: Arc<Open>, mut call: Call, room: Room) {
        let mut last = 0;
        let result = loop {
            let until = open.seen() + self.holds.time();
            tokio::select! {
                step = call.step() => match step {
                    Step::Aside(_) | Step::Part(_) | Step::Piece(_) => {}
                    Step::Asked(question) => open.ask(question, &mut last),
                    Step::Withdrawn(notification) => open.withdraw(notification),
                    Step::Answer(_) => break Held::Ended,
                },
                () = sleep_until(until) => {
                    if open.seen() + self.holds.time() <= until {
                        break Held::Abandoned;
                    }
                }
                () = self.holds.closed() => break Held::Abandoned,
            }
        };
        self.awaited.all().remove(&key);
        open.session.cancel(format!("\"{ID}\"").as_bytes());
        room.end(result);
    }
}

/// Waits for what comes of a task, for as long as it may take; the client is asked meanwhile.
async fn wait(errand: Errand, message: Message, upstream: Arc<Upstream>, route: Route) -> Option<Bytes> {
    let request = Request::read(errand, message, Subject::Task, "taskId").ok()?;
    request.run(&upstream, &route).await
}

impl Awaited {
    /// Gives the task of `whose` at `route` those answers that a `tasks/update` has. What else it has means nothing.
    pub(in crate::relay) fn deliver(
        &self,
        whose: Whose<'_>,
        route: &Route,
        update: &Message,
    ) -> Result<(), Refusal> {
        let said = Retry::read(update).map_err(Refusal::BadParams)?;
        let said = said.ok_or_else(|| Refusal::BadParams("`inputResponses` is missing".into()))?;
        let key = (route.server.clone(), whose.cloned(), route.name.clone());
        let Some(open) = self.all().get(&key).cloned() else { return Ok(()) };
        let asked = open.asked.borrow().clone();
        let mut answered = Vec::new();
        for (key, at) in said.responses {
            let Some(question) = asked.iter().find(|question| question.key == key) else { continue };
            let (response, wanted) = (update.slice(at).unwrap_or_default(), question.request.method());
            if !answers(wanted, response) {
                let why = format!("`inputResponses`: {} is no result of {wanted}", quoted(&key));
                return Err(Refusal::BadParams(why));
            }
            answered.push((question, response));
        }
        for (question, response) in answered {
            open.asked.send_modify(|asked| asked.retain(|other| other.key != question.key));
            open.tell(&wire::response(&question.request.id().unwrap_or_default(), response.as_bytes()));
        }
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<Open>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn ask(&self, question: Bytes, last: &mut u32) {
        let Ok(request) = Message::parse(question, DEPTH) else { return };
        let known = [method::SAMPLING, method::ELICITATION, method::ROOTS_LIST].contains(&request.method());
        if !known || self.asked.borrow().len() >= MOST {
            let text = "this client cannot be asked that";
            return self.tell(&wire::error(request.id().as_deref(), Code::MethodNotFound, text));
        }
        *last += 1;
        // Another wait for the same task, after a restart of ours, must not use a key again.
        let key = format!("ask-{last}-{:08x}", self.mark).into();
        self.asked.send_modify(|asked| asked.push(Question { key, request }));
    }

    fn withdraw(&self, notification: Bytes) {
        let Ok(told) = Message::parse(notification, DEPTH) else { return };
        let Ok([Some(id)]) = told.params_members(["requestId"]) else { return };
        let id = told.slice(id).unwrap_or_default();
        self.asked.send_modify(|asked| asked.retain(|other| other.request.id().is_none_or(|leg| leg != id)));
    }

    fn tell(&self, answer: &Bytes) {
        if let Ok(answer) = Message::parse(answer.clone(), DEPTH) {
            self.session.answered(answer);
        }
    }

    fn look(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn seen(&self) -> Instant {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
