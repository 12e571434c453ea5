//! Where the parts of a JSON text lie.

use std::borrow::Cow;
use std::ops::Range;

use super::scan::{DEEPEST, Scan};

/// A place in a message's text, in bytes.
pub type Span = Range<usize>;

/// Why a text is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not JSON at all: -32700.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON, but not what JSON-RPC or the method asks for: -32600.
    #[error("{0}")]
    NotRpc(Cow<'static, str>),
    /// Nested deeper than the limit: -32600.
    #[error("JSON is nested deeper than {0}, the limit")]
    TooDeep(usize),
}

/// The values of the members `keys` of the object that is `text`, as places relative to its start.
///
/// # Errors
/// Where `text` is not JSON, not an object, or has one of `keys` twice: two parsers could disagree on which one counts.
pub fn members<const N: usize>(text: &str, keys: [&str; N]) -> Result<[Option<Span>; N], Malformed> {
    members_within(text.as_bytes(), keys, DEEPEST)
}

/// As [`members`], of a text, valid UTF-8, that may nest `depth` deep.
pub(super) fn members_within<const N: usize>(
    text: &[u8],
    keys: [&str; N],
    depth: usize,
) -> Result<[Option<Span>; N], Malformed> {
    let mut found = [const { None }; N];
    Scan::new(text, depth).object(|key, place| {
        let raw = text.get(key).unwrap_or_default();
        let Some(slot) = keys.iter().zip(&mut found).find_map(|(key, slot)| is_key(raw, key).then_some(slot))
        else {
            return Ok(());
        };
        if slot.replace(place).is_some() {
            let twice = format!("{} stands there twice", String::from_utf8_lossy(raw));
            return Err(Malformed::NotRpc(twice.into()));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether the JSON string `raw` says `key`.
fn is_key(raw: &[u8], key: &str) -> bool {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if inner == key.as_bytes() {
        return true;
    }
    inner.contains(&b'\\') && std::str::from_utf8(raw).ok().and_then(Text::of).is_some_and(|text| text == key)
}

/// The places of the elements of the array that is `text`.
///
/// # Errors
/// Where `text` is not JSON or not an array.
pub fn elements(text: &str) -> Result<Vec<Span>, Malformed> {
    let mut found = Vec::new();
    Scan::new(text.as_bytes(), DEEPEST).array(|place| found.push(place))?;
    Ok(found)
}

/// What the JSON string `raw` says, borrowed where it holds no escape.
#[derive(Debug, Clone, Copy)]
pub struct Text;

impl Text {
    /// The string, or `None` where `raw` is no string.
    pub fn of(raw: &str) -> Option<Cow<'_, str>> {
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') {
            serde_json::from_str(raw).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inner))
        }
    }
}
