//! Tasks: those of 2025-11-25 (specification, `basic/utilities/tasks`) in the words of the extension that took their place
//! (`io.modelcontextprotocol/tasks`, SEP-2663).

use std::time::Duration;

use super::envelope::TASKS_EXTENSION;
use super::extension::{lacked, object};
use super::failure::code_of;
use super::meta::{RELATED_TASK, Rewrite, SERVER_INFO, VIA};
use crate::wire::{Code, Span, Text, edited, members};

/// How a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// It runs.
    Working,
    /// It waits for its client's answers.
    InputRequired,
    /// It has come to a result.
    Completed,
    /// It has come to an error; with sessions also to a result that says so.
    Failed,
    /// Its client did not want it any more.
    Cancelled,
}

impl TaskStatus {
    /// What the word says; one that nobody knows is no end.
    pub fn of(word: &str) -> Self {
        match word {
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => Self::Working,
        }
    }
}

/// What a raw task says of itself, in either form. Places are those in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The server's id of it, a JSON string.
    pub id: Span,
    /// How it is.
    pub status: TaskStatus,
    /// How long to wait before the next look, where it says that.
    pub pause: Option<Duration>,
}

impl Task {
    /// Reads the object `task`; `None` where it is none.
    pub fn read(task: &str) -> Option<Self> {
        let keys = ["taskId", "status", "pollInterval", "pollIntervalMs"];
        let [id, status, pause, pause_ms] = members(task, keys).ok()?;
        let raw = |at: Span| task.get(at);
        let id = id.filter(|at| raw(at.clone()).is_some_and(|raw| raw.starts_with('"')))?;
        let status =
            status.and_then(raw).and_then(Text::of).map_or(TaskStatus::Working, |word| TaskStatus::of(&word));
        let pause = pause_ms.or(pause).and_then(|at| raw(at)?.parse().ok()).map(Duration::from_millis);
        Some(Self { id, status, pause })
    }

    /// Reads a raw `result` of the extension that says a task was started in place of an answer.
    pub fn started(result: &str) -> Option<Self> {
        let [kind] = members(result, ["resultType"]).ok()?;
        (result.get(kind?)? == r#""task""#).then(|| Self::read(result)).flatten()
    }
}

/// The members of a task of 2025-11-25, a raw object, as the extension calls them, under another id, raw.
pub fn task_members(task: &str, id: &str, status: &str) -> String {
    let keys = ["statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"];
    let [message, created, updated, ttl, pause] =
        members(task, keys).unwrap_or_default().map(|at| at.and_then(|at| task.get(at)));
    object([
        Some(("taskId", id)),
        Some(("status", status)),
        message.map(|raw| ("statusMessage", raw)),
        created.map(|raw| ("createdAt", raw)),
        updated.or(created).map(|raw| ("lastUpdatedAt", raw)),
        Some(("ttlMs", ttl.unwrap_or("null"))),
        pause.map(|raw| ("pollIntervalMs", raw)),
    ])
}

/// What a notification says of a task: the raw `result` of a look at it, without what makes that a result.
pub fn task_notice(result: &str) -> String {
    let drop = |key: &str| key == SERVER_INFO || key == VIA;
    let rewrite =
        Rewrite { drop: &["resultType"], drop_meta: Some(&drop), drop_empty: true, ..Rewrite::default() };
    edited(result, &mut rewrite.edits(result, 0..result.len()))
}

/// A raw `result` without the mark of the task that it is of.
pub fn without_related(result: &str) -> String {
    let drop = |key: &str| key == RELATED_TASK;
    let rewrite = Rewrite { drop_meta: Some(&drop), drop_empty: true, ..Rewrite::default() };
    edited(result, &mut rewrite.edits(result, 0..result.len()))
}

/// Whether a raw `error` says that the server would do it as a task, had the client declared those.
pub fn wants_tasks(error: &str) -> bool {
    let names = |all| members(all, [TASKS_EXTENSION]).is_ok_and(|[found]| found.is_some());
    code_of(error) == Some(Code::MissingCapability.number().into()) && lacked(error).is_some_and(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::lacking;

    #[test]
    fn tasks_read_in_both_forms() {
        let read = |text: &str| {
            Task::read(text).map(|task| (text.get(task.id).unwrap().to_owned(), task.status, task.pause))
        };
        let pause = Some(Duration::from_millis(5));
        for (text, task) in [
            (
                r#"{"taskId":"a","status":"failed","pollInterval":5}"#,
                Some((r#""a""#, TaskStatus::Failed, pause)),
            ),
            (r#"{"taskId":"a","pollIntervalMs":5}"#, Some((r#""a""#, TaskStatus::Working, pause))),
            (r#"{"taskId":7}"#, None),
            ("[]", None),
        ] {
            assert_eq!(read(text), task.map(|(id, status, pause)| (id.to_owned(), status, pause)));
        }
        assert!(Task::started(r#"{"resultType":"task","taskId":"a"}"#).is_some());
        assert!(Task::started(r#"{"resultType":"complete","taskId":"a"}"#).is_none());
        assert!(Task::started(r#"{"taskId":"a"}"#).is_none());
    }

    #[test]
    fn older_tasks_take_the_extensions_words() {
        let task = r#"{"taskId":"a","status":"working","statusMessage":"x","createdAt":"t","ttl":60000,"pollInterval":100,"y":1}"#;
        assert_eq!(
            task_members(task, r#""b""#, r#""failed""#),
            r#""taskId":"b","status":"failed","statusMessage":"x","createdAt":"t","lastUpdatedAt":"t","ttlMs":60000,"pollIntervalMs":100"#
        );
        assert_eq!(task_members("{}", "1", "2"), r#""taskId":1,"status":2,"ttlMs":null"#);
    }

    #[test]
    fn a_results_mark_goes() {
        let marked = r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}"#;
        assert_eq!(without_related(marked), r#"{"content":[]}"#);
        let looked = r#"{"resultType":"complete","taskId":"a","_meta":{"io.modelcontextprotocol/serverInfo":{},"trunkline/server":"s"}}"#;
        assert_eq!(task_notice(looked), r#"{"taskId":"a"}"#);
        assert_eq!(without_related(r#"{"_meta":{"x":1}}"#), r#"{"_meta":{"x":1}}"#);
    }

    #[test]
    fn tells_who_would_rather_run_a_task() {
        let error = |code: i64, data: &str| format!(r#"{{"code":{code},"message":"","data":{data}}}"#);
        assert!(wants_tasks(&error(-32021, &lacking(TASKS_EXTENSION))));
        assert!(!wants_tasks(&error(-32021, &lacking("a/b"))));
        assert!(!wants_tasks(&error(-32602, &lacking(TASKS_EXTENSION))));
        assert!(!wants_tasks(&error(-32021, r#"{"requiredCapabilities":{"sampling":{}}}"#)));
    }
}
