//! What we answer instead of a server.

use std::time::Duration;

use bytes::Bytes;

use crate::names::ServerName;
use crate::session::BeginError;
use crate::upstream::Unavailable;
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
    /// A tool that no server has.
    UnknownTool(Box<str>),
    /// The session has no room for the call, or has it already.
    Begin(BeginError),
}

impl Refusal {
    /// The JSON-RPC error.
    pub fn answer(&self, id: Option<&[u8]>) -> Bytes {
        let (code, text) = match self {
            Self::UnknownMethod(name) => (Code::MethodNotFound, format!("unknown method {}", quoted(name))),
            Self::BadParams(why) => (Code::InvalidParams, why.clone()),
            Self::BadCursor => (Code::InvalidParams, "unknown cursor; list again without one".into()),
            Self::UnknownTool(name) => {
                (Code::InvalidParams, format!("unknown tool {}; list the tools again", quoted(name)))
            }
            Self::Begin(BeginError::Duplicate) => {
                (Code::InvalidRequest, "a request with this id is in flight already; use another id".into())
            }
            Self::Begin(BeginError::TooMany) => {
                (Code::Internal, "too many requests are in flight in this session; wait until one has ended".into())
            }
        };
        wire::error(id, code, &text)
    }
}

/// The answer for a tool that cannot be called now: a result that says so, so that a model can go on without it.
pub(super) fn stub(id: &[u8], server: &ServerName, text: &str, retry_after: Option<Duration>) -> Bytes {
    let retry = retry_after
        .map(|after| format!(r#","trunkline/retryAfterMs":{}"#, after.as_millis()))
        .unwrap_or_default();
    let result = format!(
        r#"{{"content":[{{"type":"text","text":{}}}],"isError":true,"_meta":{{"trunkline/server":{}{retry}}}}}"#,
        quoted(text),
        quoted(server.as_str())
    );
    wire::response(id, result.as_bytes())
}

/// Why `tool` of `server` is unavailable and when to try again.
pub(super) fn unavailable(tool: &str, server: &ServerName, why: &Unavailable) -> String {
    let what = &why.what;
    let next = if why.unauthorized {
        "Its credentials in trunkline's configuration need to be set or renewed.".into()
    } else if why.retry_after.is_zero() {
        "Try again.".to_owned()
    } else {
        format!("Try again in {} s.", why.retry_after.as_secs_f64().ceil())
    };
    format!("Tool {tool} is unavailable: server {server} {what}. {next}")
}
