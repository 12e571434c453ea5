//! What every request to a server has in common.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};

use super::judge::{Verdict, judge};
use crate::config;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// From this revision on a client says which one was agreed on.
const REVISION_HEADER_SINCE: &str = "2025-06-18";

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
    pub(super) uri: Uri,
    /// The headers of a POST.
    headers: HeaderMap,
    pub(super) has_session: bool,
    /// The handshake is over: session ids are taken no more.
    pub(super) agreed: bool,
}

impl Head {
    pub(super) fn new(http: &config::Http) -> Self {
        let mut headers = HeaderMap::new();
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
        Self { uri: http.url.clone(), headers, has_session: false, agreed: false }
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

    /// With the revision that `initialize` agreed on.
    pub(super) fn with_revision(&self, revision: &str) -> Self {
        let mut next = self.clone();
        next.agreed = true;
        match HeaderValue::from_str(revision) {
            // Revisions are dates, so they compare as text.
            Ok(value) if revision >= REVISION_HEADER_SINCE => drop(next.headers.insert(REVISION, value)),
            _ => {}
        }
        next
    }

    /// At another place of the same server.
    pub(super) fn at(&self, uri: &Uri) -> Self {
        Self { uri: uri.clone(), ..self.clone() }
    }

    pub(super) fn post(&self, text: Bytes) -> Request<Full<Bytes>> {
        self.request(Method::POST, self.headers.clone(), text)
    }

    /// Opens the stream of unbound messages, or goes on with a stream after the event `last`.
    pub(super) fn get(&self, last: Option<&str>) -> Request<Full<Bytes>> {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(value) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            headers.insert(LAST_EVENT, value);
        }
        self.request(Method::GET, headers, Bytes::new())
    }

    /// Reads a response to one of these requests.
    pub(super) fn judge<B>(&self, response: &Response<B>) -> Verdict {
        judge(response.status(), response.headers(), &self.uri, self.has_session)
    }

    pub(super) fn delete(&self) -> Request<Full<Bytes>> {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        self.request(Method::DELETE, headers, Bytes::new())
    }

    fn request(&self, method: Method, headers: HeaderMap, text: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(text));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }
}

/// The session id of a response, if it is one: visible ASCII.
pub(super) fn session_id(headers: &HeaderMap) -> Option<HeaderValue> {
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
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Head::new(&config::Http {
            url: Uri::from_static("http://127.0.0.1:1/mcp"),
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
        let post = head.post(Bytes::new());
        let all: Vec<_> =
            post.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        let expected = [
            ("accept", "application/json, text/event-stream"),
            ("accept-encoding", "identity"),
            ("authorization", "Bearer x"),
            ("content-type", "application/json"),
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
    fn the_revision_is_told_from_2025_06_18_on() {
        let revision = |revision: &str| {
            head(&[]).with_revision(revision).post(Bytes::new()).headers().get(REVISION).cloned()
        };
        assert_eq!(revision("2025-03-26"), None);
        assert_eq!(revision("2025-06-18").unwrap(), "2025-06-18");
        assert_eq!(revision("2025-11-25\r\n"), None);
    }

    #[test]
    fn only_the_handshake_gives_a_session() {
        let id = HeaderValue::from_static("a");
        assert!(head(&[]).with_session(&id).has_session);
        assert!(!head(&[]).with_revision("2025-11-25").with_session(&id).has_session);
        let mut headers = HeaderMap::new();
        for (value, fine) in [("a!~", true), ("a b", false), ("", false)] {
            headers.insert(SESSION, HeaderValue::from_static(value));
            assert_eq!(session_id(&headers).is_some(), fine, "{value}");
        }
    }
}
