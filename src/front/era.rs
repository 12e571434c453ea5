//! Which era a message speaks. Its body says so; its headers only repeat that, and count where the body says nothing
//! (specification of 2026-07-28, `basic/transports`).

use std::sync::LazyLock;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use memchr::memmem::Finder;

use crate::mcp::{Envelope, Revision, header::PROTOCOL_VERSION};
use crate::wire::{self, Message};

/// What the version header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version<'h> {
    /// Nothing: a client before its session, or an old one.
    Absent,
    /// A revision with sessions.
    Legacy,
    /// A revision without.
    Modern,
    /// A revision that we do not speak.
    Unknown(&'h HeaderValue),
}

/// Which era a message speaks.
#[derive(Debug)]
pub(super) enum Era {
    /// One with sessions.
    Legacy,
    /// One without: its envelope, or what is wrong with it.
    Modern(Result<Envelope, String>),
    /// None by its body, and one without sessions by its header.
    Bare,
}

impl<'h> Version<'h> {
    pub(super) fn of(headers: &'h HeaderMap) -> Self {
        let Some(value) = headers.get(&PROTOCOL_VERSION) else { return Self::Absent };
        match value.to_str().ok().and_then(|name| Revision::of(name.trim())) {
            Some(revision) if revision.is_modern() => Self::Modern,
            Some(_) => Self::Legacy,
            None => Self::Unknown(value),
        }
    }
}

impl Era {
    /// The era of `message`. One of a session costs a search through its text, and nothing is read again.
    pub(super) fn of(version: Version<'_>, message: &Message) -> Self {
        let is_modern = version == Version::Modern;
        let envelope = if is_modern || is_marked(message.text()) { Envelope::read(message) } else { None };
        match envelope {
            Some(envelope) => Self::Modern(envelope),
            None if is_modern => Self::Bare,
            None => Self::Legacy,
        }
    }
}

/// Whether one of the messages in the array `text` has an envelope.
pub(super) fn any_modern(text: &bytes::Bytes, depth: usize) -> bool {
    if !is_marked(text) {
        return false;
    }
    let places = std::str::from_utf8(text).ok().and_then(|text| wire::elements(text).ok());
    places.into_iter().flatten().any(|place| {
        let message = Message::parse(text.slice(place), depth);
        message.is_ok_and(|message| Envelope::read(&message).is_some())
    })
}

/// Whether there may be an envelope in `text`. Only the end of the key is looked for: some write its slash with an escape.
fn is_marked(text: &[u8]) -> bool {
    /// Made once: every message is searched.
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"protocolVersion\""));
    KEY.find(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn era(version: Option<&'static str>, meta: &str) -> Era {
        let mut headers = HeaderMap::new();
        headers.extend(
            version.map(|name| (PROTOCOL_VERSION.clone(), HeaderValue::from_bytes(name.as_bytes()).unwrap())),
        );
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{meta}}}}}"#);
        Era::of(Version::of(&headers), &Message::parse(text.into(), 16).unwrap())
    }

    #[test]
    fn the_body_comes_first() {
        const WHOLE: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        for version in [None, Some("2025-11-25"), Some("2026-07-28"), Some("2099-01-01"), Some("\u{fe}")] {
            assert!(matches!(era(version, WHOLE), Era::Modern(Ok(_))), "{version:?}");
            assert!(matches!(era(version, &WHOLE.replace('/', "\\/")), Era::Modern(Ok(_))), "{version:?}");
            let broken = r#"{"io.modelcontextprotocol/protocolVersion":7}"#;
            assert!(matches!(era(version, broken), Era::Modern(Err(_))), "{version:?}");
        }
        let escaped = WHOLE.replace("Version", "\\u0056ersion");
        assert!(matches!(era(Some("2026-07-28"), &escaped), Era::Modern(Ok(_))));
        for none in ["{}", r#"{"protocolVersion":"2026-07-28"}"#] {
            assert!(matches!(era(Some("2026-07-28"), none), Era::Bare));
            for version in [None, Some("2025-11-25"), Some("2099-01-01")] {
                assert!(matches!(era(version, none), Era::Legacy), "{version:?}");
            }
        }
    }

    #[test]
    fn one_of_several_is_enough() {
        let modern = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let legacy =
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}"#;
        let any = |text: String| any_modern(&text.into(), 16);
        assert!(any(format!("[{legacy},{modern}]")) && any(format!(" [7, {modern}]")));
        assert!(!any(format!("[{legacy},{legacy}]")) && !any("[]".into()) && !any(format!("[{modern}")));
    }
}
