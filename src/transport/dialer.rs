//! What all links share.

use std::sync::Arc;

use hyper::http::uri::Scheme;
use tokio::sync::Semaphore;

use super::http::Http;
use super::stdio::Stdio;
use super::tls::{self, Trust};
use super::web::{Older, Web};
use super::{Failure, Link};
use crate::config::{Limits, Reach, Server};
use crate::memory::Memory;

/// Children being started at a time: more of them slow each other, and us, down.
const SLOTS: usize = 3;

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

/// Makes links. Holds what they share: the machine's certificate authorities, which servers speak only the older HTTP
/// transport, and the slots for starting children.
#[derive(Debug)]
pub struct Dialer {
    sizes: Sizes,
    trust: Trust,
    older: Arc<Older>,
    slots: Arc<Semaphore>,
    memory: Arc<Memory>,
}

impl Dialer {
    /// A dialer for messages of these sizes.
    pub fn new(sizes: Sizes) -> Self {
        let (older, slots) = (Arc::default(), Arc::new(Semaphore::new(SLOTS)));
        Self { sizes, trust: Trust::default(), older, slots, memory: Memory::new(None) }
    }

    /// The same, where large answers count in `memory`.
    #[must_use]
    pub fn within(mut self, memory: Arc<Memory>) -> Self {
        self.memory = memory;
        self
    }

    /// A link to `server`. Over HTTP nothing is sent yet, only certificates are read; a child is started, once less than
    /// three others are starting.
    ///
    /// # Errors
    /// Where it cannot be started, or its certificates cannot be read; or where its settings are to be filled in first.
    pub async fn dial(&self, server: &Server) -> Result<Link, Failure> {
        if server.personal.is_some() {
            return Err(Failure::Unsupported("is reached by each caller for himself".into()));
        }
        let sizes = Sizes { message: server.care.message.unwrap_or(self.sizes.message), ..self.sizes };
        match &server.reach {
            Reach::Http(config) => {
                let secure = config.url.scheme() == Some(&Scheme::HTTPS);
                let tls = if secure { self.trust.client(&config.tls).await? } else { tls::none()? };
                let http = Http::new(config, &server.secrets, tls, sizes, &self.memory);
                Ok(Link::web(Web::new(config, http, server.name.clone(), Arc::clone(&self.older))))
            }
            Reach::Stdio(stdio) => {
                let closed = |_| Failure::Unreachable("no slot to start it".into());
                let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(closed)?;
                Ok(Link::stdio(Stdio::start(server, stdio, sizes, slot)?))
            }
        }
    }
}
