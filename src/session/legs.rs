//! What servers ask a client: requests that go out under ids of ours and whose answers come back by POST.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Session;
use crate::wire::Message;

/// Most requests to one client that wait for an answer.
const MOST: usize = 64;

/// As many of a client's answers are awaited as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MOST} requests to this client wait for its answer already")]
pub struct TooManyLegs;

/// The open requests to one client.
#[derive(Debug, Default)]
pub(super) struct Legs(Mutex<Option<Box<Open>>>);

#[derive(Debug, Default)]
struct Open {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Message>>,
    closed: bool,
}

impl Legs {
    fn open(&self) -> MutexGuard<'_, Option<Box<Open>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, number: u64) {
        if let Some(open) = self.open().as_mut() {
            open.waiting.remove(&number);
        }
    }

    /// Nobody answers any more.
    pub(super) fn close(&self) {
        if let Some(open) = self.open().as_mut() {
            open.closed = true;
            open.waiting.clear();
        }
    }
}

/// One request to a client. Dropped, its answer is no longer awaited.
#[derive(Debug)]
pub struct Leg {
    session: Arc<Session>,
    number: u64,
    answer: oneshot::Receiver<Message>,
}

impl Session {
    /// Opens a request to the client; whoever opens it puts it on a stream.
    ///
    /// # Errors
    /// Where too many are open.
    pub fn ask(self: &Arc<Self>) -> Result<Leg, TooManyLegs> {
        let mut legs = self.legs().open();
        let open = legs.get_or_insert_default();
        if open.waiting.len() >= MOST || open.closed {
            return Err(TooManyLegs);
        }
        open.last += 1;
        let (number, (tell, answer)) = (open.last, oneshot::channel());
        open.waiting.insert(number, tell);
        drop(legs);
        Ok(Leg { session: Arc::clone(self), number, answer })
    }

    /// Takes the client's answer to one of our requests. `false` where none of that id is open.
    pub fn answered(&self, answer: Message) -> bool {
        let number = answer.id().and_then(|id| {
            let text = std::str::from_utf8(&id).ok()?;
            text.strip_prefix("\"gw-")?.strip_suffix('"')?.parse().ok()
        });
        let waiting = number.and_then(|number: u64| self.legs().open().as_mut()?.waiting.remove(&number));
        waiting.is_some_and(|waiting| waiting.send(answer).is_ok())
    }
}

impl Leg {
    /// Its id as JSON. A string, so that it looks like none of the client's own.
    pub fn id(&self) -> String {
        format!("\"gw-{}\"", self.number)
    }

    /// `request` under this id.
    pub fn write(&self, request: &Message) -> Bytes {
        let at = request.id_span().unwrap_or_default();
        request.splice(&mut [(at, self.id().as_bytes())])
    }

    /// The client's answer, a result or an error; `None` where its session has ended. Cancel-safe.
    pub async fn answer(&mut self) -> Option<Message> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.session.legs().forget(self.number);
    }
}
