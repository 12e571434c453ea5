//! What all links share.

use super::{Failure, Link};
use crate::config::{Limits, Server};

/// How large a message from a server may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Largest message in bytes: an HTTP body, one SSE event or one line.
    pub message: usize,
    /// Deepest nesting of its JSON.
    pub depth: usize,
}

impl From<&Limits> for Sizes {
    fn from(limits: &Limits) -> Self {
        Self { message: limits.upstream_message, depth: limits.json_depth }
    }
}

/// Makes links. Holds what they share: the machine's certificate authorities and the slots for starting children.
#[derive(Debug)]
pub struct Dialer {
    _sizes: Sizes,
}

impl Dialer {
    /// A dialer for messages of these sizes.
    pub fn new(sizes: Sizes) -> Self {
        Self { _sizes: sizes }
    }

    /// A link to `server`. Over HTTP nothing is sent yet; a child is started.
    #[allow(clippy::unused_async, reason = "skeleton")]
    pub async fn dial(&self, _server: &Server) -> Result<Link, Failure> {
        Err(Failure::Unsupported("not there yet".into()))
    }
}
