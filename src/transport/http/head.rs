//! What every request to a server has in common.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use hyper::http::uri::Scheme;
use hyper::{Method, Uri};

use super::judge::{Away, Response, Verdict, judge, within};
use super::lease::Request;
use crate::config;
use crate::mcp::{Letter, Revision};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
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
    /// The start of a POST over HTTP/1.1, up to the figure of its `Content-Length`.
    post: Bytes,
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
        let (target, post) = (target(&uri), Bytes::new());
        Self { target, uri, headers, post, has_host, has_session: false, agreed: false }.rendered()
    }

    fn rendered(mut self) -> Self {
        let mut post = Vec::new();
        self.line("POST", &self.headers, &mut post);
        post.extend_from_slice(b"content-length: ");
        self.post = post.into();
        self
    }

    fn line(&self, method: &str, headers: &HeaderMap, out: &mut Vec<u8>) {
        let target = self.target.path_and_query().map_or("/", |target| target.as_str());
        for part in [method, " ", target, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }

    /// With the session id that `initialize` gave us.
    pub(super) fn with_session(&self, id: &HeaderValue) -> Self {
        let mut next = self.clone();
        if !next.agreed && !next.has_session {
            next.headers.insert(SESSION, id.clone());
            next.has_session = true;
        }
        next.rendered()
    }

    /// With the revision that is spoken from now on.
    pub(super) fn with_revision(&self, revision: Revision) -> Self {
        let mut next = self.clone();
        next.agreed = true;
        if revision >= Revision::V2025_06_18 {
            next.headers.insert(REVISION, HeaderValue::from_static(revision.as_str()));
        }
        next.rendered()
    }

    /// At another place of the same server.
    pub(super) fn at(&self, uri: &Uri) -> Self {
        Self { target: target(uri), uri: uri.clone(), ..self.clone() }.rendered()
    }

    /// For the older transport: messages go to `uri`, which names our session.
    pub(super) fn posting_to(&self, uri: &Uri) -> Self {
        Self { has_session: true, ..self.at(uri) }
    }

    /// The place `there` of the same server, as it is seen from here.
    pub(super) fn within(&self, there: &str) -> Result<Uri, Away> {
        within(&self.uri, there)
    }

    /// `what` as a request of HTTP/1.1: the head is added to `out`, the body given back.
    pub(super) fn write(&self, what: &What, out: &mut Vec<u8>) -> Bytes {
        if let What::Post(Letter { text, mirror, .. }) = what {
            out.extend_from_slice(&self.post);
            out.extend_from_slice(itoa::Buffer::new().format(text.len()).as_bytes());
            out.extend_from_slice(b"\r\n");
            for (name, value) in mirror.iter() {
                out.extend_from_slice(name.as_str().as_bytes());
                out.extend_from_slice(b": ");
                out.extend_from_slice(value.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"\r\n");
            return text.clone();
        }
        let (method, headers, text) = self.parts(what);
        self.line(method.as_str(), &headers, out);
        out.extend_from_slice(b"\r\n");
        text
    }

    /// `what` as a request of HTTP/2.
    pub(super) fn request(&self, what: &What) -> Request {
        let (method, mut headers, text) = self.parts(what);
        if !self.has_host {
            headers.remove(HOST); // it stands in the URI
        }
        let mut request = Request::new(Full::new(text));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }

    fn parts(&self, what: &What) -> (Method, HeaderMap, Bytes) {
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
        (method, headers, text)
    }

    /// The session id that the response gives us, if it is to be taken.
    pub(super) fn session_of<B>(&self, response: &Response<B>) -> Option<HeaderValue> {
        if self.agreed || self.has_session { None } else { session_id(response.told.session.as_ref()) }
    }

    /// Reads a response to one of these requests.
    pub(super) fn judge<B>(&self, response: &Response<B>) -> Verdict {
        judge(response.status, &response.told, &self.uri, self.has_session)
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
fn session_id(offered: Option<&HeaderValue>) -> Option<HeaderValue> {
    let mut id = offered?.clone();
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

    /// The request line over HTTP/1.1, and the headers.
    fn written(head: &Head, what: &What) -> (String, Vec<(String, String)>) {
        let mut out = Vec::new();
        head.write(what, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (line, rest) = text.strip_suffix("\r\n\r\n").unwrap().split_once("\r\n").unwrap();
        let pair =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        (line.to_owned(), rest.split("\r\n").filter_map(pair).collect())
    }

    #[test]
    fn configured_headers_are_sent_but_cannot_break_the_framing() {
        let head = head(&[
            ("authorization", "Bearer x"),
            ("content-length", "5"),
            ("accept", "text/plain"),
            ("user-agent", "me"),
        ]);
        let expected = [
            ("accept", "application/json, text/event-stream"),
            ("accept-encoding", "identity"),
            ("authorization", "Bearer x"),
            ("content-length", "2"),
            ("content-type", "application/json"),
            ("host", "127.0.0.1:1"),
            ("user-agent", "me"),
        ];
        let (line, mut all) = written(&head, &What::Post(Letter::plain("{}")));
        all.sort_unstable();
        assert_eq!(line, "POST /mcp HTTP/1.1");
        assert_eq!(all, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
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
            let request = |head: &Head| {
                let request = head.request(&What::Post(Letter::default()));
                (request.uri().to_string(), request.headers().get(HOST).cloned())
            };
            let older = |head: &Head| {
                let (line, headers) = written(head, &What::Delete);
                let hosts: Vec<_> = headers.into_iter().filter(|(name, _)| name == "host").collect();
                (line, hosts)
            };
            let line = format!("DELETE {target} HTTP/1.1");
            let named_as = |host: &str| vec![("host".to_owned(), host.to_owned())];
            assert_eq!(older(&head_at(uri, &[])), (line.clone(), named_as(host)));
            let whole = Uri::from_static(uri).to_string();
            assert_eq!(request(&head_at(uri, &[])), (whole.clone(), None));
            let named = head_at(uri, &[("host", "other")]);
            assert_eq!(older(&named), (line, named_as("other")));
            assert_eq!(request(&named), (whole, Some(HeaderValue::from_static("other"))));
        }
    }

    #[test]
    fn the_revision_is_told_from_2025_06_18_on() {
        let revision = |revision| {
            let head = head(&[]).with_revision(revision);
            let (_, headers) = written(&head, &What::Post(Letter::default()));
            headers.into_iter().find(|(name, _)| name == REVISION.as_str()).map(|(_, value)| value)
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
        for (value, fine) in [("a!~", true), ("a b", false), ("", false)] {
            assert_eq!(session_id(Some(&HeaderValue::from_static(value))).is_some(), fine, "{value}");
        }
    }
}
