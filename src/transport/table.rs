//! Which message goes where, where one stream brings all of them: from a child, or from a server of the older transport.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::Failure;
use super::inbox::Inbox;
use super::tally::Tally;
use crate::wire::{Kind, Message, members};

/// Asides kept per call while nobody reads them.
const ASIDES: usize = 4096;
/// Messages kept that belong to no call.
const UNBOUND: usize = 4096;
/// How long an answer waits for whoever listens to take in what came before it.
const ORDER: Duration = Duration::from_secs(1);

/// The calls in flight, and the messages that belong to none.
#[derive(Debug)]
pub(super) struct Table {
    calls: Mutex<Calls>,
    pub(super) unbound: Inbox,
    listened: AtomicBool,
    order: Order,
    pub(super) tally: Tally,
}

/// How far the messages that belong to no call have come: an answer must not overtake those that came before it, since
/// they may be of the same call after all.
#[derive(Debug, Default)]
struct Order {
    /// Kept for whoever listens, read by it, and done with: so many.
    told: AtomicU64,
    taken: AtomicU64,
    done: AtomicU64,
    news: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    waiting: HashMap<u64, Arc<Inbox>>,
    /// Why no more can come.
    ended: Option<Failure>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            calls: Mutex::default(),
            unbound: Inbox::new(UNBOUND),
            listened: AtomicBool::new(false),
            order: Order::default(),
            tally: Tally::default(),
        }
    }

    /// A place for what belongs to the call `id`.
    pub(super) fn enter(self: &Arc<Self>, id: u64) -> Result<Call, Failure> {
        let mut calls = self.calls();
        if let Some(why) = &calls.ended {
            return Err(gone(why));
        }
        let inbox = Arc::new(Inbox::new(ASIDES));
        calls.waiting.insert(id, Arc::clone(&inbox));
        drop(calls);
        Ok(Call { id, inbox, table: Arc::clone(self) })
    }

    /// Why the stream is of no use any more, if so.
    pub(super) fn ended(&self) -> Option<Failure> {
        self.calls().ended.as_ref().map(gone)
    }

    /// Ends every call and the listening.
    pub(super) fn end(&self, why: &Failure) {
        let waiting = {
            let mut calls = self.calls();
            calls.ended.get_or_insert_with(|| why.clone());
            std::mem::take(&mut calls.waiting)
        };
        for inbox in waiting.into_values() {
            inbox.end(Err(why.clone()));
        }
        self.unbound.end(Err(why.clone()));
    }

    /// Takes the only right to read what belongs to no call.
    pub(super) fn listen(self: &Arc<Self>) -> Result<Unbound, Failure> {
        if self.listened.swap(true, Ordering::AcqRel) {
            return Err(Failure::Unsupported("is listened to already".into()));
        }
        Ok(Unbound(Arc::clone(self)))
    }

    /// Brings a message to where it belongs.
    pub(super) fn route(&self, message: Message) {
        let call = match message.kind() {
            // An error without an id names no call, and guessing could end another one.
            Kind::Result | Kind::Error => {
                let call = message.number().and_then(|id| self.calls().waiting.remove(&id));
                return match call {
                    Some(inbox) => inbox.end(Ok(message)),
                    None => self.tally.stray(),
                };
            }
            Kind::Notification if message.method() == "notifications/progress" => {
                let call = token(&message).and_then(|id| self.calls().waiting.get(&id).cloned());
                if call.is_none() {
                    return self.tally.stray();
                }
                call
            }
            Kind::Notification | Kind::Request => None,
        };
        let full = call.as_deref().unwrap_or(&self.unbound).push(message);
        if full {
            self.tally.overflow();
        }
        if call.is_none() && !full {
            self.order.told.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits until whoever listens is done with all that came so far, for a while.
    async fn in_order(&self) {
        let told = self.order.told.load(Ordering::Acquire);
        let done =
            || self.order.done.load(Ordering::Acquire) >= told || !self.listened.load(Ordering::Acquire);
        if done() {
            return;
        }
        let catching_up = async {
            loop {
                let news = self.order.news.notified();
                if done() {
                    return;
                }
                news.await;
            }
        };
        drop(timeout(ORDER, catching_up).await);
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stream has ended, so nothing can have processed what was not written.
pub(super) fn gone(why: &Failure) -> Failure {
    Failure::Unreachable(if let Failure::Cut(why) = why { why.clone() } else { why.to_string() })
}

fn token(message: &Message) -> Option<u64> {
    let params = message.params()?;
    let [token] = members(params, ["progressToken"]).ok()?;
    params.get(token?)?.parse().ok()
}

/// One call in the table; gone from it when dropped.
#[derive(Debug)]
pub(super) struct Call {
    id: u64,
    inbox: Arc<Inbox>,
    table: Arc<Table>,
}

impl Call {
    /// The next message. Cancel-safe: an answer stays where it is.
    pub(super) async fn next(&mut self) -> Result<Message, Failure> {
        let message = self.inbox.next().await?;
        if matches!(message.kind(), Kind::Result | Kind::Error) {
            self.table.in_order().await;
        }
        Ok(message)
    }

    /// Ends it, unless its answer is there.
    pub(super) fn fail(&self, why: Failure) {
        self.inbox.end(Err(why));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = self.table.calls();
        if calls.waiting.get(&self.id).is_some_and(|inbox| Arc::ptr_eq(inbox, &self.inbox)) {
            calls.waiting.remove(&self.id);
        }
    }
}

/// What belongs to no call; only one at a time.
#[derive(Debug)]
pub(super) struct Unbound(Arc<Table>);

impl Unbound {
    /// The next message. Who asks for it is done with the one before. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Message, Failure> {
        let order = &self.0.order;
        let taken = order.taken.load(Ordering::Acquire);
        if order.done.swap(taken, Ordering::AcqRel) != taken {
            order.news.notify_waiters();
        }
        let message = self.0.unbound.next().await?;
        order.taken.fetch_add(1, Ordering::AcqRel);
        Ok(message)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        self.0.listened.store(false, Ordering::Release);
        self.0.order.news.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(table: &Table, text: &str) {
        table.route(Message::parse(text.to_owned().into(), 9).unwrap());
    }

    #[tokio::test]
    async fn everything_goes_to_one_place() {
        let table = Arc::new(Table::new());
        let (mut one, mut two) = (table.enter(1).unwrap(), table.enter(2).unwrap());
        let mut unbound = table.listen().unwrap();
        assert!(matches!(table.listen(), Err(Failure::Unsupported(_))));
        route(&table, r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2}}"#);
        route(&table, r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9}}"#);
        route(&table, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        route(&table, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        route(&table, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        route(&table, r#"{"jsonrpc":"2.0","id":null,"error":{}}"#);
        route(&table, r#"{"jsonrpc":"2.0","id":1,"error":{}}"#);
        assert_eq!(two.next().await.unwrap().method(), "notifications/progress");
        assert_eq!(two.next().await.unwrap().kind(), Kind::Result);
        assert_eq!(one.next().await.unwrap().kind(), Kind::Error);
        assert_eq!(unbound.next().await.unwrap().method(), "ping");
        assert_eq!(table.tally.counts().stray, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_what_came_before_it() {
        let table = Arc::new(Table::new());
        let (mut one, mut unbound) = (table.enter(1).unwrap(), table.listen().unwrap());
        for n in 0..UNBOUND + 44 {
            route(&table, &format!(r#"{{"jsonrpc":"2.0","method":"m{n}"}}"#)); // some are lost
        }
        route(&table, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        for _ in 0..UNBOUND {
            unbound.next().await.unwrap();
            let early = tokio::select! {
                biased;
                _ = one.next() => true,
                () = tokio::task::yield_now() => false,
            };
            assert!(!early, "the last one is not done with");
        }
        let (answer, ()) = tokio::join!(one.next(), async {
            tokio::select! {
                _ = unbound.next() => {}
                () = tokio::task::yield_now() => {}
            }
        });
        assert_eq!(answer.unwrap().kind(), Kind::Result);
        // A listener that does not read holds nobody up for long, and none nobody at all.
        let mut two = table.enter(2).unwrap();
        route(&table, r#"{"jsonrpc":"2.0","method":"m"}"#);
        route(&table, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        let started = tokio::time::Instant::now();
        two.next().await.unwrap();
        assert_eq!(started.elapsed().as_secs(), ORDER.as_secs());
        drop(unbound);
        two.next().await.unwrap();
        assert_eq!(started.elapsed().as_secs(), ORDER.as_secs());
    }

    #[tokio::test]
    async fn the_end_reaches_everybody() {
        let table = Arc::new(Table::new());
        let (mut one, dropped, mut unbound) =
            (table.enter(1).unwrap(), table.enter(2).unwrap(), table.listen().unwrap());
        drop(dropped);
        assert_eq!(table.calls().waiting.len(), 1);
        let why = Failure::Cut("gone".into());
        table.end(&why);
        assert_eq!(one.next().await.unwrap_err(), why);
        assert_eq!(unbound.next().await.unwrap_err(), why);
        assert_eq!(table.enter(3).unwrap_err(), Failure::Unreachable("gone".into()));
    }
}
