//! Tasks of 2025-11-25 (specification, `basic/utilities/tasks`): whose they are, and their ids, which say so.
//!
//! A client knows a task by an id of ours, in which the server and its own id are sealed: so no state is needed to find a
//! task, and no client can ask for one that it was not given.

mod awaited;
mod converted;
mod modern;
mod told;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use indexmap::IndexSet;

pub(super) use awaited::Awaited;
pub(super) use told::Looking;

use super::Relay;
use super::answer::own_result;
use super::forward::Broken;
use super::refusal::Refusal;
use super::request::{Errand, Request, Subject};
use crate::catalog::Route;
use crate::fleet::Snapshot;
use crate::mcp::{Letter, method};
use crate::names::ServerName;
use crate::session::Session;
use crate::wire::{self, Kind, Message, Span, elements, members, quoted};

/// The member of `_meta` that says to which task a message belongs.
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// What ids are sealed for.
const PURPOSE: &str = "task";
/// Most tasks of one session that are remembered, the newest.
const MOST: usize = 256;
/// Most pages of one server's tasks that are looked at.
const PAGES: usize = 16;

/// Answers `tasks/get`, `tasks/result`, `tasks/update` and `tasks/cancel`; `None` where the client cancelled it.
pub(super) async fn about(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    match Request::read(errand, message, Subject::Task, "taskId") {
        Ok(request) if request.is_modern => Box::pin(request.about_task()).await,
        Ok(request) => request.go().await,
        Err(refusal) => Some(refusal.answer(Some(&id))),
    }
}

