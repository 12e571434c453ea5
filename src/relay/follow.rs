//! A tool that only runs as a task, for a client that did not ask for one: we start the task and see it through.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::forward::{Answered, Broken};
use super::request::Request;
use super::tasks::started;
use crate::catalog::Route;
use crate::config::Server;
use crate::mcp::{Letter, Mirror, Revision, enveloped_params, method};
use crate::upstream::{Behalf, Upstream};
use crate::wire::{self, Kind, Message, Text, members};

/// How often to look where the server does not say.
const USUAL: Duration = Duration::from_secs(1);
/// Bounds of what it says.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(30);
/// How long the server may take to end a task that nobody wants any more.
const ENDING: Duration = Duration::from_secs(10);

impl Request {
    /// As [`run`](Self::run), as a task.
    pub(super) async fn run_as_task(&self, upstream: &Arc<Upstream>, route: &Route) -> Option<Bytes> {
        let server = upstream.server();
        let count = self.count(upstream);
        let answer = self.as_task(upstream, &server, route).await;
        self.end(count, upstream, &server, route, answer)
    }

    pub(super) async fn as_task(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        route: &Route,
    ) -> Result<Answered, Broken> {
        let last = Instant::now() + server.max_total;
        let write = |to, id| {
            self.task_token.store(id, Ordering::Relaxed); // its progress goes on after this answer
            self.write_as_task(route, to, id, server.max_total)
        };
        let created = self.forward(upstream, server, server.timeout, &write).await?;
        let Some(task) = started(&created.message) else { return Ok(created) };
        let done = self.follow(upstream, server, task, &created.message, last).await;
        if matches!(done, Err(Broken::Cancelled | Broken::Silent(_) | Broken::Overdue(_) | Broken::Ending)) {
            self.end_task(upstream, task);
        }
        done
    }

    /// Looks at the task until it has ended or its user is asked something, and fetches what came of it. What is asked
    /// comes with that.
    async fn follow(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        task: &str,
        created: &Message,
        last: Instant,
    ) -> Result<Answered, Broken> {
        let mut seen = Seen::read(created.body().and_then(|result| member(result, "task")));
        while seen.working {
            let left = last.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Broken::Overdue(server.max_total));
            }
            self.rest(seen.pause.min(left)).await?;
            let look = |to, id| self.of_theirs(method::TASKS_GET, task, "", to, id);
            let answer = self.forward(upstream, server, server.timeout, &look).await?;
            if answer.message.kind() == Kind::Error {
                return Ok(answer);
            }
            seen = Seen::read(answer.message.body());
        }
        let fetch = |to, id| self.of_theirs(method::TASKS_RESULT, task, "", to, id);
        self.forward(upstream, server, last.saturating_duration_since(Instant::now()), &fetch).await
    }

    /// Tells the server in the background that nobody wants the task any more.
    pub(super) fn end_task(&self, upstream: &Arc<Upstream>, task: &str) {
        let (upstream, session) = (upstream.clone(), self.errand.guard.session().clone());
        let handed = self.errand.handed.clone();
        let (task, envelope) = (task.to_owned(), self.envelope(Revision::LATEST));
        self.errand.relay.orphans.spawn(async move {
            let write = move |to, id| about(method::TASKS_CANCEL, &task, "", to, id, &envelope);
            let ending = async {
                let behalf = Behalf { session: &session, handed: handed.as_ref() };
                if let Ok(mut exchange) = upstream.begin(behalf, &write, true).await {
                    drop(exchange.next().await);
                }
            };
            drop(timeout(ENDING, ending).await);
        });
    }

    /// A request of ours about the server's `task`, its raw id, with `more` members, each after a comma.
    pub(super) fn of_theirs(&self, method: &str, task: &str, more: &str, to: Revision, id: u64) -> Letter {
        let envelope = if to.is_modern() { self.envelope(to) } else { String::new() };
        about(method, task, more, to, id, &envelope)
    }
}

fn about(method: &str, task: &str, more: &str, to: Revision, id: u64, envelope: &str) -> Letter {
    let params = format!(r#"{{"taskId":{task}{more}}}"#);
    if !to.is_modern() {
        return Letter::plain(wire::request(id, method, &params));
    }
    let name = Text::of(task);
    let mirror = Mirror::of(to, method, name.as_deref(), &[], None);
    Letter { text: wire::request(id, method, &enveloped_params(&params, envelope)), mirror, in_pieces: false }
}

/// What is known of a task.
struct Seen {
    working: bool,
    /// Before the next look.
    pause: Duration,
}

impl Seen {
    fn read(task: Option<&str>) -> Self {
        let task = task.unwrap_or("{}");
        let [status, pause] = members(task, ["status", "pollInterval"]).unwrap_or_default();
        let status = status.and_then(|status| Text::of(task.get(status)?));
        let pause =
            pause.and_then(|pause| task.get(pause)?.parse().ok()).map_or(USUAL, Duration::from_millis);
        Self { working: status.is_some_and(|status| status == "working"), pause: pause.clamp(OFTEN, SELDOM) }
    }
}

fn member<'t>(text: &'t str, key: &'static str) -> Option<&'t str> {
    let [found] = members(text, [key]).ok()?;
    text.get(found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_as_often_as_the_server_wants_within_reason() {
        for (task, working, pause) in [
            (r#"{"status":"working","pollInterval":250}"#, true, Duration::from_millis(250)),
            (r#"{"status":"working","pollInterval":0}"#, true, OFTEN),
            (r#"{"status":"working","pollInterval":1e9}"#, true, USUAL),
            (r#"{"status":"working","pollInterval":99999999}"#, true, SELDOM),
            (r#"{"status":"input_required"}"#, false, USUAL),
            (r#"{"status":"completed"}"#, false, USUAL),
            ("{}", false, USUAL),
        ] {
            let seen = Seen::read(Some(task));
            assert_eq!((seen.working, seen.pause), (working, pause), "{task}");
        }
    }
}
