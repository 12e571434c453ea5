//! Messages of clients: one, or in sessions of 2025-03-26 several.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Response, StatusCode};

use super::accept::{Accepts, sends_json};
use super::body::Body;
use super::endpoint::{Endpoint, whose};
use super::era::{Era, Version, any_modern};
use super::intake::later;
use super::modern::no_batches;
use super::peer::Peer;
use super::refuse::{Turned, code_of, malformed, refuse};
use super::reply::{Reply, accepted, busy, json};
use crate::auth::Visitor;
use crate::catalog::View;
use crate::mcp::{Revision, Shown, header::SESSION_ID, method};
use crate::metrics::Rejection;
use crate::relay::{Call, Caller, Handled};
use crate::session::Session;
use crate::wire::{self, Code, Kind, Malformed, Message};

/// Most messages in one body.
const BATCH: usize = 64;

impl Endpoint {
    pub(super) async fn post(
        &self,
        view: View,
        visitor: &Visitor,
        headers: &HeaderMap,
        body: Incoming,
        peer: &Arc<Peer>,
    ) -> Result<Response<Body>, Turned> {
        if !sends_json(headers) {
            let text = "send the message as Content-Type: application/json, not compressed";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(refuse(Rejection::Media, status, Code::InvalidRequest, text));
        }
        let accepts = Accepts::of(headers);
        if !accepts.json && !accepts.events {
            let text = "answers are application/json or text/event-stream; accept both";
            return Err(refuse(Rejection::Media, StatusCode::NOT_ACCEPTABLE, Code::InvalidRequest, text));
        }
        let (text, _held) = self.read(body, peer).await?;
        let (version, depth) = (Version::of(headers), self.fleet.limits().json_depth);
        if text.trim_ascii_start().starts_with(b"[") {
            if version == Version::Modern || any_modern(&text, depth) {
                return Err(no_batches());
            }
            let caller = self.caller(view, visitor, headers, version, accepts, None)?;
            // In a box, so that a single message does not carry the room for it.
            return Box::pin(self.batch(&caller, accepts, text)).await;
        }
        let message = Message::parse(text, depth).map_err(|bad| malformed(&bad))?;
        match Era::of(version, &message) {
            Era::Legacy => self.legacy(view, visitor, headers, version, accepts, message).await,
            // In a box, so that a message of a session does not carry the room for it.
            era @ (Era::Modern(_) | Era::Bare) => {
                Box::pin(self.modern(view, visitor, headers, accepts, era, message, peer)).await
            }
        }
    }

    /// Answers a message of a session.
    async fn legacy(
        &self,
        view: View,
        visitor: &Visitor,
        headers: &HeaderMap,
        version: Version<'_>,
        accepts: Accepts,
        message: Message,
    ) -> Result<Response<Body>, Turned> {
        if message.kind() == Kind::Request && message.method() == method::INITIALIZE {
            return self.initialize(&view, visitor, &message);
        }
        let id = message.id();
        let caller = self.caller(view, visitor, headers, version, accepts, id.as_deref())?;
        Ok(match self.relay.handle(&caller, message) {
            Handled::Now(answer) => self.reply(&caller.session, accepts).now(answer),
            Handled::Later(call) => self.reply(&caller.session, accepts).later(call, id).await,
            Handled::Busy(answer) => return Err(busy(answer)),
            Handled::Accepted => accepted(),
        })
    }

    fn caller(
        &self,
        view: View,
        visitor: &Visitor,
        headers: &HeaderMap,
        version: Version<'_>,
        accepts: Accepts,
        id: Option<&[u8]>,
    ) -> Result<Caller, Turned> {
        let session = self.session(&view, visitor, headers, version, id)?;
        let handed = visitor.handed.clone();
        Ok(Caller { session, view, events: accepts.events, shown: Shown::default(), handed })
    }

    fn reply<'a>(&'a self, session: &'a Arc<Session>, accepts: Accepts) -> Reply<'a> {
        Reply { session, accepts, clock: &self.clock, metrics: &self.metrics }
    }

    fn initialize(
        &self,
        view: &View,
        visitor: &Visitor,
        message: &Message,
    ) -> Result<Response<Body>, Turned> {
        let (answer, agreed) = match self.relay.initialize(view, message) {
            Ok(agreed) => agreed,
            Err(refusal) => return Ok(json(refusal.answer(message.id().as_deref()))),
        };
        let session = self.sessions.open(whose(view, visitor), agreed).map_err(|full| {
            let text = format!("{full}; try again later");
            later(Rejection::SessionsFull, &text)
        })?;
        let mut response = json(answer);
        if let Ok(id) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(SESSION_ID.clone(), id);
        }
        Ok(response)
    }

    /// Takes each message of an array by itself; their calls run side by side.
    async fn batch(&self, caller: &Caller, accepts: Accepts, text: Bytes) -> Result<Response<Body>, Turned> {
        let messages = messages(caller.session.revision(), &text)?;
        let (mut answers, mut calls) = (Vec::new(), Vec::new());
        for text in messages {
            match Message::parse(text, self.fleet.limits().json_depth) {
                Ok(message) if message.method() == method::INITIALIZE => answers.push(alone(&message)),
                Ok(message) => match self.relay.handle(caller, message) {
                    Handled::Now(answer) | Handled::Busy(answer) => answers.push(answer),
                    Handled::Later(call) => calls.push(call),
                    Handled::Accepted => {}
                },
                Err(bad) => answers.push(wire::error(None, code_of(&bad), &bad.to_string())),
            }
        }
        let reply = self.reply(&caller.session, accepts);
        Ok(match Call::join(calls) {
            Some(calls) => reply.all(calls, answers).await,
            None => reply.all_now(answers),
        })
    }
}

/// The messages in the array `text`, each as it stands there.
fn messages(revision: &str, text: &Bytes) -> Result<Vec<Bytes>, Turned> {
    let refused =
        |text: &str| refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::InvalidRequest, text);
    if !Revision::of(revision).is_some_and(Revision::has_batches) {
        let agreed = format!("a batch is of revision 2025-03-26, and this session agreed on {revision}");
        return Err(refused(&format!("{agreed}; send each message by itself")));
    }
    let readable =
        std::str::from_utf8(text).map_err(|bad| malformed(&Malformed::NotJson(bad.to_string())))?;
    let places = wire::elements(readable).map_err(|bad| malformed(&bad))?;
    match places.len() {
        0 => Err(refused("the batch is empty; send at least one message")),
        1..=BATCH => Ok(places.into_iter().map(|place| text.slice(place)).collect()),
        many => Err(refused(&format!("a batch of {many} messages; send at most {BATCH} together"))),
    }
}

/// Why `initialize` is not taken in company: the session that the batch belongs to would have to be there before it.
fn alone(message: &Message) -> Bytes {
    let text = "`initialize` cannot be part of a batch; send it by itself";
    wire::error(message.id().as_deref(), Code::InvalidRequest, text)
}
