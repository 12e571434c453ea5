//! One call over HTTP, from its POST to its answer.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderValue;
use hyper_util::client::legacy::ResponseFuture;
use tokio::time::Sleep;

use super::body::{Events, Whole};
use super::head::{Head, session_id};
use super::judge::Verdict;
use super::{ERROR_BODY, Http, unsent};
use crate::transport::{Failure, batch};
use crate::wire::{Kind, Message};

/// Before a stream that ended early is asked for again, where the server names no time.
const RETRY: Duration = Duration::from_secs(1);
/// The bounds of the time that it may name.
const RETRY_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// How often a stream is asked for again without a new event.
const RESUMES: u8 = 3;

/// One call over HTTP.
#[derive(Debug)]
pub(in crate::transport) struct Exchange {
    http: Arc<Http>,
    id: u64,
    text: Bytes,
    /// What the last request was made from.
    head: Arc<Head>,
    hops: u8,
    /// The session id that the response offers; ours once the answer is a result.
    offered: Option<HeaderValue>,
    /// Where the stream got to, and how often it was asked for again since.
    reached: (Option<String>, u8),
    asides: VecDeque<Message>,
    answer: Option<Message>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The response's head is awaited.
    Waiting(ResponseFuture),
    /// A single text; with the status where that is an error.
    Reading(Whole, Option<u16>),
    Streaming(Box<Events>),
    /// The server ended the stream to be asked for the rest later (revision 2025-11-25), or it broke.
    Pausing(Pin<Box<Sleep>>),
    Over(Failure),
}

impl Exchange {
    pub(super) fn new(http: Arc<Http>, id: u64, text: Bytes) -> Self {
        let head = http.head.load_full();
        let stage = Stage::Waiting(http.client.request(head.post(text.clone())));
        Self {
            http,
            id,
            text,
            head,
            hops: 0,
            offered: None,
            reached: (None, 0),
            asides: VecDeque::new(),
            answer: None,
            stage,
        }
    }

    /// The next message; the answer is the last. Cancel-safe: whatever was begun stands in `stage`.
    pub(in crate::transport) async fn next(&mut self) -> Result<Message, Failure> {
        let http = Arc::clone(&self.http);
        let found = http.until_cut(self.advance()).await;
        if let Err(failure) = &found {
            self.stage = Stage::Over(failure.clone());
        }
        found
    }

    async fn advance(&mut self) -> Result<Message, Failure> {
        loop {
            if let Some(aside) = self.asides.pop_front() {
                return Ok(aside);
            }
            if let Some(answer) = self.answer.take() {
                self.finish(&answer).await;
                return Ok(answer);
            }
            match &mut self.stage {
                Stage::Waiting(response) => {
                    let response = response.await;
                    self.open(response.map_err(|error| unsent(&error))?)?;
                }
                Stage::Reading(body, status) => {
                    let (status, read) = (*status, body.read().await);
                    self.stage = Stage::Over(Failure::Garbage("no answer in the body".into()));
                    self.read(status, read)?;
                }
                Stage::Streaming(events) => match events.next(&self.http.secrets).await {
                    Ok(Some(message)) => self.sort(message),
                    Ok(None) => self.pause(Failure::Cut("the stream ended without an answer".into()))?,
                    Err(failure @ Failure::Cut(_)) => self.pause(failure)?,
                    Err(failure) => return Err(failure),
                },
                Stage::Pausing(sleep) => {
                    sleep.await;
                    self.head = self.http.head.load_full();
                    let request = self.head.get(self.reached.0.as_deref());
                    self.stage = Stage::Waiting(self.http.client.request(request));
                }
                Stage::Over(failure) => return Err(failure.clone()),
            }
        }
    }

