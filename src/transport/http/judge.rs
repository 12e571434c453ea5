//! What a response's status and headers say.

use std::time::{Duration, SystemTime};

use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{StatusCode, Uri};
use url::Url;

use super::head::SESSION;
use crate::transport::Failure;
use crate::transport::text::{SHORT, plain};

/// The longest pause a server can ask for: a clock that is off by a year must not end a server for a year.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A response, of whose headers those are kept that mean something to us: a map of all of them would cost each call more
/// than all that is done with them.
#[derive(Debug)]
pub(super) struct Response<B> {
    pub(super) status: StatusCode,
    pub(super) told: Told,
    pub(super) body: B,
}

/// What the headers of a response tell. Of several the first one counts.
#[derive(Debug, Default)]
pub(super) struct Told {
    events: Option<bool>,
    compressed: Option<bool>,
    /// The session id that it offers.
    pub(super) session: Option<HeaderValue>,
    location: Option<Box<str>>,
    retry_after: Option<Box<str>>,
    challenge: Option<Box<str>>,
}

impl Told {
    /// Reads one header.
    pub(super) fn read(&mut self, name: &str, value: &[u8]) {
        let is = |known: &HeaderName| name.eq_ignore_ascii_case(known.as_str());
        let keep = |place: &mut Option<Box<str>>| {
            if place.is_none() {
                *place = text(value).map(Into::into);
            }
        };
        if is(&CONTENT_TYPE) {
            let said = text(value).unwrap_or_default();
            self.events.get_or_insert_with(|| has_type(said, "text/event-stream"));
        } else if is(&CONTENT_ENCODING) {
            self.compressed.get_or_insert_with(|| !value.eq_ignore_ascii_case(b"identity"));
        } else if is(&SESSION) {
            self.session = self.session.take().or_else(|| HeaderValue::from_bytes(value).ok());
        } else if is(&LOCATION) {
            keep(&mut self.location);
        } else if is(&RETRY_AFTER) {
            keep(&mut self.retry_after);
        } else if is(&WWW_AUTHENTICATE) {
            keep(&mut self.challenge);
        }
    }
}

impl<B> Response<B> {
    /// The same with another body.
    pub(super) fn map<C>(self, body: impl FnOnce(B) -> C) -> Response<C> {
        Response { status: self.status, told: self.told, body: body(self.body) }
    }
}

impl<B> From<hyper::Response<B>> for Response<B> {
    fn from(response: hyper::Response<B>) -> Self {
        let (parts, body) = response.into_parts();
        let mut told = Told::default();
        for (name, value) in &parts.headers {
            told.read(name.as_str(), value.as_bytes());
        }
        Self { status: parts.status, told, body }
    }
}

/// A header's value, if it is ASCII.
fn text(value: &[u8]) -> Option<&str> {
    let visible = |byte: &u8| *byte == b'\t' || (b' '..=b'~').contains(byte);
    std::str::from_utf8(value).ok().filter(|_| value.iter().all(visible))
}

/// What a response's status and headers say.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// One JSON text.
    Json,
    /// A stream of events.
    Events,
    /// Taken, without an answer.
    Nothing,
    /// An error; the body may still be an answer.
    Error(u16),
    /// The same server at another place.
    Elsewhere(Uri),
    /// Nothing more to read.
    Refused(Failure),
}

/// Reads a response to a request that went to `uri` and `bore` our session id or not.
pub(super) fn judge(status: StatusCode, told: &Told, uri: &Uri, bore: bool) -> Verdict {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let challenge = told.challenge.as_ref().map(|text| plain(text, 2048));
            Verdict::Refused(Failure::Unauthorized { status: status.as_u16(), challenge })
        }
        StatusCode::NOT_FOUND if bore => Verdict::Refused(Failure::SessionGone),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let retry_after = told.retry_after.as_deref().and_then(pause);
            Verdict::Refused(Failure::Busy { code: status.as_u16(), retry_after })
        }
        _ if status.is_redirection() => elsewhere(status, told, uri),
        _ if told.compressed == Some(true) => {
            Verdict::Refused(Failure::Garbage("a compressed body, which we did not ask for".into()))
        }
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Verdict::Nothing,
        _ if !status.is_success() => Verdict::Error(status.as_u16()),
        _ if told.events == Some(true) => Verdict::Events,
        _ => Verdict::Json,
    }
}

