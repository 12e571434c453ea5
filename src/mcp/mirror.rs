//! What the headers of a modern request repeat of its body, and how texts stand in headers (specification of 2026-07-28,
//! `basic/transports/streamable-http`, "Request Metadata" and "Value Encoding").

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderName, HeaderValue};

use super::param_header::ParamHeader;
use super::revision::Revision;
use super::{header, method};

/// What the headers repeat; values are encoded already.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Mirror(Vec<(HeaderName, HeaderValue)>);

impl Mirror {
    /// The headers of a request in `revision`: its method, the `name` that it [names](named_by), and the arguments that
    /// `params` tell to repeat. None for a legacy revision.
    pub fn of(
        revision: Revision,
        method: &str,
        name: Option<&str>,
        params: &[ParamHeader],
        arguments: Option<&str>,
    ) -> Self {
        if !revision.is_modern() {
            return Self::default();
        }
        let mut headers = vec![(header::METHOD.clone(), encode_header(method))];
        headers.extend(name.map(|name| (header::NAME.clone(), encode_header(name))));
        if let Some(arguments) = arguments {
            let shown = params.iter().filter_map(|param| Some((param.name(), param.value(arguments)?)));
            headers.extend(shown.map(|(name, value)| (name.clone(), encode_header(&value))));
        }
        Self(headers)
    }

    /// The headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Counts: arguments may be secret.
impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mirror({} headers)", self.0.len())
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Mirror {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

/// The member of a request's `params` that its `Mcp-Name` repeats, if it has one.
pub fn named_by(method: &str) -> Option<&'static str> {
    match method {
        method::TOOLS_CALL | method::PROMPTS_GET => Some("name"),
        method::RESOURCES_READ => Some("uri"),
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => Some("taskId"),
        _ => None,
    }
}

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// `text` as a header's value: itself where it may stand there, else in Base64 between two marks.
pub fn encode_header(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && between_marks(text).is_none();
    let encoded =
        if plain { Cow::Borrowed(text) } else { format!("{OPEN}{}{CLOSE}", STANDARD.encode(text)).into() };
    HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static("")) // it is visible ASCII
}

/// A header's value that no sender should have written so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// Marked as Base64, but not that, or not of UTF-8.
    #[error("its Base64 is not valid")]
    Base64,
    /// Bytes that must not stand in a header as they are.
    #[error("it has characters that must be encoded")]
    Characters,
}

/// What a header's value says.
///
/// # Errors
/// Where it is marked as Base64 and is not strictly that, or has characters that may not stand there.
pub fn decode_header(value: &[u8]) -> Result<Cow<'_, str>, BadHeader> {
    let is_plain = |byte: &u8| *byte == b'\t' || (0x20..=0x7e).contains(byte);
    let text = std::str::from_utf8(value).ok().filter(|_| value.iter().all(is_plain));
    let text = text.ok_or(BadHeader::Characters)?.trim_matches([' ', '\t']);
    let Some(encoded) = between_marks(text) else { return Ok(Cow::Borrowed(text)) };
    let bytes = STANDARD.decode(encoded).map_err(|_| BadHeader::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadHeader::Base64)
}

/// What stands between the marks, which must be written exactly so.
fn between_marks(text: &str) -> Option<&str> {
    text.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodes_as_the_specification_shows() {
        for (text, value) in [
            ("us-west1", "us-west1"),
            ("", ""),
            ("a b", "a b"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?", "=?base64?"),
        ] {
            assert_eq!(encode_header(text), value, "{text}");
            assert_eq!(decode_header(value.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn decodes_strictly() {
        for (value, text) in [
            (&b"  a\t"[..], Ok("a")),
            (b"=?BASE64?YQ==?=", Ok("=?BASE64?YQ==?=")),
            (b"=?base64?YQ==", Ok("=?base64?YQ==")),
            (b"YQ==?=", Ok("YQ==?=")),
            (b"=?base64??=", Ok("")),
            (b"=?base64?YQ==?=", Ok("a")),
            (b"=?base64?YQ?=", Err(BadHeader::Base64)),
            (b"=?base64?YR==?=", Err(BadHeader::Base64)),
            (b"=?base64?YQ===?=", Err(BadHeader::Base64)),
            (b"=?base64?Y Q==?=", Err(BadHeader::Base64)),
            (b"=?base64?_-==?=", Err(BadHeader::Base64)),
            (b"=?base64?/w==?=", Err(BadHeader::Base64)),
            ("é".as_bytes(), Err(BadHeader::Characters)),
            (b"\xff", Err(BadHeader::Characters)),
        ] {
            assert_eq!(decode_header(value).as_deref().map_err(|why| *why), text, "{value:?}");
        }
    }

    #[test]
    fn mirrors_modern_requests_only() {
        let mirror = Mirror::of(Revision::LATEST, method::RESOURCES_READ, Some("a://é"), &[], None);
        let headers: Vec<_> =
            mirror.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(headers, [("mcp-method", "resources/read"), ("mcp-name", "=?base64?YTovL8Op?=")]);
        assert!(Mirror::of(Revision::LATEST_LEGACY, method::PING, None, &[], None).is_empty());
        assert_eq!(named_by(method::TASKS_GET), Some("taskId"));
        assert_eq!(named_by(method::TOOLS_LIST), None);
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in prop_oneof![any::<String>(), "=?base64.?[A-Za-z+/= ]{0,9}.?="]) {
            let value = encode_header(&text);
            prop_assert!(value.as_bytes().iter().all(|byte| (0x20..=0x7e).contains(byte)));
            let read = decode_header(value.as_bytes());
            prop_assert_eq!(read.as_deref(), Ok(&*text));
        }

        #[test]
        fn no_bytes_are_too_much(value in prop::collection::vec(any::<u8>(), 0..40)) {
            let _read = decode_header(&value);
        }
    }
}
