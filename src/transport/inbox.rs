//! Messages that wait for their one reader.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Failure;
use crate::wire::Message;

/// Most bytes of asides that wait, beside the newest.
const BYTES: usize = 4 << 20;

/// Messages that wait for their one reader: a bounded row of asides, then the end.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    news: Notify,
    most: usize,
}

#[derive(Debug)]
struct State {
    asides: VecDeque<Message>,
    bytes: usize,
    end: Option<Result<Message, Failure>>,
}

impl Inbox {
    /// Keeps `most` asides.
    pub(super) fn new(most: usize) -> Self {
        let state = State { asides: VecDeque::new(), bytes: 0, end: None };
        Self { state: Mutex::new(state), news: Notify::new(), most }
    }

    /// Adds an aside; tells whether the oldest had to go for it.
    pub(super) fn push(&self, message: Message) -> bool {
        let mut state = self.state();
        let mut full = false;
        while state.asides.len() >= self.most || state.bytes > BYTES {
            full |= state.pop().is_some();
        }
        state.bytes += message.text().len();
        state.asides.push_back(message);
        drop(state);
        self.news.notify_one();
        full
    }

    /// Sets what comes after the asides, for good; the first one counts.
    pub(super) fn end(&self, end: Result<Message, Failure>) {
        self.state().end.get_or_insert(end);
        self.news.notify_one();
    }

    /// The next message. Cancel-safe.
    pub(super) async fn next(&self) -> Result<Message, Failure> {
        loop {
            {
                let mut state = self.state();
                if let Some(aside) = state.pop() {
                    return Ok(aside);
                }
                if let Some(end) = &state.end {
                    return end.clone();
                }
            }
            self.news.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self) -> Option<Message> {
        let aside = self.asides.pop_front()?;
        self.bytes -= aside.text().len();
        Some(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(text.to_owned().into(), 9).unwrap()
    }

    #[tokio::test]
    async fn asides_come_first_and_the_oldest_goes() {
        let inbox = Inbox::new(2);
        for n in 0..4 {
            assert_eq!(inbox.push(message(&format!(r#"{{"jsonrpc":"2.0","method":"m{n}"}}"#))), n >= 2);
        }
        inbox.end(Ok(message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)));
        inbox.end(Err(Failure::Cut("late".into())));
        let mut read = Vec::new();
        for _ in 0..3 {
            read.push(inbox.next().await.unwrap().method().to_owned());
        }
        assert_eq!(read, ["m2", "m3", ""]);
    }
}
