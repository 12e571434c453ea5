//! What every request to a server has in common.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use hyper::http::uri::Scheme;
use hyper::{Method, Response, Uri};

use super::judge::{Away, Verdict, judge, within};
use super::lease::Request;
use crate::config;
use crate::mcp::{Letter, Revision};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Ours to set: a configured value would break the message's framing or what we can read.
const OURS: [HeaderName; 10] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    SESSION,
    REVISION,
];

/// What every request to a server has in common. Replaced as a whole when something becomes known.
#[derive(Debug, Clone)]
pub(super) struct Head {
    uri: Uri,
    /// The part of it that HTTP/1.1 puts into the request line.
    target: Uri,
    /// The headers of a POST.
    headers: HeaderMap,
    /// The configuration names the `Host`.
    has_host: bool,
    pub(super) has_session: bool,
    /// The handshake is over: session ids are taken no more.
    agreed: bool,
}

impl Head {
    pub(super) fn new(http: &config::Http) -> Self {
        let mut headers = HeaderMap::new();
        let has_host = http.headers.iter().any(|(name, _)| *name == HOST);
        if let Some(host) = host(&http.url).filter(|_| !has_host) {
            headers.insert(HOST, host);
        }
        for (name, value) in &http.headers {
            if !OURS.contains(name) {
                headers.append(name, value.clone());
            }
        }
        let agent = HeaderValue::from_static(concat!("trunkline/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(agent);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let uri = http.url.clone();
        Self { target: target(&uri), uri, headers, has_host, has_session: false, agreed: false }
    }

    /// With the session id that `initialize` gave us.
    pub(super) fn with_session(&self, id: &HeaderValue) -> Self {
        let mut next = self.clone();
        if !next.agreed && !next.has_session {
            next.headers.insert(SESSION, id.clone());
            next.has_session = true;
        }
        next
    }

    /// With the revision that is spoken from now on.
    pub(super) fn with_revision(&self, revision: Revision) -> Self {
        let mut next = self.clone();
        next.agreed = true;
        if revision >= Revision::V2025_06_18 {
            next.headers.insert(REVISION, HeaderValue::from_static(revision.as_str()));
        }
        next
    }

    /// At another place of the same server.
    pub(super) fn at(&self, uri: &Uri) -> Self {
        Self { target: target(uri), uri: uri.clone(), ..self.clone() }
    }

    /// For the older transport: messages go to `uri`, which names our session.
    pub(super) fn posting_to(&self, uri: &Uri) -> Self {
        Self { has_session: true, ..self.at(uri) }
    }

    /// The place `there` of the same server, as it is seen from here.
    pub(super) fn within(&self, there: &str) -> Result<Uri, Away> {
        within(&self.uri, there)
    }

    /// `what` as a request for a connection of HTTP/2 or 1.1.
    pub(super) fn request(&self, what: &What, http2: bool) -> Request {
        let mut headers = self.headers.clone();
        let (method, text) = match what {
            What::Post(letter) => {
                for (name, value) in letter.mirror.iter() {
                    headers.insert(name.clone(), value.clone());
                }
                (Method::POST, letter.text.clone())
            }
            What::Get(last) => {
                headers.remove(CONTENT_TYPE);
                headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
                // Some proxies would collect the stream first.
                headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
                if let Some(value) = last.as_deref().and_then(|last| HeaderValue::from_str(last).ok()) {
                    headers.insert(LAST_EVENT, value);
                }
                (Method::GET, Bytes::new())
            }
            What::Delete => {
                headers.remove(CONTENT_TYPE);
                (Method::DELETE, Bytes::new())
            }
        };
        if http2 && !self.has_host {
            headers.remove(HOST); // it stands in the URI
        }
        let mut request = Request::new(Full::new(text));
        *request.method_mut() = method;
        *request.uri_mut() = if http2 { self.uri.clone() } else { self.target.clone() };
        *request.headers_mut() = headers;
        request
    }

    /// The session id that the response gives us, if it is to be taken.
    pub(super) fn session_of<B>(&self, response: &Response<B>) -> Option<HeaderValue> {
        if self.agreed || self.has_session { None } else { session_id(response.headers()) }
    }

    /// Reads a response to one of these requests.
    pub(super) fn judge<B>(&self, response: &Response<B>) -> Verdict {
        judge(response.status(), response.headers(), &self.uri, self.has_session)
    }
}

/// What a server is asked for.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// To take a message.
    Post(Letter),
    /// The stream of unbound messages; or, after an event, the rest of a stream.
    Get(Option<String>),
    /// To end the session.
    Delete,
}

/// The request line's part of a URI: its path and query.
fn target(uri: &Uri) -> Uri {
    uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()))
}

