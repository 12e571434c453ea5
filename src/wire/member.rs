//! Where the parts of a JSON text lie.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

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
    #[error("JSON is nested {0} deep, the limit is {1}")]
    TooDeep(usize, usize),
}

/// The values of the members `keys` of the object that is `text`, as places relative to its start.
///
/// # Errors
/// Where `text` is not JSON, not an object, or has one of `keys` twice: two parsers could disagree on which one counts.
pub fn members<const N: usize>(text: &str, keys: [&str; N]) -> Result<[Option<Span>; N], Malformed> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = Members { base: text.as_ptr() as usize, keys }.deserialize(&mut reader).map_err(told)?;
    reader.end().map_err(told)?;
    Ok(found)
}

/// The places of the elements of the array that is `text`.
///
/// # Errors
/// Where `text` is not JSON or not an array.
pub fn elements(text: &str) -> Result<Vec<Span>, Malformed> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = Elements(text.as_ptr() as usize).deserialize(&mut reader).map_err(told)?;
    reader.end().map_err(told)?;
    Ok(found)
}

/// serde_json's word for a wrong shape is "data", and for a text that is no JSON "syntax" or "eof".
fn told(error: serde_json::Error) -> Malformed {
    if error.is_data() {
        Malformed::NotRpc(error.to_string().into())
    } else {
        Malformed::NotJson(error.to_string())
    }
}

fn place(base: usize, raw: &RawValue) -> Span {
    let start = raw.get().as_ptr() as usize - base;
    start..start + raw.get().len()
}

struct Members<'k, const N: usize> {
    base: usize,
    keys: [&'k str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Members<'_, N> {
    type Value = [Option<Span>; N];
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<Span>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [const { None }; N];
        while let Some(Key(key)) = map.next_key()? {
            let Some(slot) =
                self.keys.iter().zip(&mut found).find_map(|(k, slot)| (*k == key).then_some(slot))
            else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if slot.is_some() {
                return Err(serde::de::Error::custom(format_args!("`{key}` stands there twice")));
            }
            *slot = Some(place(self.base, map.next_value()?));
        }
        Ok(found)
    }
}

struct Elements(usize);

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = Vec<Span>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<Span>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            found.push(place(self.0, raw));
        }
        Ok(found)
    }
}

/// A member's key, borrowed where it holds no escape.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        reader.deserialize_str(Reader).map(Key)
    }
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
