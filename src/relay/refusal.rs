//! What we answer instead of a server.

use std::time::Duration;

use bytes::Bytes;

use super::answer::own_result;
use super::hold::BadState;
use crate::mcp::{Level, Revision, Unable, method};
use crate::names::ServerName;
use crate::session::{BeginError, TooManyLegs};
use crate::upstream::{Remedy, Unavailable};
use crate::wire::{self, Code, quoted};

/// Why a request is answered by us. Each has its code and says what to do next.
#[derive(Debug)]
pub enum Refusal {
    /// A method that we do not offer.
    UnknownMethod(Box<str>),
    /// Params that cannot be read.
    BadParams(String),
    /// A cursor that is not ours.
    BadCursor,
    /// A level of log messages that there is not.
    BadLevel(Box<str>),
    /// A tool that no server has.
    UnknownTool(Box<str>),
    /// A prompt that no server has.
    UnknownPrompt(Box<str>),
    /// A resource that no server has.
    UnknownResource(Box<str>),
    /// No task of the client's.
    UnknownTask(Box<str>),
    /// The session is told of as many resources as it may be.
    TooManySubscriptions,
    /// The session has no room for the call, or has it already.
    Begin(BeginError),
    /// A state that is none of ours, is over, was used, or came with another request.
    BadState,
    /// Headers that say something else than the arguments that they repeat.
    Headers(String),
    /// Whoever should answer cannot now.
    Away {
        /// Whose it is.
        server: ServerName,
        /// For people: what, why, and what to do.
        text: String,
        /// When it makes sense to try again.
        retry_after: Option<Duration>,
    },
    /// To a server: its client cannot do what it asks for.
    Unable {
        /// What the client lacks.
        unable: Unable,
        /// What was asked.
        method: Box<str>,
        /// It asks its user in other ways.
        other_mode: bool,
    },
    /// To a server: its client reads nothing that comes before the answer.
    Unheard,
    /// To a server: its client is asked too much already.
    TooManyLegs(TooManyLegs),
}

impl From<BadState> for Refusal {
    fn from(_: BadState) -> Self {
        Self::BadState
    }
}

impl Refusal {
    /// The JSON-RPC error.
    pub fn answer(&self, id: Option<&[u8]>) -> Bytes {
        self.answer_in(Revision::LATEST_LEGACY, id)
    }

    /// As [`answer`](Self::answer), for a client that speaks `revision`.
    pub(super) fn answer_in(&self, revision: Revision, id: Option<&[u8]>) -> Bytes {
        let (code, text) = self.told();
        // The newest revision has no code of its own for it.
        let code =
            if revision.is_modern() && code == Code::ResourceNotFound { Code::InvalidParams } else { code };
        wire::error_with(id, code, &text, &self.data())
    }

