//! Requests that belong to no session: what is wrong with one is told in a fixed order, so that its author learns of the
//! most basic fault first (PROTOCOL of 2026-07-28: `basic/transports`, `basic/versioning`).

use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};

use super::accept::Accepts;
use super::body::Body;
use super::direct::{Direct, whole};
use super::endpoint::{Endpoint, whose};
use super::era::Era;
use super::listen::hear;
use super::peer::Peer;
use super::refuse::{Turned, refuse};
use super::reply::{accepted, busy, json_with};
use crate::auth::Visitor;
use crate::catalog::View;
use crate::mcp::header::{METHOD, NAME, PROTOCOL_VERSION};
use crate::mcp::{
    Envelope, Revision, Shown, decode_header, method, missing_envelope, named_by, unsupported_data,
};
use crate::metrics::Rejection;
use crate::relay::{Caller, Handled};
use crate::session::Agreed;
use crate::wire::{self, Code, Kind, Message, Text, quoted};

impl Endpoint {
    /// Answers a message without a session.
    pub(super) async fn modern(
        &self,
        view: View,
        (visitor, peer): (&Visitor, &Arc<Peer>),
        headers: &HeaderMap,
        accepts: Accepts,
        era: Era,
        message: Message,
    ) -> Result<Response<Body>, Turned> {
        let envelope = match message.kind() {
            Kind::Request => self.admit(&view, headers, era, &message)?,
            Kind::Notification => {
                agrees(headers, era, &message)?;
                return Ok(accepted()); // there is none that a client could tell us anything by
            }
            Kind::Result | Kind::Error => {
                let text =
                    "no responses are taken here: what a client is asked, it answers in `inputResponses`";
                return Err(fault(None, Code::InvalidRequest, text));
            }
        };
        let id = message.id().unwrap_or_default();
        let session = self.sessions.guest(whose(&view, visitor), agreed(&message, &envelope), envelope.level);
        let caller = Caller {
            session,
            view,
            events: accepts.events,
            shown: Shown::of(headers),
            handed: visitor.handed.clone(),
        };
        if message.method() == method::LISTEN {
            return Box::pin(hear(self, &caller, &message)).await;
        }
        // Before the call begins: one that is dropped runs on.
        let Some(place) = peer.place(self.fleet.limits().calls_per_session) else {
            let text = "too many requests of this connection are in flight; wait until one has ended";
            return Err(busy(wire::error(Some(&id), Code::Internal, text)));
        };
        Ok(match self.relay.handle(&caller, message) {
            Handled::Now(answer) => whole(accepts, answer),
            Handled::Busy(answer) => return Err(busy(answer)),
            Handled::Later(call) => {
                Direct::new(call, caller.session, id, place).answer(accepts, &self.clock, &self.metrics).await
            }
            Handled::Accepted => accepted(),
        })
    }

    /// The envelope of a request with which nothing is wrong up to here. Where it goes, its relay sees.
    fn admit(
        &self,
        view: &View,
        headers: &HeaderMap,
        era: Era,
        message: &Message,
    ) -> Result<Envelope, Turned> {
        let id = message.id();
        let id = id.as_deref();
        let envelope = match era {
            Era::Bare | Era::Legacy if message.method() == method::INITIALIZE => {
                let text = "`initialize` opens a session of an older revision; MCP-Protocol-Version names one without";
                return Err(fault(id, Code::HeaderMismatch, text));
            }
            Era::Bare | Era::Legacy => return Err(incomplete(id, &missing_envelope(message))),
            Era::Modern(envelope) => envelope.map_err(|why| incomplete(id, &why))?,
        };
        repeats(headers, id, &PROTOCOL_VERSION, Some(&*envelope.revision))?;
        if Revision::modern(&envelope.revision).is_none() {
            return Err(unsupported(id, &envelope.revision));
        }
        repeats(headers, id, &METHOD, Some(message.method()))?;
        if !self.relay.serves(view, message.method()) {
            let text = format!("unknown method {}", quoted(message.method()));
            return Err(fault(id, Code::MethodNotFound, &text));
        }
        is_named(headers, id, message)?;
        Ok(envelope)
    }
}

/// Checks what a notification says twice; it need not.
fn agrees(headers: &HeaderMap, era: Era, message: &Message) -> Result<(), Turned> {
    let revision = match era {
        Era::Modern(Ok(envelope)) => Some(envelope.revision),
        Era::Modern(Err(_)) | Era::Bare | Era::Legacy => None,
    };
    for (name, said) in [(&PROTOCOL_VERSION, revision.as_deref()), (&METHOD, Some(message.method()))] {
        if headers.contains_key(name) {
            repeats(headers, None, name, said)?;
        }
    }
    Ok(())
}