fn has_type(text: &str, wanted: &str) -> bool {
    text.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

/// Only 307 and 308 keep a POST what it is, and only the same origin may see our headers.
fn elsewhere(status: StatusCode, told: &Told, uri: &Uri) -> Verdict {
    let refused = |why: String| Verdict::Refused(Failure::Status { code: status.as_u16(), snippet: why });
    match told.location.as_deref().map_or(Err(Away(None)), |place| within(uri, place)) {
        Ok(uri) if matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) => {
            Verdict::Elsewhere(uri)
        }
        Ok(_) => refused("a redirect that does not keep the request as it is".into()),
        Err(Away(Some(origin))) => refused(format!("redirects to {origin}, which is not followed")),
        Err(Away(None)) => refused("a redirect to nowhere".into()),
    }
}

/// A place that is not on the same server: of which origin it is, if it is a place at all.
#[derive(Debug, PartialEq)]
pub(super) struct Away(pub(super) Option<String>);

/// The place `there`, absolute or seen from `here`, which must be of the same origin.
pub(super) fn within(here: &Uri, there: &str) -> Result<Uri, Away> {
    let here = Url::parse(&here.to_string()).map_err(|_| Away(None))?;
    let mut there = here.join(there).map_err(|_| Away(None))?;
    if here.origin() != there.origin() || !there.username().is_empty() || there.password().is_some() {
        return Err(Away(Some(plain(&there.origin().ascii_serialization(), SHORT))));
    }
    there.set_fragment(None); // it is never sent
    there.as_str().parse().map_err(|_| Away(None))
}

/// `Retry-After`: seconds, or a date.
fn pause(text: &str) -> Option<Duration> {
    let asked = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(asked.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, headers: &[(HeaderName, &str)], bore: bool) -> Verdict {
        let mut told = Told::default();
        for (name, value) in headers {
            told.read(name.as_str(), value.as_bytes());
        }
        judge(
            StatusCode::from_u16(status).unwrap(),
            &told,
            &Uri::from_static("http://a:80/mcp?k=secret"),
            bore,
        )
    }

    #[test]
    fn statuses_mean_what_they_say() {
        assert_eq!(verdict(200, &[(CONTENT_TYPE, "application/json; charset=utf-8")], true), Verdict::Json);
        assert_eq!(verdict(200, &[(CONTENT_TYPE, "Text/Event-Stream;x")], true), Verdict::Events);
        assert_eq!(verdict(202, &[], true), Verdict::Nothing);
        assert_eq!(verdict(404, &[], true), Verdict::Refused(Failure::SessionGone));
        assert_eq!(verdict(404, &[], false), Verdict::Error(404));
        assert_eq!(verdict(500, &[], true), Verdict::Error(500));
        let challenge = r#"Bearer resource_metadata="x""#;
        let asks = Failure::Unauthorized { status: 401, challenge: Some(challenge.into()) };
        assert_eq!(verdict(401, &[(WWW_AUTHENTICATE, challenge)], true), Verdict::Refused(asks));
        let gzip = verdict(200, &[(CONTENT_ENCODING, "gzip")], true);
        assert!(matches!(gzip, Verdict::Refused(Failure::Garbage(_))), "{gzip:?}");
    }

    #[test]
    fn only_the_same_origin_is_followed() {
        let to = |status, place| verdict(status, &[(LOCATION, place)], true);
        assert_eq!(to(307, "/mcp/"), Verdict::Elsewhere(Uri::from_static("http://a/mcp/")));
        assert_eq!(to(308, "http://a/x#y"), Verdict::Elsewhere(Uri::from_static("http://a/x")));
        for (status, place) in [
            (307, "https://a/mcp"),
            (307, "http://a:81/mcp"),
            (307, "//b/mcp?token=secret"),
            (307, "http://u:secret@a/mcp"),
            (302, "/mcp/"),
            (301, "/mcp/"),
            (307, "mailto:x"),
            (304, "/"),
        ] {
            let told = to(status, place);
            let Verdict::Refused(failure) = told else { panic!("{status} {place}: {told:?}") };
            assert!(!failure.to_string().contains("secret"), "{failure}");
        }
        assert!(matches!(verdict(307, &[], true), Verdict::Refused(_)));
    }

    #[test]
    fn fault_091_pauses_are_bounded() {
        assert_eq!(pause("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause("99999999999"), Some(LONGEST_PAUSE));
        assert_eq!(pause("Tue, 31 Dec 2199 23:59:59 GMT"), Some(LONGEST_PAUSE));
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(pause("soon"), None);
    }
}
