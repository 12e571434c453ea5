//! Why a subcommand that talks to an endpoint did not get what it wanted.

use hyper::StatusCode;

use super::client::KEY;
use crate::wire::Malformed;

/// Why it did not work, with the URL and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No URL that this client can use.
    #[error("`{0}` is no URL of the form http://HOST:PORT/PATH")]
    Url(String),
    /// Arguments that are no JSON object.
    #[error("the arguments are no JSON object ({0}); they look like '{{\"text\": \"hello\"}}'")]
    Arguments(Malformed),
    /// Nobody answers there.
    #[error(
        "cannot reach {url} ({why}); is trunkline running? Start it with `trunkline`, or give the URL it prints"
    )]
    Unreachable {
        /// Where.
        url: String,
        /// What the network said.
        why: String,
    },
    /// Somebody is there, but takes too long.
    #[error("{url} did not answer within {seconds} s; see its log, or `/status` on its admin port")]
    Timeout {
        /// Where.
        url: String,
        /// How long we waited.
        seconds: u64,
    },
    /// An HTTP error instead of an answer.
    #[error(
        "{url} answered HTTP {status}: {body}; is this the URL of an MCP endpoint, such as http://127.0.0.1:8931/mcp?"
    )]
    Status {
        /// Where.
        url: String,
        /// The HTTP status.
        status: StatusCode,
        /// The start of what it said.
        body: String,
    },
    /// It lets in only callers with a key.
    #[error(
        "{url} wants to know who calls and did not know this one; put a key of its `auth.keys` into the variable {KEY}"
    )]
    Key {
        /// Where.
        url: String,
    },
    /// A JSON-RPC error.
    #[error("{url} refused `{method}`: {message} (code {code})")]
    Refused {
        /// Where.
        url: String,
        /// What we asked for.
        method: String,
        /// The JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// An answer that is none.
    #[error("{url} sent no valid answer to `{method}` ({why}); is this the URL of an MCP endpoint?")]
    Garbled {
        /// Where.
        url: String,
        /// What we asked for.
        method: String,
        /// What is wrong.
        why: String,
    },
}
