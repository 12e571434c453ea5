//! Long results that pass to the client as they come: held whole, a few of them would be all the memory there is.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::request::{Request, Subject};
use super::uris::seen_by;
use crate::config::Server;
use crate::mcp::Revision;
use crate::metrics::Outcome;
use crate::names::ServerName;
use crate::transport::Failure;
use crate::upstream::Exchange;
use crate::wire::{Message, Passage};

impl Request {
    /// Whether a long result of a server that speaks `to` may pass in pieces: where nothing in it is to be changed but
    /// its id, and whoever asked takes it so.
    pub(super) fn passes(&self, to: Revision) -> bool {
        let alike = !self.is_modern && !to.is_modern() && self.speaks() >= Revision::V2025_06_18;
        alike && !self.has_task() && self.errand.asides.takes_pieces()
    }

    /// The same of one that `server` has begun: its URIs are to read as they do there.
    pub(super) fn passes_from(&self, server: &ServerName) -> bool {
        let renames = || {
            let snapshot = self.errand.snapshot();
            matches!(snapshot.catalog.uri(&self.errand.view, server, "a:b"), Cow::Owned(_))
        };
        self.errand.asides.takes_pieces() && (self.in_own_view() || !renames())
    }

    /// Passes on the result that has `opened`, and its `rest`. The server may be silent for the first of `limits`, and has
    /// time until the second. `Err` where nothing of it has been told, so that there may be another answer.
    pub(super) async fn pass(
        &self,
        server: &Server,
        opened: &Message,
        mut rest: Exchange,
        limits: (Duration, Instant),
    ) -> Result<Outcome, Failure> {
        let depth = self.errand.relay.fleet.limits().json_depth;
        let (mut passage, mut out) = (Passage::new(rest.id(), self.id.clone(), depth), Vec::new());
        passage.pass(opened.text(), &mut out).map_err(|why| Failure::Garbage(why.to_string()))?;
        let passed = self.pass_all(server, out, &mut rest, limits, &mut passage).await;
        Ok(match passed {
            Ok(()) if passage.is_error() && self.subject == Subject::Tool => Outcome::ToolError,
            Ok(()) => Outcome::Ok,
            Err(Stopped::Unheard) => Outcome::Cancelled,
            Err(Stopped::Broken(why)) => {
                tracing::info!(server = %server.name, name = &*self.name, why, "a long answer broke off");
                self.errand.asides.piece(None).await;
                Outcome::Failed
            }
        })
    }

    async fn pass_all(
        &self,
        server: &Server,
        mut out: Vec<Bytes>,
        rest: &mut Exchange,
        (limit, last): (Duration, Instant),
        passage: &mut Passage,
    ) -> Result<(), Stopped> {
        let broken = |why: &dyn std::fmt::Display| Stopped::Broken(why.to_string());
        let asides = &self.errand.asides;
        loop {
            self.note_uris(&server.name, passage);
            for bytes in out.drain(..) {
                asides.piece(Some(bytes)).await;
            }
            if !asides.heard() {
                return Err(Stopped::Unheard);
            }
            if self.errand.guard.is_cancelled() {
                return Err(broken(&"the client has cancelled the call"));
            }
            let limit = limit.min(last.saturating_duration_since(Instant::now()));
            let next = self.errand.relay.clock.within(limit, rest.piece()).await;
            match next.map_err(|_| broken(&format_args!("no more came within {limit:?}")))? {
                Ok(Some(piece)) => passage.pass(&piece, &mut out).map_err(|why| broken(&why))?,
                Ok(None) => break,
                Err(failure) => return Err(broken(&failure)),
            }
        }
        asides.piece(Some(passage.end().map_err(|why| broken(&why))?)).await;
        Ok(())
    }

    /// Remembers whose the resources are that a result names.
    fn note_uris(&self, server: &ServerName, passage: &mut Passage) {
        let uris = passage.uris();
        if uris.is_empty() || self.in_own_view() {
            return;
        }
        let relay = &self.errand.relay;
        for uri in uris {
            relay.sightings.note(server, &seen_by(self.whose(), &uri));
        }
        let snapshot = relay.fleet.snapshot();
        relay.sightings.retain(|server| snapshot.config.servers.contains_key(server));
    }
}

/// Why not all has passed.
enum Stopped {
    /// The client has gone.
    Unheard,
    Broken(String),
}