/// Answers `tasks/list` with the tasks of this session, all on one page; `None` where the client cancelled it.
pub(super) async fn list(errand: Errand, message: Message) -> Option<Bytes> {
    let id = message.id().unwrap_or_default();
    let request = match Request::read_unknown(errand, message) {
        Ok(request) => request,
        Err(refusal) => return Some(refusal.answer(Some(&id))),
    };
    match request.message.params_members(["cursor"]) {
        Ok([cursor]) if cursor.clone().is_none_or(|at| request.message.slice(at) == Some("null")) => {}
        Ok(_) => return request.refuse(&Refusal::BadCursor),
        Err(bad) => return request.refuse(&Refusal::BadParams(bad.to_string())),
    }
    let snapshot = request.errand.relay.fleet.snapshot();
    let mut tasks = Vec::new();
    for server in request.known().servers() {
        match request.tasks_of(&snapshot, &server, &mut tasks).await {
            Err(Broken::Cancelled) => return None,
            Err(_) => tracing::debug!(%server, "its tasks cannot be listed now"),
            Ok(()) => {}
        }
    }
    Some(own_result(request.speaks(), &id, &format!(r#"{{"tasks":[{}]}}"#, tasks.join(","))))
}

/// The tasks that one session started, by server and the server's own id, raw.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<IndexSet<(ServerName, Box<str>)>>);

impl Ledger {
    const HELD: &str = "tasks";

    /// Whether `session` started the task.
    pub(super) fn owns(session: &Session, server: &ServerName, raw: &str) -> bool {
        session.held::<Arc<Self>>(Self::HELD).is_some_and(|ledger| ledger.has(server, raw))
    }

    /// That of `session`.
    fn of(session: &Session) -> Arc<Self> {
        let known = || session.held::<Arc<Self>>(Self::HELD);
        known().unwrap_or_else(|| {
            session.hold(Self::HELD, Arc::<Self>::default());
            known().unwrap_or_default() // where it holds too much
        })
    }

    fn add(&self, server: &ServerName, raw: &str) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= MOST {
            tasks.shift_remove_index(0);
        }
        tasks.insert((server.clone(), raw.into()));
    }

    fn has(&self, server: &ServerName, raw: &str) -> bool {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().any(|(of, id)| of == server && **id == *raw)
    }

    fn servers(&self) -> IndexSet<ServerName> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().map(|(server, _)| server.clone()).collect()
    }
}

/// A session's principal, as others know it.
pub(super) type Whose<'a> = Option<&'a Arc<str>>;

/// What ids of tasks are sealed for that are `whose`: nobody else's id opens.
fn purpose(whose: Whose<'_>) -> Cow<'static, str> {
    whose.map_or(Cow::Borrowed(PURPOSE), |principal| Cow::Owned(format!("{PURPOSE} {principal}")))
}

impl Relay {
    /// The id, as JSON, under which clients of `whose` know the task that `server` knows by the id `raw`, JSON as well.
    fn seal_task(&self, whose: Whose<'_>, server: &ServerName, raw: &str) -> String {
        quoted(&format!("t{}", self.keys.name(&purpose(whose), format!("{server}\n{raw}").as_bytes())))
    }

    /// Whose server's task an id of ours is, and the server's own id as JSON.
    fn open_task(&self, whose: Whose<'_>, id: &str) -> Option<(ServerName, String)> {
        let plain = self.keys.named(&purpose(whose), id.strip_prefix('t')?)?;
        let (server, raw) = std::str::from_utf8(&plain).ok()?.split_once('\n')?;
        Some((ServerName::expose(server), raw.to_owned()))
    }

    /// Whose server's task an id of ours is.
    pub(super) fn server_of_task(&self, whose: Whose<'_>, id: &str) -> Option<ServerName> {
        self.open_task(whose, id).map(|(server, _)| server)
    }

    /// `message` of `server` with our ids of tasks in it, if it has any.
    pub(super) fn seal_tasks(
        &self,
        whose: Whose<'_>,
        server: &ServerName,
        message: &Message,
    ) -> Option<Message> {
        self.replaced(message, |raw| raw.starts_with('"').then(|| self.seal_task(whose, server, raw)))
    }

    /// A client's `message` with servers' own ids of tasks in it, if it has any of ours.
    pub(super) fn open_tasks(&self, whose: Whose<'_>, message: &Message) -> Option<Message> {
        self.replaced(message, |raw| Some(self.open_task(whose, &wire::Text::of(raw)?)?.1))
    }

    fn replaced(&self, message: &Message, other: impl Fn(&str) -> Option<String>) -> Option<Message> {
        let places = places(message);
        let with = |at: Span| Some((at.clone(), other(message.slice(at)?)?));
        let found: Vec<_> = places.into_iter().filter_map(with).collect();
        if found.is_empty() {
            return None;
        }
        let mut edits: Vec<_> = found.iter().map(|(at, with)| (at.clone(), with.as_bytes())).collect();
        Message::parse(message.splice(&mut edits), self.fleet.limits().json_depth).ok()
    }

    /// Where the task goes that a client knows as `id`, if its server is in the client's view.
    pub(super) fn task(&self, snapshot: &Snapshot, request: &Request) -> Option<Route> {
        let (server, raw) = self.open_task(request.whose(), &request.name)?;
        let inside = snapshot.catalog.servers(&request.errand.view).any(|name| *name == server);
        inside.then(|| Route::to(server, raw.into()))
    }
}

/// Where ids of tasks stand in the params or the result of a message.
fn places(message: &Message) -> Vec<Span> {
    let mut found = Vec::new();
    if memchr::memmem::find(message.text(), b"\"taskId\"").is_none() {
        return found;
    }
    let Some(all) = message.params_span().or(message.body_span()) else { return found };
    let Ok([id, task, tasks, meta]) = message.members_at(all, ["taskId", "task", "tasks", "_meta"]) else {
        return found;
    };
    let member = |at: Span, key| message.members_at(at, [key]).ok().and_then(|[found]| found);
    found.extend(id);
    found.extend(task.and_then(|task| member(task, "taskId")));
    found.extend(meta.and_then(|meta| member(member(meta, RELATED)?, "taskId")));
    for inner in tasks.iter().flat_map(|at| elements(message.slice(at.clone()).unwrap_or_default())).flatten()
    {
        let start = tasks.as_ref().map_or(0, |at| at.start);
        found.extend(member(inner.start + start..inner.end + start, "taskId"));
    }
    found
}

/// The server's own id of the task that a result says was started, raw.
pub(super) fn started(answer: &Message) -> Option<&str> {
    let result = answer.body().filter(|_| answer.kind() == Kind::Result)?;
    let [task] = members(result, ["task"]).ok()?;
    let task = result.get(task?)?;
    let [id] = members(task, ["taskId"]).ok()?;
    task.get(id?).filter(|raw| raw.starts_with('"'))
}

impl Request {
    /// The tasks of the session.
    fn known(&self) -> Arc<Ledger> {
        Ledger::of(self.errand.guard.session())
    }

    /// Remembers the task that an answer of `server` says was started, if it does.
    pub(super) fn note_task(&self, server: &ServerName, answer: &Message) {
        if let Some(raw) = started(answer) {
            self.known().add(server, raw);
        }
    }

    /// Puts those tasks of `server` that are this session's into `tasks`, under our ids.
    async fn tasks_of(
        &self,
        snapshot: &Snapshot,
        server: &ServerName,
        tasks: &mut Vec<String>,
    ) -> Result<(), Broken> {
        let Some(upstream) = snapshot.upstreams.get(server) else { return Ok(()) };
        if upstream.hello().is_some_and(|hello| !hello.offers.tasks_list) {
            return Ok(());
        }
        let (settings, known) = (upstream.server(), self.known());
        let mut params = "{}".to_owned();
        for _ in 0..PAGES {
            let write = |_, id| Letter::plain(wire::request(id, method::TASKS_LIST, &params));
            let answer = self.forward(upstream, &settings, settings.timeout, &write).await?.message;
            let page = answer.body().filter(|_| answer.kind() == Kind::Result).unwrap_or("{}");
            let [list, cursor] = members(page, ["tasks", "nextCursor"]).unwrap_or_default();
            let list = list.and_then(|list| page.get(list)).unwrap_or("[]");
            for task in elements(list).unwrap_or_default().into_iter().filter_map(|at| list.get(at)) {
                let at = members(task, ["taskId"]).ok().and_then(|[id]| id);
                let Some((at, raw)) = at.and_then(|at| Some((at.clone(), task.get(at)?))) else { continue };
                if let (true, Some((before, after))) = (known.has(server, raw), around(task, &at)) {
                    tasks.push(format!(
                        "{before}{}{after}",
                        self.errand.relay.seal_task(self.whose(), server, raw)
                    ));
                }
            }
            match cursor.and_then(|cursor| page.get(cursor)).filter(|cursor| *cursor != "null") {
                Some(cursor) => params = format!(r#"{{"cursor":{cursor}}}"#),
                None => break,
            }
        }
        Ok(())
    }
}

fn around<'t>(text: &'t str, at: &Span) -> Option<(&'t str, &'t str)> {
    Some((text.get(..at.start)?, text.get(at.end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_id_of_a_task() {
        let found = |text: &str| {
            let message = Message::parse(Bytes::copy_from_slice(text.as_bytes()), 16).unwrap();
            places(&message).into_iter().map(|at| message.slice(at).unwrap().to_owned()).collect::<Vec<_>>()
        };
        let result = |result: &str| found(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
        assert_eq!(result(r#"{"task":{"taskId":"a","status":"working"}}"#), [r#""a""#]);
        assert_eq!(result(r#"{"taskId":"a","status":"working"}"#), [r#""a""#]);
        assert_eq!(result(r#"{"tasks":[{"taskId":"a"},{},7,{"taskId":"b"}]}"#), [r#""a""#, r#""b""#]);
        assert_eq!(
            result(r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}"#),
            [r#""a""#]
        );
        assert!(result(r#"{"content":[{"text":"\"taskId\"","taskId":1}]}"#).is_empty());
        assert!(result(r#"[{"taskId":1}]"#).is_empty());
        let params = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}"#;
        assert_eq!(found(params), [r#""a""#]);
    }

    #[test]
    fn remembers_the_newest_tasks() {
        let (ledger, server) = (Ledger::default(), ServerName::expose("s"));
        for n in 0..=MOST {
            ledger.add(&server, &n.to_string());
        }
        assert!(!ledger.has(&server, "0") && ledger.has(&server, "1"));
        assert!(ledger.has(&server, &MOST.to_string()) && !ledger.has(&ServerName::expose("t"), "1"));
        assert_eq!(ledger.servers().len(), 1);
    }
}
