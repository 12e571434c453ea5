//! `/mcp`, `/mcp/<server>` and `/mcp/<view>`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::accept::{Accepts, sends_json};
use super::body::Body;
use super::guard::{self, Stranger};
use super::reply::{accepted, bare, events, json, json_with, respond, typed};
use super::serve::Serve;
use super::stream::{Listening, Source};
use crate::catalog::View;
use crate::clock::Clock;
use crate::config::Config;
use crate::fleet::Fleet;
use crate::mcp::{Revision, header::PROTOCOL_VERSION, header::SESSION_ID, method};
use crate::metrics::{Metrics, Rejection};
use crate::names::ServerName;
use crate::relay::{Caller, Handled, Relay};
use crate::session::{Session, Sessions};
use crate::wire::{self, Code, Kind, Malformed, Message};

/// How long a client may take to send a body.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The endpoint that clients talk to.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it listens.
    pub bound: SocketAddr,
    /// Takes messages on.
    pub relay: Arc<Relay>,
    /// Deadlines of requests.
    pub clock: Arc<Clock>,
    /// Who is there.
    pub sessions: Arc<Sessions>,
    /// Tells of changes.
    pub fleet: Arc<Fleet>,
    /// Counts what is turned away.
    pub metrics: Arc<Metrics>,
    /// Open streams end with it.
    pub closing: CancellationToken,
}

/// Why a request is turned away, and what the client is told.
struct Turned(Rejection, Box<Response<Body>>);

impl Serve for Endpoint {
    async fn serve(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let origin = parts.headers.get(header::ORIGIN).cloned();
        let response = self.route(parts, body).await;
        let mut response = response.unwrap_or_else(|Turned(why, response)| {
            self.metrics.rejected(why);
            *response
        });
        if let Some(origin) = origin.filter(|_| response.status() != StatusCode::FORBIDDEN) {
            allow(response.headers_mut(), origin);
        }
        response
    }
}

impl Endpoint {
    async fn route(&self, parts: Parts, body: Incoming) -> Result<Response<Body>, Turned> {
        let snapshot = self.fleet.snapshot();
        guard::check(&parts, self.bound, &snapshot.config).map_err(stranger)?;
        let view = view(parts.uri.path(), &snapshot.config).filter(|view| self.relay.has_view(view));
        let Some(view) = view else {
            let text = "no such endpoint; all servers are at /mcp, one of them at /mcp/<server>\n";
            return Err(refuse(Rejection::Path, StatusCode::NOT_FOUND, Code::InvalidRequest, text));
        };
        match parts.method {
            Method::POST => self.post(view, &parts.headers, body).await,
            Method::GET => self.get(view, &parts.headers),
            Method::DELETE => self.delete(&view, &parts.headers),
            Method::OPTIONS => Ok(options()),
            Method::HEAD => Ok(bare(StatusCode::OK)),
            _ => {
                let mut response = bare(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
                Err(Turned(Rejection::Method, Box::new(response)))
            }
        }
    }

    async fn post(&self, view: View, headers: &HeaderMap, body: Incoming) -> Result<Response<Body>, Turned> {
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
        let text = self.read(body).await?;
        if text.trim_ascii_start().starts_with(b"[") {
            let text = "batches are not taken; send each message by itself";
            return Err(refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::InvalidRequest, text));
        }
        let message = Message::parse(text, self.fleet.limits().json_depth).map_err(|bad| malformed(&bad))?;
        if message.kind() == Kind::Request && message.method() == method::INITIALIZE {
            return self.initialize(&view, &message);
        }
        let session = self.session(&view, headers, message.id().as_deref())?;
        let caller = Caller { session, view, events: accepts.events };
        Ok(match self.relay.handle(&caller, message) {
            Handled::Now(answer) if accepts.json => json(answer),
            Handled::Now(answer) => events(wire::frame(&answer).into()),
            Handled::Later(call) => respond(call, accepts, &self.clock, || self.metrics.stream()).await,
            Handled::Accepted => accepted(),
        })
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, Turned> {
        let limit = self.fleet.limits().request_body;
        let too_large = || {
            let text = format!("the message is larger than {limit} bytes, the limit");
            refuse(Rejection::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidRequest, &text)
        };
        // A little too much is read all the same: a client that is cut while it sends may never see the refusal.
        if http_body::Body::size_hint(&body).lower() > 2 * limit as u64 {
            return Err(too_large());
        }
        match self.clock.within(BODY_TIME, Limited::new(body, limit).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(_)) => {
                let text = "the body ended early";
                Err(refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::Parse, text))
            }
            Err(_) => {
                let text = format!("the body took longer than {BODY_TIME:?}");
                Err(refuse(Rejection::TooSlow, StatusCode::REQUEST_TIMEOUT, Code::InvalidRequest, &text))
            }
        }
    }

    fn initialize(&self, view: &View, message: &Message) -> Result<Response<Body>, Turned> {
        let (answer, agreed) = match self.relay.initialize(view, message) {
            Ok(agreed) => agreed,
            Err(refusal) => return Ok(json(refusal.answer(message.id().as_deref()))),
        };
        let session = self.sessions.open(path(view), agreed).map_err(|full| {
            let text = format!("{full}; try again later");
            let status = StatusCode::SERVICE_UNAVAILABLE;
            refuse(Rejection::SessionsFull, status, Code::Internal, &text)
        })?;
        let mut response = json(answer);
        if let Ok(id) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(SESSION_ID.clone(), id);
        }
        Ok(response)
    }

    /// The session that a request names. `id` is that of the request, for the refusal.
    fn session(&self, view: &View, headers: &HeaderMap, id: Option<&[u8]>) -> Result<Arc<Session>, Turned> {
        let refused = |why, status, text: &str| {
            Turned(why, Box::new(json_with(status, wire::error(id, Code::InvalidRequest, text))))
        };
        let spoken = |version: &HeaderValue| version.to_str().ok().and_then(Revision::of).is_some();
        if !headers.get(&PROTOCOL_VERSION).is_none_or(spoken) {
            let known = Revision::ALL.map(Revision::as_str).join(", ");
            let text =
                format!("MCP-Protocol-Version is none of {known}; initialize a session and use its revision");
            return Err(refused(Rejection::Revision, StatusCode::BAD_REQUEST, &text));
        }
        let Some(name) = headers.get(&SESSION_ID) else {
            let text = "Mcp-Session-Id is missing; send `initialize` first and then the id from its answer";
            return Err(refused(Rejection::Session, StatusCode::BAD_REQUEST, text));
        };
        let found = name.to_str().ok().and_then(|name| self.sessions.find(name, path(view)));
        found.ok_or_else(|| {
            let text = "no such session here; send `initialize` again";
            refused(Rejection::Session, StatusCode::NOT_FOUND, text)
        })
    }

    fn get(&self, view: View, headers: &HeaderMap) -> Result<Response<Body>, Turned> {
        if !Accepts::of(headers).events {
            let text = "this stream is text/event-stream; accept it";
            return Err(refuse(Rejection::Media, StatusCode::NOT_ACCEPTABLE, Code::InvalidRequest, text));
        }
        let session = self.session(&view, headers, None)?;
        let source = Source {
            view,
            relay: self.relay.clone(),
            outgoing: session.attach(),
            session,
            notices: self.fleet.notices(),
            closing: self.closing.clone(),
            _stream: self.metrics.stream(),
        };
        Ok(events(Body::Listening(Box::new(Listening::new(source)))))
    }

    fn delete(&self, view: &View, headers: &HeaderMap) -> Result<Response<Body>, Turned> {
        let session = self.session(view, headers, None)?;
        self.sessions.close(session.id());
        Ok(bare(StatusCode::NO_CONTENT))
    }
}