    fn told(&self) -> (Code, String) {
        let again = |what: &str, name: &str, list: &str| {
            (Code::InvalidParams, format!("unknown {what} {}; list the {list} again", shown(name)))
        };
        match self {
            Self::UnknownMethod(name) => (Code::MethodNotFound, format!("unknown method {}", shown(name))),
            Self::BadParams(why) => (Code::InvalidParams, why.clone()),
            Self::BadCursor => (Code::InvalidParams, "unknown cursor; list again without one".into()),
            Self::BadLevel(name) => {
                let known = Level::ALL.map(Level::as_str).join(", ");
                (Code::InvalidParams, format!("unknown level {}; use one of {known}", shown(name)))
            }
            Self::UnknownTool(name) => again("tool", name, "tools"),
            Self::UnknownPrompt(name) => again("prompt", name, "prompts"),
            Self::UnknownResource(uri) => {
                (Code::ResourceNotFound, format!("unknown resource {}; list the resources again", shown(uri)))
            }
            Self::UnknownTask(id) => again("task", id, "tasks"),
            Self::TooManySubscriptions => {
                (Code::Internal, "this session has too many subscriptions; unsubscribe from some".into())
            }
            Self::Begin(BeginError::Duplicate) => {
                (Code::InvalidRequest, "a request with this id is in flight already; use another id".into())
            }
            Self::Begin(BeginError::TooMany) => (
                Code::Internal,
                "too many requests are in flight in this session; wait until one has ended".into(),
            ),
            Self::Begin(BeginError::Overloaded) => {
                (Code::Internal, "too many calls are in flight here; try again in a second".into())
            }
            Self::BadState => (
                Code::InvalidParams,
                "`requestState` is unknown, over, used already, or of another request; make the request again without it"
                    .into(),
            ),
            Self::Headers(why) => (Code::HeaderMismatch, why.clone()),
            Self::Away { text, .. } => (Code::Internal, text.clone()),
            // A mode that was not declared is a bad param (specification, `client/elicitation`).
            Self::Unable { unable, method, other_mode }
                if **method == *method::ELICITATION && *other_mode =>
            {
                (Code::InvalidParams, unable.to_string())
            }
            Self::Unable { unable, .. } => (Code::MethodNotFound, unable.to_string()),
            Self::Unheard => {
                (Code::Internal, "this client takes no events, so it cannot be asked anything".into())
            }
            Self::TooManyLegs(why) => (Code::Internal, why.to_string()),
        }
    }

    fn data(&self) -> String {
        match self {
            Self::UnknownResource(uri) => format!(r#"{{"uri":{}}}"#, quoted(uri)),
            Self::Away { server, retry_after, .. } => format!("{{{}}}", origin(server, *retry_after)),
            Self::UnknownMethod(_)
            | Self::BadParams(_)
            | Self::BadCursor
            | Self::BadLevel(_)
            | Self::UnknownTool(_)
            | Self::UnknownPrompt(_)
            | Self::UnknownTask(_)
            | Self::TooManySubscriptions
            | Self::Begin(_)
            | Self::BadState
            | Self::Headers(_)
            | Self::Unable { .. }
            | Self::Unheard
            | Self::TooManyLegs(_) => String::new(),
        }
    }
}

/// What a client called something, in quotes and cut where it is longer than any name or URI that people read.
fn shown(name: &str) -> String {
    match name.char_indices().nth(256) {
        Some((at, _)) => quoted(&format!("{}…", name.get(..at).unwrap_or_default())),
        None => quoted(name),
    }
}

/// The answer for a tool that cannot be called now: a result that says so, so that a model can go on without it.
pub(super) fn stub(
    revision: Revision,
    id: &[u8],
    server: &ServerName,
    text: &str,
    retry_after: Option<Duration>,
) -> Bytes {
    let result = format!(
        r#"{{"content":[{{"type":"text","text":{}}}],"isError":true,"_meta":{{{}}}}}"#,
        quoted(text),
        origin(server, retry_after)
    );
    own_result(revision, id, &result)
}

/// Whose it is and when to try again, for machines.
fn origin(server: &ServerName, retry_after: Option<Duration>) -> String {
    let retry = retry_after
        .map(|after| format!(r#","trunkline/retryAfterMs":{}"#, after.as_millis()))
        .unwrap_or_default();
    format!(r#""trunkline/server":{}{retry}"#, quoted(server.as_str()))
}

/// Why what `noun` and `name` say is unavailable, and when to try again.
pub(super) fn unavailable(noun: &str, name: &str, server: &ServerName, why: &Unavailable) -> String {
    let what = &why.what;
    let next = match why.remedy {
        Remedy::Operator => "Its credentials in trunkline's configuration need to be set or renewed.".into(),
        Remedy::Caller => "The same request again does not help.".into(),
        Remedy::Time if why.retry_after.is_zero() => "Try again.".to_owned(),
        Remedy::Time => format!("Try again in {} s.", why.retry_after.as_secs_f64().ceil()),
    };
    format!("{noun} {name} is unavailable: server {server} {what}. {next}")
}