/// Checks that the header `name` says what the body says; anything will do where the body says nothing.
fn repeats(
    headers: &HeaderMap,
    id: Option<&[u8]>,
    name: &HeaderName,
    said: Option<&str>,
) -> Result<(), Turned> {
    let value = only(headers, id, name)?;
    match said {
        Some(said) if value.as_bytes().trim_ascii() != said.as_bytes() => Err(differs(id, name, said)),
        Some(_) | None => Ok(()),
    }
}

/// Checks `Mcp-Name`, if the method has one and its params are such that there can be one.
fn is_named(headers: &HeaderMap, id: Option<&[u8]>, message: &Message) -> Result<(), Turned> {
    let Some(key) = named_by(message.method()) else { return Ok(()) };
    let said = message.params_members([key]).ok().and_then(|[at]| Text::of(message.slice(at?)?));
    let Some(said) = said else { return Ok(()) }; // the relay says what is wrong with it
    let value = only(headers, id, &NAME)?;
    match decode_header(value.as_bytes().trim_ascii()) {
        Ok(shown) if shown == said => Ok(()),
        Ok(_) => Err(differs(id, &NAME, &said)),
        Err(why) => Err(fault(id, Code::HeaderMismatch, &format!("{}: {why}", shown_name(&NAME)))),
    }
}

/// The only value of a header that must be there.
fn only<'h>(headers: &'h HeaderMap, id: Option<&[u8]>, name: &HeaderName) -> Result<&'h HeaderValue, Turned> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (Some(_), Some(_)) => Err(twice(id, name)),
        (None, _) => {
            let text = format!("the header {} is missing; it repeats what the body says", shown_name(name));
            Err(fault(id, Code::HeaderMismatch, &text))
        }
    }
}

fn twice(id: Option<&[u8]>, name: &HeaderName) -> Turned {
    fault(id, Code::HeaderMismatch, &format!("the header {} stands there twice", shown_name(name)))
}

fn differs(id: Option<&[u8]>, name: &HeaderName, said: &str) -> Turned {
    let text = format!("the header {} is not {}, which the body says", shown_name(name), quoted(said));
    fault(id, Code::HeaderMismatch, &text)
}

/// A header's name as the specification writes it.
fn shown_name(name: &HeaderName) -> &str {
    match name.as_str() {
        "mcp-protocol-version" => "MCP-Protocol-Version",
        "mcp-method" => "Mcp-Method",
        "mcp-name" => "Mcp-Name",
        other => other,
    }
}

/// The refusal of a revision that we do not speak.
pub(super) fn unsupported(id: Option<&[u8]>, requested: &str) -> Turned {
    let text = format!("revision {} is not spoken here", quoted(requested));
    let error = wire::error_with(id, Code::UnsupportedRevision, &text, &unsupported_data(requested));
    Turned(Rejection::Revision, Box::new(json_with(StatusCode::BAD_REQUEST, error)))
}

/// The refusal of a request whose envelope is not whole.
fn incomplete(id: Option<&[u8]>, why: &str) -> Turned {
    let error = wire::error(id, Code::InvalidParams, why);
    Turned(Rejection::Malformed, Box::new(json_with(StatusCode::BAD_REQUEST, error)))
}

/// Any other refusal.
fn fault(id: Option<&[u8]>, code: Code, text: &str) -> Turned {
    let why = if code == Code::HeaderMismatch { Rejection::Header } else { Rejection::Malformed };
    Turned(why, Box::new(json_with(status(code.number()), wire::error(id, code, text))))
}

/// The refusal of several messages at once, one of which has no session.
pub(super) fn no_batches() -> Turned {
    let text = "send each message by itself: there are no batches without a session";
    refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::InvalidRequest, text)
}

/// The status that goes with the code of an error (specification, `basic/transports`; where it says nothing, the error
/// is an answer like any other).
pub(super) fn status(code: i32) -> StatusCode {
    const BAD: [Code; 5] = [
        Code::Parse,
        Code::InvalidRequest,
        Code::HeaderMismatch,
        Code::MissingCapability,
        Code::UnsupportedRevision,
    ];
    if code == Code::MethodNotFound.number() {
        StatusCode::NOT_FOUND
    } else if BAD.iter().any(|bad| bad.number() == code) {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    }
}

/// What a request says of its client.
fn agreed(message: &Message, envelope: &Envelope) -> Agreed {
    let client = envelope.client.clone().and_then(|at| message.members_at(at, ["name"]).ok());
    let client = client.and_then(|[name]| message.string(name?)).unwrap_or_default();
    Agreed {
        revision: envelope.revision.to_string(),
        capabilities: message.slice(envelope.capabilities.clone()).unwrap_or("{}").into(),
        client: client.into_owned(),
    }
}
