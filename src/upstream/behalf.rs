//! For whom something is asked of a server, and which link that takes.

use std::sync::Arc;

use tokio_util::sync::DropGuard;

use super::Unavailable;
use super::state::Ready;
use crate::auth::{self, Handed, Principal};
use crate::config::{Reach, Scope, Server, Values};
use crate::mcp::Revision;
use crate::session::Session;
use crate::transport::Link;

/// For whom something is asked of a server.
#[derive(Debug, Clone, Copy)]
pub struct Behalf<'a> {
    /// The client's stay, which says whose it is.
    pub session: &'a Arc<Session>,
    /// Those headers of the request that servers get.
    pub handed: Option<&'a Arc<Handed>>,
}

impl<'a> Behalf<'a> {
    /// For a client none of whose headers matter.
    pub fn of(session: &'a Arc<Session>) -> Self {
        Self { session, handed: None }
    }

    /// Who it is.
    pub(super) fn principal(&self) -> Principal {
        Principal::of(self.session.principal())
    }

    /// What is filled into `server`'s settings for it; `None` where nothing is.
    pub(super) fn values(&self, server: &Server) -> Result<Option<Values>, Unavailable> {
        let Some(personal) = &server.personal else { return Ok(None) };
        let values = auth::values(personal, &self.principal(), self.handed.map(Arc::as_ref));
        values.map(Some).map_err(|lacking| Unavailable::lasting(lacking.to_string()))
    }
}

/// Who may use one link together, as the configuration says it or the server's first answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Everybody.
    All,
    /// Everybody, as long as nobody says who he is.
    Unknown,
    /// One principal.
    Principal,
    /// One session.
    Session,
    /// One request.
    Request,
}

impl Share {
    /// Without other orders it is what a direct connection would give: a server that hands out session ids keeps something
    /// per session; one without, and one of the modern era, does not. A child keeps what its caller may do, so callers who
    /// are known have one each.
    pub(super) fn of(server: &Server, link: &Link, revision: Revision) -> Self {
        match (server.scope, &server.reach) {
            (Scope::Request, _) => Self::Request,
            (Scope::Principal, _) => Self::Principal,
            (Scope::Session, Reach::Stdio(_)) => Self::Session,
            (Scope::Auto, Reach::Stdio(_)) if revision.is_modern() || !server.interactive => Self::Unknown,
            _ if revision.is_modern() => Self::All,
            _ if server.interactive => Self::Session,
            (Scope::Auto, _) if link.has_session() => Self::Session,
            (Scope::Auto | Scope::Shared, _) => Self::All,
            (Scope::Session, Reach::Http(_)) => Self::Session,
        }
    }
}

/// Whose a link is. What was filled into its settings tells it apart as well, so that one with a caller's secret in it never
/// serves another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) whom: Whom,
    pub(super) values: Option<[u8; 32]>,
}

/// Whose a link is, whatever was filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Whom {
    Anybody,
    /// By its text.
    Principal(Option<Arc<str>>),
    /// By its serial.
    Session(u128),
    /// By a number of its own.
    Request(u64),
}

impl Whom {
    /// Of the principal of `behalf`.
    pub(super) fn principal(behalf: Behalf<'_>) -> Self {
        Self::Principal(behalf.session.principal().cloned())
    }

    /// Of the session of `behalf`. Whoever has none has no stay for which a server could keep anything: then it is the
    /// principal's.
    pub(super) fn session(behalf: Behalf<'_>, interactive: bool) -> Self {
        if behalf.session.is_guest() && !interactive {
            Self::principal(behalf)
        } else {
            Self::Session(behalf.session.serial())
        }
    }
}

/// A link to use, and what keeps it there if it is there for one request only.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) ready: Arc<Ready>,
    pub(super) lease: Option<DropGuard>,
}

impl From<Arc<Ready>> for Linked {
    fn from(ready: Arc<Ready>) -> Self {
        Self { ready, lease: None }
    }
}
