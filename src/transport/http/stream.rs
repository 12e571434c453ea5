//! The stream of messages that belong to no call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Http;
use super::asking::Asking;
use super::events::Events;
use super::head::What;
use super::judge::Verdict;
use crate::transport::Failure;
use crate::wire::Message;

/// The stream of messages that belong to no call. Nothing is read ahead: a slow reader slows the server.
#[derive(Debug)]
pub(in crate::transport) struct Stream {
    http: Arc<Http>,
    events: Events,
}

impl Stream {
    /// Opens the stream, where the last one ended if the server lets us.
    pub(in crate::transport) async fn open(http: &Arc<Http>) -> Result<Self, Failure> {
        let last = http.last_event().take();
        if last.is_some() {
            match Self::try_open(http, last).await {
                // It may have forgotten the event, or never have known the header.
                Err(Failure::Unsupported(_) | Failure::Status { .. }) => {}
                opened => return opened.map_err(|failure| http.told(failure)),
            }
        }
        Self::try_open(http, None).await.map_err(|failure| http.told(failure))
    }

    async fn try_open(http: &Arc<Http>, last: Option<String>) -> Result<Self, Failure> {
        let events = http.events(last).await?;
        http.streamed.store(true, Ordering::Relaxed);
        Ok(Self { http: Arc::clone(http), events })
    }

    pub(in crate::transport) async fn next(&mut self) -> Result<Message, Failure> {
        let Self { http, events } = self;
        let next = events.next_sound(http).await.map_err(|failure| http.told(failure))?;
        next.ok_or_else(|| http.told(Failure::Cut("the stream ended".into())))
    }

    pub(in crate::transport) fn retry(&self) -> Option<std::time::Duration> {
        self.events.retry()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(id) = self.events.last_id() {
            *self.http.last_event() = Some(id.to_owned());
        }
    }
}

impl Http {
    /// Asks for a stream of events, from after the event `last` where that is given.
    pub(super) async fn events(&self, last: Option<String>) -> Result<Events, Failure> {
        let (what, mut hops) = (What::Get(last), 0);
        loop {
            let head = self.head.load_full();
            let response = Asking::repeatable(true).response(self, &head, &what).await?;
            match head.judge(&response) {
                Verdict::Events => return Ok(Events::new(response.body, self.sizes)),
                Verdict::Elsewhere(uri) => self.follow(&uri, &mut hops, response)?,
                Verdict::Error(code) if code >= 500 => {
                    return Err(self.status(code, response.body).await);
                }
                // A server without such a stream may know no GET here at all; one that had it has lost our session.
                Verdict::Refused(Failure::SessionGone) if !self.has_streamed() => {
                    self.leave(response.body);
                    return Err(Failure::Unsupported("offers no stream (HTTP 404)".into()));
                }
                Verdict::Refused(failure) => {
                    self.leave(response.body);
                    return Err(failure);
                }
                Verdict::Error(_) | Verdict::Json | Verdict::Nothing => {
                    let code = response.status.as_u16();
                    self.leave(response.body);
                    return Err(Failure::Unsupported(format!("offers no stream (HTTP {code})")));
                }
            }
        }
    }
}
