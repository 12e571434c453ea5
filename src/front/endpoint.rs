//! `/mcp`, `/mcp/<server>` and `/mcp/<view>`.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::accept::Accepts;
use super::body::Body;
use super::era::Version;
use super::guard;
use super::intake::later;
use super::modern::unsupported;
use super::peer::Peer;
use super::refuse::{Turned, refuse, stranger, unknown};
use super::reply::{answering, bare, events, json_with, lone};
use super::serve::Serve;
use super::stream::{Listening, Source};
use super::tail::gone;
use crate::auth::Visitor;
use crate::catalog::View;
use crate::clock::Clock;
use crate::config::Config;
use crate::fleet::Fleet;
use crate::mcp::Revision;
use crate::mcp::header::{LAST_EVENT_ID, PARAM, SESSION_ID};
use crate::metrics::{Metrics, Rejection, Resumption};
use crate::names::ServerName;
use crate::relay::Relay;
use crate::session::{Follower, Resumed, Session, Sessions, Whose};
use crate::wire::{self, Code};

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

impl Serve for Endpoint {
    async fn serve(&self, request: Request<Incoming>, peer: &Arc<Peer>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let origin = parts.headers.get(header::ORIGIN).cloned();
        let response = self.route(parts, body, peer).await;
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
    async fn route(&self, parts: Parts, body: Incoming, peer: &Arc<Peer>) -> Result<Response<Body>, Turned> {
        let snapshot = self.fleet.snapshot();
        guard::check(&parts, self.bound, &snapshot.config).map_err(stranger)?;
        // A browser asks for leave before it sends what it would send, so that cannot need a key.
        let visitor = match parts.method {
            Method::OPTIONS => Visitor::anonymous(),
            _ => Visitor::of(&snapshot.config, &parts.headers).map_err(unknown)?,
        };
        let view = view(parts.uri.path(), &snapshot.config).filter(|view| self.relay.has_view(view));
        let Some(view) = view else {
            let text = "no such endpoint; all servers are at /mcp, one of them at /mcp/<server>\n";
            return Err(refuse(Rejection::Path, StatusCode::NOT_FOUND, Code::InvalidRequest, text));
        };
        match parts.method {
            Method::POST => self.post(view, &visitor, &parts.headers, body, peer).await,
            // There are no sessions in the revision that it speaks.
            Method::GET | Method::DELETE if Version::of(&parts.headers) == Version::Modern => {
                Err(not_allowed("POST, OPTIONS, HEAD"))
            }
            Method::GET => self.get(view, &visitor, &parts.headers),
            Method::DELETE => self.delete(&view, &visitor, &parts.headers),
            Method::OPTIONS => Ok(options(&parts.headers)),
            Method::HEAD => Ok(bare(StatusCode::OK)),
            _ => Err(not_allowed(METHODS)),
        }
    }

    /// The session that a request names. `id` is that of the request, for the refusal.
    pub(super) fn session(
        &self,
        view: &View,
        visitor: &Visitor,
        headers: &HeaderMap,
        version: Version<'_>,
        id: Option<&[u8]>,
    ) -> Result<Arc<Session>, Turned> {
        let refused = |why, status, text: &str| {
            Turned(why, Box::new(json_with(status, wire::error(id, Code::InvalidRequest, text))))
        };
        let named = headers.get(&SESSION_ID);
        let name = named.and_then(|name| name.to_str().ok());
        let found = name.and_then(|name| self.sessions.find(name, whose(view, visitor)));
        if let Version::Unknown(name) = version {
            if found.is_none() {
                return Err(unsupported(id, &String::from_utf8_lossy(name.as_bytes())));
            }
            let known = Revision::LEGACY.map(Revision::as_str).join(", ");
            let text = format!("MCP-Protocol-Version is none of {known}; use the revision of the session");
            return Err(refused(Rejection::Revision, StatusCode::BAD_REQUEST, &text));
        }
        let (status, text) = if named.is_some() {
            (StatusCode::NOT_FOUND, "no such session here; send `initialize` again")
        } else {
            let text = "Mcp-Session-Id is missing; send `initialize` first and then the id from its answer";
            (StatusCode::BAD_REQUEST, text)
        };
        found.ok_or_else(|| refused(Rejection::Session, status, text))
    }

    fn get(&self, view: View, visitor: &Visitor, headers: &HeaderMap) -> Result<Response<Body>, Turned> {
        if !Accepts::of(headers).events {
            let text = "this stream is text/event-stream; accept it";
            return Err(refuse(Rejection::Media, StatusCode::NOT_ACCEPTABLE, Code::InvalidRequest, text));
        }
        let session = self.session(&view, visitor, headers, Version::of(headers), None)?;
        self.has_room_for_a_stream()?;
        match headers.get(&LAST_EVENT_ID) {
            Some(id) if !id.is_empty() => self.resume(view, &session, id),
            Some(_) | None => Ok(self.listen(view, session.attach(), false)),
        }
    }

    /// Goes on with the stream whose event `id` the client has. It is never answered with another stream than that one:
    /// the client would wait there for an answer that cannot come.
    fn resume(&self, view: View, session: &Arc<Session>, id: &HeaderValue) -> Result<Response<Body>, Turned> {
        let resumed = id.to_str().map_or(Resumed::Unknown, |id| session.resume(id));
        let (result, response) = match resumed {
            Resumed::Stream(follower) if follower.is_own() => {
                (Resumption::Resumed, self.listen(view, follower, false))
            }
            Resumed::Stream(follower) => (Resumption::Resumed, answering(follower, &self.metrics)),
            Resumed::Anew => (Resumption::Anew, self.listen(view, session.attach(), true)),
            // What tells a browser to ask no more. The TypeScript client, which takes an error for no answer and comes
            // back after it, stops without a word; any other end or status would make it come again.
            Resumed::Nothing => (Resumption::Nothing, bare(StatusCode::NO_CONTENT)),
            // No status would end the wait of whoever made the call: the TypeScript client tries twice and forgets it.
            // An answer does.
            Resumed::Gone(request) => match request.as_ref().and_then(gone) {
                Some(answer) => (Resumption::Gone, lone(&answer)),
                None => (Resumption::Gone, *refuse_event("is no longer kept").1),
            },
            Resumed::Unknown => return Err(refuse_event("was not sent in this session")),
        };
        self.metrics.resumed(result);
        Ok(response)
    }

    /// What no request asks for, from where `follower` stands. Where the client has `lost` its place it is told to look anew.
    fn listen(&self, view: View, follower: Follower, lost: bool) -> Response<Body> {
        let (closing, stream) = (self.closing.clone(), self.metrics.stream());
        let source = Source::new(view, follower, lost, &self.relay, &self.fleet, closing, stream);
        events(Body::Listening(Box::new(Listening::new(source))))
    }

    /// Streams are only opened up to a number; what calls have to tell is not cut for it.
    pub(super) fn has_room_for_a_stream(&self) -> Result<(), Turned> {
        if self.metrics.open_streams() < self.fleet.limits().streams {
            return Ok(());
        }
        Err(later(Rejection::Busy, "too many streams are open here; try again later"))
    }

    fn delete(&self, view: &View, visitor: &Visitor, headers: &HeaderMap) -> Result<Response<Body>, Turned> {
        let session = self.session(view, visitor, headers, Version::of(headers), None)?;
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
pub(super) fn path(view: &View) -> &str {
    match view {
        View::All => "",
        View::One(server) => server.as_str(),
        View::Named(name) => name,
    }
}

/// Whose a session in `view` is that `visitor` opens.
pub(super) fn whose<'a>(view: &'a View, visitor: &'a Visitor) -> Whose<'a> {
    Whose { view: path(view), principal: visitor.principal.text(), key: visitor.key }
}

fn refuse_event(why: &str) -> Turned {
    let text = format!(
        "the event that Last-Event-ID names {why}; open the stream without it, and repeat the request"
    );
    refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, Code::InvalidRequest, &text)
}

/// The answer to a preflight; the caller adds whom it is for.
fn options(asked: &HeaderMap) -> Response<Body> {
    let mut response = bare(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, sendable(asked));
    response
}

/// The headers that a page may send: those that we read. There are as many of the `Mcp-Param-*` as tools want, so those
/// are named that the page asks for.
fn sendable(asked: &HeaderMap) -> HeaderValue {
    const ALWAYS: &str = "content-type, accept, authorization, x-api-key, mcp-session-id, mcp-protocol-version, last-event-id, mcp-method, mcp-name";
    let asked = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let asked = asked.unwrap_or_default().split(',').map(|name| name.trim().to_ascii_lowercase());
    // Names only: what is echoed goes into a header of ours.
    let params = asked.filter(|name| name.starts_with(PARAM) && HeaderName::try_from(&**name).is_ok());
    let all: Vec<_> = std::iter::once(ALWAYS.to_owned()).chain(params).collect();
    HeaderValue::from_str(&all.join(", ")).unwrap_or(HeaderValue::from_static(ALWAYS))
}

fn not_allowed(methods: &'static str) -> Turned {
    let mut response = bare(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    Turned(Rejection::Method, Box::new(response))
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
