//! What goes upwards unasked, to whoever subscribes.

use std::sync::Arc;

use tokio::sync::{Notify, broadcast};

use crate::mcp::{Features, Level};
use crate::names::ServerName;
use crate::session::Session;
use crate::wire::Message;

/// Whom something concerns that came outside of any call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hearers {
    /// Whoever sees the server.
    All,
    /// The principal of that text.
    Principal(Arc<str>),
    /// The session with that [serial](Session::serial).
    Session(u128),
}

impl Hearers {
    /// Whether `session`'s client is one of them.
    pub fn include(&self, session: &Session) -> bool {
        match self {
            Self::All => true,
            Self::Principal(text) => session.principal() == Some(text),
            Self::Session(serial) => session.serial() == *serial,
        }
    }
}

/// Something that no request asked for, for all whom it concerns. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Notice {
    /// What some servers list is another now, or may be.
    Changed {
        /// Whose.
        servers: Arc<[ServerName]>,
        /// Which kinds, of all of these servers together.
        features: Features,
        /// Who sees it.
        to: Hearers,
    },
    /// A resource is another now.
    Updated {
        /// Whose.
        server: ServerName,
        /// The server's own URI. It may be a part of what somebody subscribed to.
        uri: Arc<str>,
        /// `notifications/resources/updated` as it came.
        message: Arc<Message>,
    },
    /// A server logged something that belongs to no call.
    Logged {
        /// Which.
        server: ServerName,
        /// How loud.
        level: Level,
        /// Who hears it.
        to: Hearers,
        /// `notifications/message` as it came.
        message: Arc<Message>,
    },
    /// Any other notification that belongs to no call: of a task, of an elicitation that is done, or unknown to us.
    Told {
        /// Whose.
        server: ServerName,
        /// Whom it concerns, as far as that is known.
        to: Hearers,
        /// As it came.
        message: Arc<Message>,
    },
}

/// Notices that a slow reader may fall behind; it is then told that something changed.
const NOTICES: usize = 256;

/// What upstreams tell of themselves.
#[derive(Debug)]
pub struct News {
    changed: Notify,
    notices: broadcast::Sender<Notice>,
}

impl Default for News {
    fn default() -> Self {
        Self { changed: Notify::new(), notices: broadcast::Sender::new(NOTICES) }
    }
}

impl News {
    /// An upstream's listing or usability changed, for whoever rebuilds the catalog. Any number of changes make one
    /// wake-up.
    pub fn tell(&self) {
        self.changed.notify_one();
    }

    /// Waits until something changed since the last call.
    pub async fn wait(&self) {
        self.changed.notified().await;
    }

    /// Sends `notice` to all who listen. That nobody does is fine.
    pub fn send(&self, notice: Notice) {
        drop(self.notices.send(notice));
    }

    /// Listens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}
