//! A client's request that a server is to answer: what of it has to change on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use super::call::Asides;
use super::hold::State;
use super::{Refusal, Relay};
use crate::auth::Handed;
use crate::catalog::{Audience, View};
use crate::fleet::Snapshot;
use crate::mcp::meta::RESERVED;
use crate::mcp::{Revision, Shown, TASKS_EXTENSION, declares};
use crate::metrics::Method;
use crate::session::CallGuard;
use crate::upstream::Behalf;
use crate::wire::{Message, Span};

/// Where a request came from, and where what it causes goes to.
pub(super) struct Errand {
    pub(super) relay: Arc<Relay>,
    pub(super) view: View,
    /// The client takes a stream of events for it.
    pub(super) events: bool,
    pub(super) guard: CallGuard,
    pub(super) asides: Arc<Asides>,
    /// The arguments that its headers repeat.
    pub(super) shown: Shown,
    /// Those of its headers that servers get.
    pub(super) handed: Option<Arc<Handed>>,
    /// What the client's `requestState` says, if it has one.
    pub(super) state: Option<Box<State>>,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// `tools/call`.
    Tool,
    /// `prompts/get`.
    Prompt,
    /// `resources/read`, `resources/subscribe`, `resources/unsubscribe`.
    Resource,
    /// `completion/complete` of a prompt's argument.
    OfPrompt,
    /// `completion/complete` of a template's variable.
    OfTemplate,
    /// `tasks/get`, `tasks/result`, `tasks/cancel`.
    Task,
    /// Whatever a server knows that we do not.
    Unknown,
}

/// What a request has to do with tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tasks {
    None,
    /// The client wants a task for an answer, or asks for one's.
    Asked,
    /// The client takes a task for an answer where the server would rather give that.
    Taken,
}

/// A request, and the places in it that are the client's own.
pub(super) struct Request {
    pub(super) errand: Errand,
    pub(super) message: Message,
    pub(super) id: Bytes,
    pub(super) subject: Subject,
    /// The name or URI that it is about.
    pub(super) name: Box<str>,
    /// Where that stands.
    pub(super) name_at: Span,
    pub(super) token_at: Option<Span>,
    /// The client speaks a revision without sessions.
    pub(super) is_modern: bool,
    /// Its `_meta` may have keys that are the protocol's own.
    pub(super) has_reserved: bool,
    /// What it has to do with tasks.
    pub(super) tasks: Tasks,
    /// Where it asks for a task, in the words of 2025-11-25.
    pub(super) task_at: Option<Span>,
    /// Under which token we started a task for it, if we did.
    pub(super) task_token: AtomicU64,
    /// We take tasks in the client's place.
    pub(super) sees_through: AtomicBool,
}

impl Subject {
    /// For people, before its name.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Tool => "Tool",
            Self::Prompt | Self::OfPrompt => "Prompt",
            Self::Resource | Self::OfTemplate => "Resource",
            Self::Task => "Task",
            Self::Unknown => "Request",
        }
    }
}

impl Errand {
    /// For whom it is.
    pub(super) fn behalf(&self) -> Behalf<'_> {
        Behalf { session: self.guard.session(), handed: self.handed.as_ref() }
    }

    /// What it sees.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.relay.fleet.sees(self.behalf())
    }
}

impl Request {
    /// Reads a request about the name or URI in the member `key` of its params.
    pub(super) fn read(
        errand: Errand,
        message: Message,
        subject: Subject,
        key: &'static str,
    ) -> Result<Self, Refusal> {
        let found = message.params_members([key, "_meta", "task"]);
        let [name, meta, task] = found.map_err(|e| bad(&message, &e))?;
        let name_at = name.ok_or_else(|| bad(&message, &format_args!("`{key}` is missing")))?;
        let mut request = Self::about(errand, message, subject, name_at, meta)?;
        // The extension for tasks leaves it to servers.
        let asks = subject == Subject::Task || task.is_some() && !request.is_modern;
        if asks {
            request.tasks = Tasks::Asked;
        } else if subject == Subject::Tool && request.is_modern && request.takes_tasks() {
            request.tasks = Tasks::Taken;
        }
        request.task_at = task;
        Ok(request)
    }

