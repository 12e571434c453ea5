//! A tool of a modern server that only runs as a task, for a client of an older revision, whose tasks are others: we take the
//! task in its place, and see it through.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::Route;
use crate::config::Server;
use crate::mcp::{Round, Task, TaskStatus, method};
use crate::relay::forward::{Answered, Broken};
use crate::relay::request::Request;
use crate::relay::write::Input;
use crate::upstream::Upstream;
use crate::wire::{self, Kind, Message, members, quoted};

/// How often to look where the server does not say.
const USUAL: Duration = Duration::from_secs(1);
/// Bounds of what it says.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(30);

impl Request {
    /// Calls the tool anew as a client that takes tasks, and gives what came of the task.
    pub(in crate::relay) async fn see_through(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        route: &Route,
    ) -> Result<Answered, Broken> {
        let last = Instant::now() + server.max_total;
        self.sees_through.store(true, Ordering::Relaxed);
        let write = |to, id| self.write(route, to, id);
        let first = self.forward(upstream, server, server.timeout, &write).await?;
        let created = self.rounds(upstream, server, server.timeout, route, first).await?;
        let result = created.message.body().filter(|_| created.message.kind() == Kind::Result);
        let started = result.and_then(|result| Some((result, Task::started(result)?)));
        let Some((result, task)) = started else { return Ok(created) };
        let id = result.get(task.id.clone()).unwrap_or_default();
        let done = self.watched(upstream, server, id, task.clone(), last).await;
        if matches!(done, Err(Broken::Cancelled | Broken::Silent(_) | Broken::Overdue(_) | Broken::Ending)) {
            self.end_task(upstream, id);
        }
        done
    }

    /// Looks at the task until it has ended; what it asks for in between the client is asked.
    async fn watched(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        id: &str,
        mut task: Task,
        last: Instant,
    ) -> Result<Answered, Broken> {
        let mut asked: Vec<Box<str>> = Vec::new();
        loop {
            let left = last.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Broken::Overdue(server.max_total));
            }
            // What it asks for is there at once.
            if task.status == TaskStatus::Working {
                self.rest(task.pause.unwrap_or(USUAL).clamp(OFTEN, SELDOM).min(left)).await?;
            }
            let look = |to, number| self.of_theirs(method::TASKS_GET, id, "", to, number);
            let answer = self.forward(upstream, server, server.timeout, &look).await?;
            let detail = answer.message.body().unwrap_or_default();
            if answer.message.kind() == Kind::Error {
                return Ok(answer);
            }
            task = Task::read(detail).ok_or_else(|| Broken::Refused("its task cannot be read".into()))?;
            match task.status {
                TaskStatus::Completed => return Self::outcome(&answer, "result"),
                TaskStatus::Failed => return Self::outcome(&answer, "error"),
                TaskStatus::Cancelled => return Err(Broken::Refused("the server cancelled its task".into())),
                TaskStatus::Working => {}
                TaskStatus::InputRequired => {
                    let mut round = Round::of_task(detail).map_err(Broken::Refused)?;
                    // Keys are good for one answer, and it may take a moment until the server has seen that.
                    round.requests.retain(|request| !asked.contains(&request.key));
                    asked.extend(round.requests.iter().map(|request| request.key.clone()));
                    if round.requests.is_empty() {
                        task.status = TaskStatus::Working;
                        continue;
                    }
                    let said = self.ask_all(self.questions(detail, &round)?, last).await?;
                    let input = Input { responses: said.answers, state: None };
                    let told =
                        |to, number| self.of_theirs(method::TASKS_UPDATE, id, &input.member(), to, number);
                    let told = self.forward(upstream, server, server.timeout, &told).await?;
                    if told.message.kind() == Kind::Error {
                        return Ok(told);
                    }
                }
            }
        }
    }

    /// What came of a task, as if the call had been answered with it.
    fn outcome(detailed: &Answered, key: &str) -> Result<Answered, Broken> {
        let detail = detailed.message.body().unwrap_or_default();
        let raw = members(detail, [key]).ok().and_then(|[at]| detail.get(at?));
        let raw = raw.ok_or_else(|| Broken::Refused(format!("its task has no {}", quoted(key))))?;
        let text = match key {
            "error" => wire::failure(b"0", raw.as_bytes()),
            _ => wire::response(b"0", raw.as_bytes()),
        };
        let message = Message::parse(text, usize::MAX).map_err(|why| Broken::Refused(why.to_string()))?;
        Ok(Answered { message, from: detailed.from, rest: None })
    }
}

impl Input {
    /// The answers as a further member of params.
    fn member(&self) -> String {
        let one = |(key, raw): &(Box<str>, String)| format!("{}:{raw}", quoted(key));
        let all: Vec<_> = self.responses.iter().map(one).collect();
        format!(r#","inputResponses":{{{}}}"#, all.join(","))
    }
}
