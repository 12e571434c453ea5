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
    members_within(text.as_bytes(), keys, DEEPEST, Near::Other)
}

/// What a key is that differs from a wanted one in the case of its letters alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Near {
    /// Another key.
    Other,
    /// Refused: some readers take no notice of case, so it would say one thing to us and another to the next.
    Refused,
}

/// As [`members`], of a text, valid UTF-8, that may nest `depth` deep.
pub(super) fn members_within<const N: usize>(
    text: &[u8],
    keys: [&str; N],
    depth: usize,
    near: Near,
) -> Result<[Option<Span>; N], Malformed> {
    let mut found = [const { None }; N];
    Scan::new(text, depth).object(|key, place| {
        let raw = text.get(key).unwrap_or_default();
        let Some(slot) = keys.iter().zip(&mut found).find_map(|(key, slot)| is_key(raw, key).then_some(slot))
        else {
            let twin = keys.iter().find(|key| near == Near::Refused && resembles(raw, key));
            return twin.map_or(Ok(()), |key| {
                let text = format!("{} reads like `{key}` and is not", String::from_utf8_lossy(raw));
                Err(Malformed::NotRpc(text.into()))
            });
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
pub(super) fn is_key(raw: &[u8], key: &str) -> bool {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if inner == key.as_bytes() {
        return true;
    }
    inner.contains(&b'\\') && std::str::from_utf8(raw).ok().and_then(Text::of).is_some_and(|text| text == key)
}

/// Whether the JSON string `raw` says `key` to a reader that takes no notice of case. To some of those the long s and the
/// Kelvin sign are letters of ASCII.
pub(super) fn resembles(raw: &[u8], key: &str) -> bool {
    /// What an escaped character takes.
    const ESCAPED: usize = 6;
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if inner.len() < key.len() || inner.len() > ESCAPED * key.len() {
        return false;
    }
    if inner.eq_ignore_ascii_case(key.as_bytes()) {
        return true;
    }
    let fold = |letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    let text = std::str::from_utf8(raw).ok().and_then(Text::of);
    text.is_some_and(|text| text.chars().map(fold).eq(key.chars().map(fold)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_read_alike_are_refused_where_it_matters() {
        let near = |text: &str, near| members_within(text.as_bytes(), ["params", "task"], DEEPEST, near);
        for key in ["Params", "PARAMS", "param\u{17f}", "p\\u0041rams", "tas\u{212a}", "TAS\\u212a"] {
            let text = format!(r#"{{"params":1,"{key}":2}}"#);
            assert!(matches!(near(&text, Near::Refused), Err(Malformed::NotRpc(_))), "{key}");
            assert_eq!(near(&text, Near::Other).unwrap()[0], Some(10..11), "{key}");
        }
        for key in ["param", "paramz", "p-arams", "par\u{e4}ms", "\\ud800"] {
            assert!(near(&format!(r#"{{"params":1,"{key}":2}}"#), Near::Refused).is_ok(), "{key}");
        }
    }
}
