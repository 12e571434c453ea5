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
use crate::mcp::{Letter, method};
use crate::upstream::Upstream;
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

    async fn as_task(
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
        let params = format!(r#"{{"taskId":{task}}}"#);
        let done = self.follow(upstream, server, &params, &created.message, last).await;
        if matches!(done, Err(Broken::Cancelled | Broken::Silent(_))) {
            self.end_task(upstream, params);
        }
        done
    }

    /// Looks at the task until it has ended or its user is asked something, and fetches what came of it. What is asked
    /// comes with that.
    async fn follow(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        params: &str,
        created: &Message,
        last: Instant,
    ) -> Result<Answered, Broken> {
        let mut seen = Seen::read(created.body().and_then(|result| member(result, "task")));
        while seen.working {
            let left = last.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Broken::Silent(server.max_total));
            }
            if self
                .errand
                .relay
                .clock
                .within(seen.pause.min(left), self.errand.guard.cancelled())
                .await
                .is_ok()
            {
                return Err(Broken::Cancelled);
            }
            let look = |_, id| Letter::plain(wire::request(id, method::TASKS_GET, params));
            let answer = self.forward(upstream, server, server.timeout, &look).await?;
            if answer.message.kind() == Kind::Error {
                return Ok(answer);
            }
            seen = Seen::read(answer.message.body());
        }
        let fetch = |_, id| Letter::plain(wire::request(id, method::TASKS_RESULT, params));
        self.forward(upstream, server, last.saturating_duration_since(Instant::now()), &fetch).await
    }

    /// Tells the server in the background that nobody wants the task any more.
    fn end_task(&self, upstream: &Arc<Upstream>, params: String) {
        let (upstream, session) = (upstream.clone(), self.errand.guard.session().clone());
        self.errand.relay.orphans.spawn(async move {
            let write = move |_, id| Letter::plain(wire::request(id, method::TASKS_CANCEL, &params));
            let ending = async {
                if let Ok(mut exchange) = upstream.begin(&session, &write).await {
                    drop(exchange.next().await);
                }
            };
            drop(timeout(ENDING, ending).await);
        });
    }
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
