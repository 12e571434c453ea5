//! Why a server gave no answer.

use std::time::Duration;

/// Why a server gave no answer. The texts are short, for people, and hold neither secrets nor URLs; the server's name is
/// for the caller to put before them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection, no process: the message was not even sent.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It wants us to authenticate, or what we present is not enough.
    #[error("asks for authorization (HTTP {status})")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// Its `WWW-Authenticate`.
        challenge: Option<String>,
    },
    /// It does not know our session (any more): HTTP 404 to a message that bore its id.
    #[error("no longer knows our session")]
    SessionGone,
    /// An HTTP status that is no success, with a body that is no answer.
    #[error("answered with HTTP {code}{}{snippet}", if snippet.is_empty() { "" } else { ": " })]
    Status {
        /// The status.
        code: u16,
        /// The start of the body, or what the status means here.
        snippet: String,
    },
    /// It has no room for the message now.
    #[error("is busy (HTTP {code})")]
    Busy {
        /// 429 or 503.
        code: u16,
        /// Its `Retry-After`, five minutes at most.
        retry_after: Option<Duration>,
    },
    /// The connection, the stream or the process ended before the answer, with why.
    #[error("broke off: {0}")]
    Cut(String),
    /// One message is larger than this many bytes.
    #[error("sent a message of more than {0} bytes")]
    TooLarge(usize),
    /// There is no memory left for its answer: others have it, so this is no fault of the server.
    #[error(
        "has an answer that is too large for the memory that is left while other large ones are on their way"
    )]
    NoRoom,
    /// What came is no answer.
    #[error("sent what is no answer: {0}")]
    Garbage(String),
    /// Neither side is broken, but this is not offered.
    #[error("{0}")]
    Unsupported(String),
}

impl Failure {
    /// How long the server wants to be left alone, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Busy { retry_after, .. } = self { *retry_after } else { None }
    }

    /// Whether the next try may well go better, for what may reach the server twice.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Cut(_) => true,
            Self::Status { code, .. } => *code >= 500,
            Self::Busy { .. } // it asked to be left alone
            | Self::Unreachable(_)
            | Self::Unauthorized { .. }
            | Self::SessionGone
            | Self::TooLarge(_)
            | Self::NoRoom
            | Self::Garbage(_)
            | Self::Unsupported(_) => false,
        }
    }

    /// Whether the server may have acted on the message. Where it has not, the message can be sent again without doing
    /// anything twice.
    pub fn maybe_processed(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Unauthorized { .. }
            | Self::SessionGone
            | Self::Busy { .. }
            | Self::Unsupported(_) => false,
            Self::Status { code, .. } => *code >= 500,
            Self::Cut(_) | Self::TooLarge(_) | Self::NoRoom | Self::Garbage(_) => true,
        }
    }
}