/// `Host`: with the port where the scheme does not say it.
fn host(uri: &Uri) -> Option<HeaderValue> {
    let (host, usual) = (uri.host()?, if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 });
    match uri.port_u16() {
        Some(port) if port != usual => HeaderValue::from_str(&format!("{host}:{port}")).ok(),
        _ => HeaderValue::from_str(host).ok(),
    }
}

/// The session id of a response, if it is one: visible ASCII.
fn session_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut id = headers.get(SESSION)?.clone();
    let fine = !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic);
    id.set_sensitive(true);
    fine.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HttpTransport, Tls};

    fn head(headers: &[(&'static str, &'static str)]) -> Head {
        head_at("http://127.0.0.1:1/mcp", headers)
    }

    fn head_at(uri: &'static str, headers: &[(&'static str, &'static str)]) -> Head {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Head::new(&config::Http {
            url: Uri::from_static(uri),
            headers: headers.iter().map(pair).collect(),
            transport: HttpTransport::Infer,
            tls: Tls::default(),
        })
    }

    #[test]
    fn configured_headers_are_sent_but_cannot_break_the_framing() {
        let head = head(&[
            ("authorization", "Bearer x"),
            ("content-length", "5"),
            ("accept", "text/plain"),
            ("user-agent", "me"),
        ]);
        let post = head.request(&What::Post(Letter::default()), false);
        let all: Vec<_> =
            post.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        let expected = [
            ("accept", "application/json, text/event-stream"),
            ("accept-encoding", "identity"),
            ("authorization", "Bearer x"),
            ("content-type", "application/json"),
            ("host", "127.0.0.1:1"),
            ("user-agent", "me"),
        ];
        assert_eq!(
            {
                let mut all = all;
                all.sort_unstable();
                all
            },
            expected
        );
    }

    #[test]
    fn each_version_names_the_server_in_its_way() {
        for (uri, host, target) in [
            ("http://a", "a", "/"),
            ("http://a:80/mcp", "a", "/mcp"),
            ("https://u:p@a:443/mcp?k=v", "a", "/mcp?k=v"),
            ("https://a:80/x", "a:80", "/x"),
            ("http://[::1]:9/", "[::1]:9", "/"),
        ] {
            let request = |head: &Head, http2| {
                let request = head.request(&What::Post(Letter::default()), http2);
                (request.uri().to_string(), request.headers().get(HOST).cloned())
            };
            let host = HeaderValue::from_static(host);
            assert_eq!(request(&head_at(uri, &[]), false), (target.to_owned(), Some(host)));
            let whole = Uri::from_static(uri).to_string();
            assert_eq!(request(&head_at(uri, &[]), true), (whole.clone(), None));
            let other = Some(HeaderValue::from_static("other"));
            let named = head_at(uri, &[("host", "other")]);
            assert_eq!(request(&named, false), (target.to_owned(), other.clone()));
            assert_eq!(request(&named, true), (whole, other));
        }
    }

    #[test]
    fn the_revision_is_told_from_2025_06_18_on() {
        let revision = |revision| {
            let head = head(&[]).with_revision(revision);
            head.request(&What::Delete, false).headers().get(REVISION).cloned()
        };
        assert_eq!(revision(Revision::V2025_03_26), None);
        assert_eq!(revision(Revision::V2025_06_18).unwrap(), "2025-06-18");
        assert_eq!(revision(Revision::LATEST).unwrap(), "2026-07-28");
    }

    #[test]
    fn only_the_handshake_gives_a_session() {
        let id = HeaderValue::from_static("a");
        assert!(head(&[]).with_session(&id).has_session);
        assert!(!head(&[]).with_revision(Revision::V2025_11_25).with_session(&id).has_session);
        let mut headers = HeaderMap::new();
        for (value, fine) in [("a!~", true), ("a b", false), ("", false)] {
            headers.insert(SESSION, HeaderValue::from_static(value));
            assert_eq!(session_id(&headers).is_some(), fine, "{value}");
        }
    }
}
