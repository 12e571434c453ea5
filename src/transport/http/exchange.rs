//! One call over HTTP, from its POST to its answer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use tokio::time::Sleep;

use super::asking::Asking;
use super::body::Body;
use super::events::Events;
use super::head::{Head, What};
use super::judge::{Response, Verdict};
use super::whole::{Came, Rest, Whole};
use super::{CLOSED, ERROR_BODY, Http};
use crate::mcp::{Letter, Revision};
use crate::transport::{Failure, batch};
use crate::wire::{Kind, Message};

/// Before a stream that ended early is asked for again, where the server names no time.
const RETRY: Duration = Duration::from_secs(1);
/// The bounds of the time that it may name.
const RETRY_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// How often a stream is asked for again without a new event.
const RESUMES: u8 = 3;

/// Results longer than this pass through in pieces, where they can. Up to it one that breaks off is answered by an error in
/// its place, which is worth more than the memory.
const LONG: usize = 256 << 10;

/// One call over HTTP.
pub(in crate::transport) struct Exchange {
    http: Arc<Http>,
    id: u64,
    what: What,
    /// What the last request was made from.
    head: Arc<Head>,
    hops: u8,
    /// It changes nothing, so it may reach the server twice.
    repeatable: bool,
    /// The session id that the response offers; ours once the answer is a result.
    offered: Option<HeaderValue>,
    /// Where the stream got to, and how often it was asked for again since.
    reached: (Option<String>, u8),
    /// An answer with more bytes is given as it [opens](Message::opening) first.
    long: usize,
    stage: Stage,
}

enum Stage {
    /// The response's head is awaited.
    Waiting(Asking),
    /// A single text; with the status where that is an error.
    Reading(Whole, Option<u16>),
    Streaming(Box<Events>),
    /// A long answer, of which the start was given.
    Passing(Rest),
    /// Several messages came in one text; the answer, if they hold it, is the last.
    Several(VecDeque<Message>),
    /// The server ended the stream to be asked for the rest later (revision 2025-11-25), or it broke.
    Pausing(Pin<Box<Sleep>>),
    Answered,
    Over(Failure),
}

/// What a message is for a call.
enum Role {
    Aside,
    Answer,
    /// An answer to another call.
    Stray,
}

impl Exchange {
    pub(super) fn new(http: Arc<Http>, id: u64, letter: Letter) -> Self {
        let head = http.head.load_full();
        let stage = Stage::Waiting(Asking::default());
        let long = if letter.in_pieces { LONG } else { usize::MAX };
        let what = What::Post(letter);
        Self {
            http,
            id,
            what,
            head,
            hops: 0,
            repeatable: false,
            offered: None,
            reached: (None, 0),
            long,
            stage,
        }
    }

