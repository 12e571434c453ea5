//! What servers ask a client: requests that go out under ids of ours and whose answers come back by POST.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Session;
use crate::wire::{Kind, Message};

/// Most requests to one client that wait for an answer.
const MOST: usize = 64;
/// What a client may say of one of them before it is read: a little progress, and the answer.
const ROOM: usize = 8;

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
    waiting: HashMap<u64, mpsc::Sender<Message>>,
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
    said: mpsc::Receiver<Message>,
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
        let (number, (tell, said)) = (open.last, mpsc::channel(ROOM));
        open.waiting.insert(number, tell);
        drop(legs);
        Ok(Leg { session: Arc::clone(self), number, said })
    }

    /// Takes the client's answer to one of our requests. `false` where none of that id is open.
    pub fn answered(&self, answer: Message) -> bool {
        let number = answer.id().and_then(|id| number(std::str::from_utf8(&id).ok()?));
        let waiting = number.and_then(|number| self.legs().open().as_mut()?.waiting.remove(&number));
        // There is room: progress leaves one place free.
        waiting.is_some_and(|waiting| waiting.try_send(answer).is_ok())
    }

    /// Takes the client's progress on one of our requests, whose id is its token. `false` where none of that id is open,
    /// or nobody has read the progress before it.
    pub fn progressed(&self, progress: Message) -> bool {
        let token = progress.params_members(["progressToken"]).ok().and_then(|[token]| token);
        let number = token.and_then(|token| number(progress.slice(token)?));
        let legs = self.legs().open();
        let waiting = number.and_then(|number| legs.as_ref()?.waiting.get(&number));
        waiting.is_some_and(|waiting| waiting.capacity() > 1 && waiting.try_send(progress).is_ok())
    }
}

/// The number in an id of ours.
fn number(id: &str) -> Option<u64> {
    id.strip_prefix("\"gw-")?.strip_suffix('"')?.parse().ok()
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

    /// What the client says: progress, then its answer; `None` where its session has ended.
    pub fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.said.poll_recv(cx)
    }

    /// The client's answer, a result or an error; `None` where its session has ended. Cancel-safe.
    pub async fn answer(&mut self) -> Option<Message> {
        loop {
            let said = self.said.recv().await?;
            if said.kind() != Kind::Notification {
                return Some(said);
            }
        }
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.session.legs().forget(self.number);
    }
}
