//! The request that a held call goes on for: the one that began it, or the retry that took it back.

use bytes::Bytes;

use super::{DEPTH, Held};
use crate::mcp::method;
use crate::relay::asides::wants;
use crate::session::CallGuard;
use crate::wire::{self, Code, Message};

/// Whose request a held call goes on for.
pub(super) enum For {
    /// The one that began it.
    Itself,
    /// A retry of it.
    Retry { guard: CallGuard, request: Message },
}

impl For {
    /// Resolves once a retry is no longer wanted. The call itself sees to the request that began it.
    pub(super) async fn cancelled(&self) {
        match self {
            Self::Itself => std::future::pending().await,
            Self::Retry { guard, .. } => guard.cancelled().await,
        }
    }

    pub(super) fn id(&self, held: &Held) -> Bytes {
        match self {
            Self::Itself => held.began.id(),
            Self::Retry { request, .. } => request.id(),
        }
        .unwrap_or_default()
    }

    /// What the call tells, as this request wants to hear it: its progress under the request's own token, and of the log
    /// what it asked for.
    pub(super) fn aside(&self, message: Bytes) -> Option<Bytes> {
        let Self::Retry { guard, request } = self else { return Some(message) };
        let told = Message::parse(message, DEPTH).ok()?;
        match told.method() {
            method::PROGRESS => {
                let [meta] = request.params_members(["_meta"]).ok()?;
                let [token] = request.members_at(meta?, ["progressToken"]).ok()?;
                let [at] = told.params_members(["progressToken"]).ok()?;
                Some(told.splice(&mut [(at?, request.slice(token?)?.as_bytes())]))
            }
            method::MESSAGE if !wants(guard.session(), &told) => None,
            _ => Some(told.text().clone()),
        }
    }

    /// The call's answer under this request's id.
    pub(super) fn answer(&self, answer: Bytes) -> Bytes {
        let Self::Retry { request, .. } = self else { return answer };
        let id = request.id().unwrap_or_default();
        match Message::parse(answer, DEPTH) {
            Ok(answer) => answer.splice(&mut [(answer.id_span().unwrap_or_default(), &id)]),
            Err(_) => wire::error(Some(&id), Code::Internal, "the server's answer cannot be read"),
        }
    }
}