    /// May reach the server twice. Said before anything is sent.
    pub(in crate::transport) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self.stage = Stage::Waiting(Asking::repeatable(true));
        self
    }

    /// Names a revision before one is agreed on. Said before anything is sent.
    pub(in crate::transport) fn proposing(mut self, revision: Revision) -> Self {
        self.head = Arc::new(self.head.with_revision(revision));
        self
    }

    /// The next message; the answer is the last. Cancel-safe: whatever was begun stands in `stage`.
    pub(in crate::transport) async fn next(&mut self) -> Result<Message, Failure> {
        let found = self.advance().await.map_err(|failure| self.http.told(failure));
        if let Err(failure) = &found {
            self.stage = Stage::Over(failure.clone());
        }
        found
    }

    async fn advance(&mut self) -> Result<Message, Failure> {
        loop {
            match &mut self.stage {
                Stage::Waiting(asking) => {
                    let response = asking.response(&self.http, &self.head, &self.what).await?;
                    self.open(response)?;
                }
                Stage::Reading(body, status) => {
                    let long = if status.is_none() { self.long } else { usize::MAX };
                    let read = match (*status, body.read(&self.http.pool, long).await) {
                        (_, Ok(Came::Start(start))) => {
                            self.long = usize::MAX;
                            self.opening(start)
                        }
                        (status, Ok(Came::Whole(text))) => self.read(status, Ok(text))?,
                        (status, Err(failure)) => self.read(status, Err(failure))?,
                    };
                    if let Some(message) = read {
                        return Ok(message);
                    }
                }
                Stage::Streaming(events) => match events.next_or_opening(&self.http, &mut self.long).await {
                    Ok(Some(message)) if message.is_open() => {
                        if self.may_answer(&message) {
                            return Ok(message);
                        }
                    }
                    Ok(Some(message)) => match self.role(&message) {
                        Role::Aside => return Ok(message),
                        Role::Stray => self.http.tally.stray(),
                        Role::Answer => return Ok(self.finish(message)),
                    },
                    Ok(None) => self.pause(Failure::Cut("the stream ended without an answer".into()))?,
                    Err(failure @ Failure::Cut(_)) => self.pause(failure)?,
                    Err(failure) => return Err(failure),
                },
                Stage::Several(messages) => {
                    let none = || Failure::Garbage("no answer in the body".into());
                    let message = messages.pop_front().ok_or_else(none)?;
                    return match self.role(&message) {
                        Role::Aside => Ok(message),
                        Role::Answer | Role::Stray => Ok(self.finish(message)),
                    };
                }
                Stage::Pausing(sleep) => {
                    tokio::select! {
                        biased;
                        () = self.http.pool.cut.wait() => return Err(Failure::Cut(CLOSED.into())),
                        () = sleep => {}
                    }
                    self.head = self.http.head.load_full();
                    self.what = What::Get(self.reached.0.clone());
                    self.repeatable = true;
                    self.stage = Stage::Waiting(Asking::repeatable(true));
                }
                Stage::Passing(_) | Stage::Answered => {
                    return Err(Failure::Cut("it has answered already".into()));
                }
                Stage::Over(failure) => return Err(failure.clone()),
            }
        }
    }

    /// More of the answer that was given [open](Message::is_open); `None` at its end. Cancel-safe.
    pub(in crate::transport) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        if matches!(self.stage, Stage::Reading(..) | Stage::Streaming(_)) {
            match std::mem::replace(&mut self.stage, Stage::Answered) {
                Stage::Reading(body, _) => self.stage = Stage::Passing(body.into_rest()),
                Stage::Streaming(events) => self.stage = Stage::Passing(events.into_rest()),
                Stage::Waiting(_)
                | Stage::Passing(_)
                | Stage::Several(_)
                | Stage::Pausing(_)
                | Stage::Answered
                | Stage::Over(_) => {}
            }
        }
        let Stage::Passing(rest) = &mut self.stage else { return Ok(None) };
        let piece = rest.next(&self.http).await.map_err(|failure| self.http.told(failure));
        match &piece {
            Ok(Some(_)) => {}
            Ok(None) => {
                self.take_session();
                self.stage = Stage::Answered;
            }
            Err(failure) => self.stage = Stage::Over(failure.clone()),
        }
        piece
    }

    /// How a long answer opens, if that tells anything.
    fn opening(&self, start: Bytes) -> Option<Message> {
        Message::opening(start).filter(|opening| self.may_answer(opening))
    }

    /// Whether an opening message may be the answer: a POST is answered by its response, so it is where nothing says
    /// otherwise so far.
    fn may_answer(&self, opening: &Message) -> bool {
        opening.id().is_none() || opening.number() == Some(self.id)
    }

    /// The response's head is there.
    fn open(&mut self, response: Response<Body>) -> Result<(), Failure> {
        match self.head.judge(&response) {
            // A stream that cannot be gone on with leaves the call cut, whatever the reason.
            Verdict::Elsewhere(_)
            | Verdict::Refused(_)
            | Verdict::Error(_)
            | Verdict::Json
            | Verdict::Nothing
                if self.reached.0.is_some() =>
            {
                self.http.leave(response.body);
                return Err(Failure::Cut("the stream ended without an answer".into()));
            }
            Verdict::Json => {
                self.offered = self.head.session_of(&response);
                self.stage = Stage::Reading(Whole::new(response.body, self.http.sizes.message), None);
            }
            Verdict::Events => {
                self.offered = self.head.session_of(&response);
                self.stage = Stage::Streaming(Box::new(Events::new(response.body, self.http.sizes)));
            }
            Verdict::Error(code) => {
                self.stage = Stage::Reading(Whole::new(response.body, ERROR_BODY), Some(code));
            }
            Verdict::Nothing => {
                self.http.leave(response.body);
                return Err(Failure::Garbage("it took the request without an answer".into()));
            }
            Verdict::Refused(failure) => {
                self.http.leave(response.body);
                return Err(failure);
            }
            Verdict::Elsewhere(uri) => {
                self.http.follow(&uri, &mut self.hops, response)?;
                self.head = Arc::new(self.head.at(&uri));
                self.stage = Stage::Waiting(Asking::repeatable(self.repeatable));
            }
        }
        Ok(())
    }

    /// The body is there: with one message or, in revision 2025-03-26, several. With an error status it may be an answer
    /// all the same.
    fn read(
        &mut self,
        status: Option<u16>,
        read: Result<Bytes, Failure>,
    ) -> Result<Option<Message>, Failure> {
        let Some(code) = status else { return self.sort(&read?) };
        let text = read.unwrap_or_default();
        match Message::parse(text.clone(), self.http.sizes.depth) {
            Ok(message) if code == 400 && self.head.has_session && misses_session(&message) => {
                Err(Failure::SessionGone)
            }
            Ok(message) if self.is_answer(&message) => Ok(Some(self.finish(message))),
            _ => Err(Failure::Status { code, snippet: self.http.secrets.load().snippet(&text) }),
        }
    }

    /// Gives back what is alone, and is the answer.
    fn sort(&mut self, text: &Bytes) -> Result<Option<Message>, Failure> {
        let (mut told, mut answer) = (VecDeque::new(), None);
        let each = batch::each(text.clone(), self.http.sizes.depth, |message| match self.role(&message) {
            Role::Aside => told.push_back(message),
            Role::Answer if answer.is_none() => answer = Some(message),
            Role::Answer | Role::Stray => self.http.tally.stray(),
        });
        each.map_err(|why| batch::garbage(text, &why, &self.http.secrets.load()))?;
        if told.is_empty() && answer.is_some() {
            return Ok(answer.map(|answer| self.finish(answer)));
        }
        told.extend(answer);
        self.stage = Stage::Several(told);
        Ok(None)
    }

    fn role(&self, message: &Message) -> Role {
        match message.kind() {
            Kind::Request | Kind::Notification => Role::Aside,
            Kind::Result | Kind::Error if self.is_answer(message) => Role::Answer,
            Kind::Result | Kind::Error => Role::Stray,
        }
    }

    fn is_answer(&self, message: &Message) -> bool {
        match message.kind() {
            Kind::Result => message.number() == Some(self.id),
            // A server that could not read the request's id cannot repeat it.
            Kind::Error => message.id().is_none() || message.number() == Some(self.id),
            Kind::Request | Kind::Notification => false,
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

    /// The answer is there.
    fn finish(&mut self, answer: Message) -> Message {
        if answer.kind() == Kind::Result {
            self.take_session();
        }
        if let Stage::Streaming(events) = std::mem::replace(&mut self.stage, Stage::Answered) {
            // Most servers end the stream right behind the answer. Dropped before that, the connection would be lost.
            self.http.leave(events.into_body());
        }
        answer
    }

    fn take_session(&mut self) {
        if let Some(id) = self.offered.take() {
            self.http.take_session(&id);
        }
    }
}

/// Many servers tell a lost session so (those made after the first example of the TypeScript SDK), though the
/// specification's word for it is 404.
fn misses_session(message: &Message) -> bool {
    let told = message.body().unwrap_or_default();
    message.kind() == Kind::Error && message.id().is_none() && told.to_ascii_lowercase().contains("session")
}