    /// Reads a `completion/complete`.
    pub(super) fn read_completion(errand: Errand, message: Message) -> Result<Self, Refusal> {
        let [reference, meta] = message.params_members(["ref", "_meta"]).map_err(|e| bad(&message, &e))?;
        let reference = reference.ok_or_else(|| bad(&message, &"`ref` is missing"))?;
        let [kind, name, uri] =
            message.members_at(reference, ["type", "name", "uri"]).map_err(|e| bad(&message, &e))?;
        let kind = kind.and_then(|kind| message.string(kind));
        let (subject, at, key) = match kind.as_deref() {
            Some("ref/prompt") => (Subject::OfPrompt, name, "name"),
            Some("ref/resource") => (Subject::OfTemplate, uri, "uri"),
            Some(_) | None => {
                return Err(bad(&message, &"`ref.type` is neither ref/prompt nor ref/resource"));
            }
        };
        let at = at.ok_or_else(|| bad(&message, &format_args!("`ref.{key}` is missing")))?;
        Self::about(errand, message, subject, at, meta)
    }

    /// Reads a request of a method that only its server knows.
    pub(super) fn read_unknown(errand: Errand, message: Message) -> Result<Self, Refusal> {
        let [meta] = message.params_members(["_meta"]).map_err(|e| bad(&message, &e))?;
        let name = message.method().into();
        Self::new(errand, message, Subject::Unknown, name, 0..0, meta)
    }

    fn about(
        errand: Errand,
        message: Message,
        subject: Subject,
        name_at: Span,
        meta: Option<Span>,
    ) -> Result<Self, Refusal> {
        let name = message.string(name_at.clone()).ok_or_else(|| bad(&message, &"the name is no string"))?;
        let name = name.into();
        Self::new(errand, message, subject, name, name_at, meta)
    }

    fn new(
        errand: Errand,
        message: Message,
        subject: Subject,
        name: Box<str>,
        name_at: Span,
        meta: Option<Span>,
    ) -> Result<Self, Refusal> {
        let has_reserved = meta.clone().and_then(|meta| message.slice(meta)).is_some_and(may_be_reserved);
        let is_modern = errand.guard.session().speaks().is_modern();
        let token_at = token(&message, meta)?;
        let (id, task_token) = (message.id().unwrap_or_default(), AtomicU64::new(0));
        Ok(Self {
            errand,
            message,
            id,
            subject,
            name,
            name_at,
            token_at,
            is_modern,
            has_reserved,
            tasks: Tasks::None,
            task_at: None,
            task_token,
            sees_through: AtomicBool::new(false),
        })
    }

    /// Whether its answer may name a task.
    pub(super) fn has_task(&self) -> bool {
        self.tasks != Tasks::None || self.task_token.load(Ordering::Relaxed) > 0
    }

    /// Whether its client declared the extension for tasks.
    pub(super) fn takes_tasks(&self) -> bool {
        declares(&self.errand.guard.session().agreed().capabilities, TASKS_EXTENSION)
    }

    /// Whose it is, if callers prove who they are.
    pub(super) fn whose(&self) -> Option<&Arc<str>> {
        self.errand.guard.session().principal()
    }

    /// Its label in metrics.
    pub(super) fn label(&self) -> Method {
        match self.subject {
            Subject::Tool => Method::ToolsCall,
            Subject::Task | Subject::Unknown => Method::Other,
            Subject::Prompt | Subject::Resource | Subject::OfPrompt | Subject::OfTemplate => {
                Method::of(self.message.method())
            }
        }
    }

    /// Who asks.
    pub(super) fn audience(&self) -> Audience {
        let agreed = self.errand.guard.session().agreed();
        Audience::of(&agreed.revision, &agreed.capabilities)
    }

    /// Whether it came in by its server's own view, which changes as little as can be.
    pub(super) fn in_own_view(&self) -> bool {
        matches!(self.errand.view, View::One(_))
    }

    /// The revision that its client speaks.
    pub(super) fn speaks(&self) -> Revision {
        self.errand.guard.session().speaks()
    }

    /// Refuses it.
    #[expect(clippy::unnecessary_wraps, reason = "it is what requests end with")]
    pub(super) fn refuse(&self, refusal: &Refusal) -> Option<Bytes> {
        Some(refusal.answer_in(self.speaks(), Some(&self.id)))
    }
}

/// Whether a raw `_meta` may have keys that are the protocol's own, in whatever way they are written.
fn may_be_reserved(meta: &str) -> bool {
    meta.contains(RESERVED) || meta.contains('\\')
}

fn token(message: &Message, meta: Option<Span>) -> Result<Option<Span>, Refusal> {
    let Some(meta) = meta.filter(|meta| message.slice(meta.clone()) != Some("null")) else { return Ok(None) };
    let [token] = message
        .members_at(meta, ["progressToken"])
        .map_err(|why| bad(message, &format_args!("`_meta`: {why}")))?;
    Ok(token)
}

fn bad(message: &Message, why: &dyn std::fmt::Display) -> Refusal {
    Refusal::BadParams(format!("{}: {why}", message.method()))
}