    /// The response's head is there.
    fn open(&mut self, response: Response<Incoming>) -> Result<(), Failure> {
        match self.head.judge(&response) {
            // A stream that cannot be gone on with leaves the call cut, whatever the reason.
            Verdict::Elsewhere(_)
            | Verdict::Refused(_)
            | Verdict::Error(_)
            | Verdict::Json
            | Verdict::Nothing
                if self.reached.0.is_some() =>
            {
                self.http.leave(response.into_body());
                return Err(Failure::Cut("the stream ended without an answer".into()));
            }
            Verdict::Json => {
                self.offered = session_id(response.headers());
                self.stage = Stage::Reading(Whole::new(response.into_body(), self.http.sizes.message), None);
            }
            Verdict::Events => {
                self.offered = session_id(response.headers());
                self.stage = Stage::Streaming(Box::new(Events::new(response.into_body(), self.http.sizes)));
            }
            Verdict::Error(code) => {
                self.stage = Stage::Reading(Whole::new(response.into_body(), ERROR_BODY), Some(code));
            }
            Verdict::Nothing => {
                self.http.leave(response.into_body());
                return Err(Failure::Garbage("it took the request without an answer".into()));
            }
            Verdict::Refused(failure) => {
                self.http.leave(response.into_body());
                return Err(failure);
            }
            Verdict::Elsewhere(uri) => {
                self.http.follow(&uri, &mut self.hops, response)?;
                self.head = self.http.head.load_full();
                self.stage = Stage::Waiting(self.http.client.request(self.head.post(self.text.clone())));
            }
        }
        Ok(())
    }

    /// The body is there. With an error status it may be an answer all the same.
    fn read(&mut self, status: Option<u16>, read: Result<Bytes, Failure>) -> Result<(), Failure> {
        let Some(code) = status else {
            let text = read?;
            let depth = self.http.sizes.depth;
            return batch::each(text.clone(), depth, |message| self.sort(message))
                .map_err(|why| batch::garbage(&text, &why, &self.http.secrets));
        };
        let text = read.unwrap_or_default();
        match Message::parse(text.clone(), self.http.sizes.depth) {
            Ok(message) if code == 400 && self.head.has_session && misses_session(&message) => {
                return Err(Failure::SessionGone);
            }
            Ok(message) if self.is_answer(&message) => self.answer = Some(message),
            _ => return Err(Failure::Status { code, snippet: self.http.secrets.snippet(&text) }),
        }
        Ok(())
    }

    fn is_answer(&self, message: &Message) -> bool {
        match message.kind() {
            Kind::Result => message.number() == Some(self.id),
            // A server that could not read the request's id cannot repeat it.
            Kind::Error => message.id().is_none() || message.number() == Some(self.id),
            Kind::Request | Kind::Notification => false,
        }
    }

    fn sort(&mut self, message: Message) {
        match message.kind() {
            Kind::Request | Kind::Notification => self.asides.push_back(message),
            Kind::Result | Kind::Error if self.answer.is_none() && self.is_answer(&message) => {
                self.answer = Some(message);
            }
            Kind::Result | Kind::Error => self.http.tally.stray.add(1),
        }
    }

    /// The stream ended early: asks for the rest later, where it can.
    fn pause(&mut self, why: Failure) -> Result<(), Failure> {
        let Stage::Streaming(events) = &self.stage else { return Err(why) };
        let reached = events.last_id().map(str::to_owned);
        let retry = events.retry().unwrap_or(RETRY).clamp(RETRY_BOUNDS.0, RETRY_BOUNDS.1);
        match (reached, &mut self.reached) {
            (None, (None, _)) => return Err(why),
            (Some(id), (Some(before), tries)) if id == *before => *tries += 1,
            (Some(id), reached) => *reached = (Some(id), 1),
            (None, (Some(_), tries)) => *tries += 1,
        }
        if !self.head.has_session || self.reached.1 > RESUMES {
            return Err(why);
        }
        self.stage = Stage::Pausing(Box::pin(tokio::time::sleep(retry)));
        Ok(())
    }

    async fn finish(&mut self, answer: &Message) {
        if let (Some(id), Kind::Result) = (self.offered.take(), answer.kind()) {
            self.http.take_session(&id);
        }
        let over = Stage::Over(Failure::Cut("it has answered already".into()));
        if let Stage::Streaming(events) = std::mem::replace(&mut self.stage, over) {
            // Most servers end the stream right behind the answer. Dropped before that, the connection would be lost.
            let mut body = events.into_body();
            if !ends_now(&mut body).await {
                self.http.leave(body);
            }
        }
    }
}

/// Many servers tell a lost session so (those made after the first example of the TypeScript SDK), though the
/// specification's word for it is 404.
fn misses_session(message: &Message) -> bool {
    let told = message.body().unwrap_or_default();
    message.kind() == Kind::Error && message.id().is_none() && told.to_ascii_lowercase().contains("session")
}

/// Whether the body's end is there already.
async fn ends_now(body: &mut Incoming) -> bool {
    poll_fn(|cx| Poll::Ready(matches!(Pin::new(&mut *body).poll_frame(cx), Poll::Ready(None)))).await
}
