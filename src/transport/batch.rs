//! Texts that hold one message or, from servers of 2025-03-26, several.

use bytes::Bytes;

use super::Failure;
use super::text::{SHORT, Secrets, plain};
use crate::wire::{Malformed, Message, elements};

/// Most messages in one text.
const MOST: usize = 100;

/// Gives the messages in `text` to `take`, in order. What a server asks or tells may have odd params: that is no reason to
/// lose what it answers.
pub(super) fn each(text: Bytes, depth: usize, mut take: impl FnMut(Message)) -> Result<(), Malformed> {
    if text.trim_ascii_start().first() != Some(&b'[') {
        take(Message::parse_any(text, depth)?);
        return Ok(());
    }
    let readable = std::str::from_utf8(&text).map_err(|error| Malformed::NotJson(error.to_string()))?;
    let places = elements(readable)?;
    if places.is_empty() || places.len() > MOST {
        return Err(Malformed::NotRpc(format!("a batch of {} messages", places.len()).into()));
    }
    for place in places {
        take(Message::parse_any(text.slice(place), depth)?);
    }
    Ok(())
}

/// What is wrong with `text`, for people.
pub(super) fn garbage(text: &[u8], why: &Malformed, secrets: &Secrets) -> Failure {
    Failure::Garbage(match why {
        Malformed::NotJson(_) if text.trim_ascii().is_empty() => "an empty body".into(),
        Malformed::NotJson(_) => secrets.snippet(text),
        Malformed::NotRpc(_) | Malformed::TooDeep(..) => plain(&why.to_string(), SHORT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<Option<u64>>, Malformed> {
        let mut found = Vec::new();
        each(Bytes::copy_from_slice(text.as_bytes()), 9, |message| found.push(message.number()))?;
        Ok(found)
    }

    #[test]
    fn one_or_several() {
        let one = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(kinds(one).unwrap(), [Some(1)]);
        assert_eq!(kinds(&format!(" [{one} , {one}]")).unwrap(), [Some(1), Some(1)]);
        for bad in ["[]", "[1]", "[[]]", &format!("[{one}"), &format!("[{}]", [one; 101].join(","))] {
            assert!(kinds(bad).is_err(), "{bad}");
        }
    }
}