const METHODS: &str = "POST, GET, DELETE, OPTIONS, HEAD";

/// Which view a path is, if it is one.
fn view(path: &str, config: &Config) -> Option<View> {
    match path.strip_prefix("/mcp")? {
        "" | "/" => Some(View::All),
        rest => {
            let name = rest.strip_prefix('/')?;
            let name = name.strip_suffix('/').unwrap_or(name);
            if let Some((name, _)) = config.views.get_key_value(name) {
                return Some(View::Named(name.clone()));
            }
            (!name.is_empty() && !name.contains('/')).then(|| View::One(ServerName::expose(name)))
        }
    }
}

/// A view as sessions know it.
fn path(view: &View) -> &str {
    match view {
        View::All => "",
        View::One(server) => server.as_str(),
        View::Named(name) => name,
    }
}

fn refuse(why: Rejection, status: StatusCode, code: Code, text: &str) -> Turned {
    Turned(why, Box::new(json_with(status, wire::error(None, code, text))))
}

fn malformed(bad: &Malformed) -> Turned {
    let code = match bad {
        Malformed::NotJson(_) => Code::Parse,
        Malformed::NotRpc(_) | Malformed::TooDeep(..) => Code::InvalidRequest,
    };
    refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, code, &bad.to_string())
}

fn stranger(stranger: Stranger) -> Turned {
    let (why, text) = match stranger {
        Stranger::Host(host) => (
            Rejection::Host,
            format!("requests to the host {host:?} are refused; list it in `allowedHosts`\n"),
        ),
        Stranger::Origin(origin) => {
            (Rejection::Origin, format!("pages of {origin:?} are refused; list it in `allowedOrigins`\n"))
        }
    };
    Turned(why, Box::new(typed(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", text.into())))
}

/// The answer to a preflight; the caller adds whom it is for.
fn options() -> Response<Body> {
    let mut response = bare(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "content-type, accept, authorization, mcp-session-id, mcp-protocol-version, last-event-id",
        ),
    );
    response
}

/// Lets a page of an allowed origin read the response.
fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("mcp-session-id, www-authenticate"),
    );
}
