//! What a client can read and what it sends.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

/// Which kinds of answer a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// Listing both is the client's duty; one that says nothing gets whatever fits.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        if headers.get(ACCEPT).is_some_and(|value| value == USUAL) {
            return Self { json: true, events: true };
        }
        let mut found = Self { json: false, events: false };
        let mut any = false;
        for item in
            headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','))
        {
            any = true;
            let kind = item.split(';').next().unwrap_or_default().trim();
            found.json |=
                ["application/json", "application/*", "*/*"].iter().any(|k| kind.eq_ignore_ascii_case(k));
            found.events |=
                ["text/event-stream", "text/*", "*/*"].iter().any(|k| kind.eq_ignore_ascii_case(k));
        }
        if any { found } else { Self { json: true, events: true } }
    }
}

/// What every client library sends, so that the usual request costs one comparison.
const USUAL: &str = "application/json, text/event-stream";

/// Whether the body is JSON as it stands.
pub(super) fn sends_json(headers: &HeaderMap) -> bool {
    let is_json = |value: &HeaderValue| {
        if value == "application/json" {
            return true;
        }
        let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    };
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    headers.get(CONTENT_TYPE).is_some_and(is_json) && headers.get(CONTENT_ENCODING).is_none_or(plain)
}
