//! Tasks of 2025-11-25 for clients that take those of the extension: a tool that only runs as a task is started as one,
//! and the client looks at it, answers what it asks for and cancels it in its own words.

use std::sync::Arc;

use bytes::Bytes;

use super::awaited::Question;
use super::started;
use crate::catalog::Route;
use crate::config::{Scope, Server};
use crate::mcp::{
    Revision, TASKS_EXTENSION, Task, TaskStatus, error_for, input_params, lacking, method, task_members,
    without_related,
};
use crate::relay::forward::{Answered, Broken};
use crate::relay::refusal::Refusal;
use crate::relay::request::Request;
use crate::upstream::Upstream;
use crate::wire::{self, Code, Kind, Message, members, quoted};

impl Request {
    /// Answers a modern client's `tasks/get`, `tasks/update` or `tasks/cancel`; `None` where the client cancelled it.
    pub(in crate::relay) async fn about_task(&self) -> Option<Bytes> {
        if !self.takes_tasks() {
            let text = format!("{} is for clients that declare tasks", self.message.method());
            let data = lacking(TASKS_EXTENSION);
            return Some(wire::error_with(Some(&self.id), Code::MissingCapability, &text, &data));
        }
        let (snapshot, found) = self.find().await;
        let route = match found {
            Ok(route) => route,
            Err(refusal) => return self.refuse(&refusal),
        };
        let Some(upstream) = snapshot.upstreams.get(&route.server) else {
            return self.refuse(&Refusal::UnknownTask(self.name.clone()));
        };
        if upstream.hello().is_none_or(|hello| hello.revision.is_modern()) {
            return self.run(upstream, &route).await;
        }
        let (server, count) = (upstream.server(), self.count(upstream));
        let answer = match self.message.method() {
            method::TASKS_UPDATE => {
                match self.errand.relay.awaited.deliver(self.whose(), &route, &self.message) {
                    Ok(()) => own("{}"),
                    Err(refusal) => return self.refuse(&refusal),
                }
            }
            method::TASKS_CANCEL => self.stopped(upstream, &server, &route).await,
            _ => self.detailed(upstream, &server, &route).await,
        };
        self.end(count, upstream, &server, &route, answer)
    }

    /// Whether others than the client that started it can reach a task of `server`.
    pub(in crate::relay) fn shares_tasks(server: &Server) -> bool {
        !server.interactive && !matches!(server.scope, Scope::Session | Scope::Request)
    }

    /// Starts the tool as a task, and answers with that.
    pub(in crate::relay) async fn start_task(
        &self,
        upstream: &Arc<Upstream>,
        route: &Route,
    ) -> Option<Bytes> {
        let (server, count) = (upstream.server(), self.count(upstream));
        let write = |to, id| self.write_as_task(route, to, id, server.max_total);
        let answer = match self.forward(upstream, &server, server.timeout, &write).await {
            Ok(answered) => match created(&answered.message) {
                Some(created) => own(&created),
                None => Ok(answered),
            },
            broken => broken,
        };
        self.end(count, upstream, &server, route, answer)
    }

    /// The task as it is, with what it has come to or asks for.
    async fn detailed(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        route: &Route,
    ) -> Result<Answered, Broken> {
        let id = String::from_utf8_lossy(&route.name);
        let look = |to, number| self.of_theirs(method::TASKS_GET, &id, "", to, number);
        let answer = self.forward(upstream, server, server.timeout, &look).await?;
        let body = answer.message.body().filter(|_| answer.message.kind() == Kind::Result);
        let Some((text, task)) = body.and_then(|body| Some((body, Task::read(body)?))) else {
            return Ok(answer);
        };
        let (status, more) = match task.status {
            TaskStatus::Working => ("working", String::new()),
            TaskStatus::Cancelled => ("cancelled", String::new()),
            TaskStatus::Completed | TaskStatus::Failed => {
                let fetch = |to, number| self.of_theirs(method::TASKS_RESULT, &id, "", to, number);
                let came = self.forward(upstream, server, server.timeout, &fetch).await?;
                self.ended(&came)
            }
            TaskStatus::InputRequired => {
                let asked = self.errand.relay.asked_by_task(self, upstream, route).await;
                // Nobody could answer what is not there yet.
                if asked.is_empty() {
                    ("working", String::new())
                } else {
                    ("input_required", requests(&asked))
                }
            }
        };
        own(&format!("{{{}{more}}}", task_members(text, &id, &quoted(status))))
    }

    /// What a task has come to: a result that says it failed is one all the same.
    fn ended(&self, came: &Answered) -> (&'static str, String) {
        let body = came.message.body().unwrap_or_default();
        if came.message.kind() == Kind::Result {
            return ("completed", format!(r#","result":{}"#, without_related(body)));
        }
        let error = error_for(body, came.from, self.speaks(), None);
        ("failed", format!(r#","error":{}"#, error.as_deref().unwrap_or(body)))
    }

    /// The client does not want the task any more. One that has ended is as good as cancelled.
    async fn stopped(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        route: &Route,
    ) -> Result<Answered, Broken> {
        let id = String::from_utf8_lossy(&route.name);
        let stop = |to, number| self.of_theirs(method::TASKS_CANCEL, &id, "", to, number);
        let mut answer = self.forward(upstream, server, server.timeout, &stop).await?;
        if answer.message.kind() == Kind::Error {
            let look = |to, number| self.of_theirs(method::TASKS_GET, &id, "", to, number);
            answer = self.forward(upstream, server, server.timeout, &look).await?;
        }
        if answer.message.kind() == Kind::Error { Ok(answer) } else { own("{}") }
    }
}

/// A result of ours as if a server of the client's revision had given it.
fn own(result: &str) -> Result<Answered, Broken> {
    let message = Message::parse(wire::response(b"0", result.as_bytes()), usize::MAX);
    let message = message.map_err(|why| Broken::Refused(why.to_string()))?;
    Ok(Answered { message, from: Revision::LATEST, rest: None })
}

/// The result that says a task was started, in the words of the extension.
fn created(answer: &Message) -> Option<String> {
    let (id, result) = (started(answer)?, answer.body()?);
    let task = members(result, ["task"]).ok().and_then(|[at]| result.get(at?))?;
    let status = members(task, ["status"]).ok().and_then(|[at]| task.get(at?)).unwrap_or(r#""working""#);
    Some(format!(r#"{{"resultType":"task",{}}}"#, task_members(task, id, status)))
}

/// What a task asks for, as a further member of it.
fn requests(asked: &[Question]) -> String {
    let one = |question: &Question| {
        let request = &question.request;
        let params = request.params().map(|params| format!(r#","params":{}"#, input_params(params)));
        let (key, method) = (quoted(&question.key), quoted(request.method()));
        format!(r#"{key}:{{"method":{method}{}}}"#, params.unwrap_or_default())
    };
    format!(r#","inputRequests":{{{}}}"#, asked.iter().map(one).collect::<Vec<_>>().join(","))
}
