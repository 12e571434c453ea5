//! Messages of our own making.

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;

use super::code::Code;

/// A number in digits, without an allocation: every call has some.
#[derive(Debug, Clone, Copy)]
pub struct Digits {
    text: [u8; 20],
    start: usize,
}

impl Digits {
    /// Of `number`.
    pub fn of(mut number: u64) -> Self {
        let (mut text, mut start) = ([b'0'; 20], 20);
        for place in text.iter_mut().rev() {
            *place += u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
            start -= 1;
            if number == 0 {
                break;
            }
        }
        Self { text, start }
    }

    /// ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A request; `params` is raw JSON.
pub fn request(id: u64, method: &str, params: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, quoted(method)).into()
}

/// A notification; `params` is raw JSON.
pub fn notification(method: &str, params: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, quoted(method)).into()
}

/// An answer; `id` and `result` are raw JSON.
pub fn response(id: &[u8], result: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(id.len() + result.len() + 36);
    out.put_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.put_slice(id);
    out.put_slice(br#","result":"#);
    out.put_slice(result);
    out.put_u8(b'}');
    out.freeze()
}

/// A refusal; `id` is raw JSON, left out where the request's could not be read (schema from 2025-11-25 on).
pub fn error(id: Option<&[u8]>, code: Code, message: &str) -> Bytes {
    error_with(id, code, message, "")
}

/// As [`error`], with `data`, raw JSON; none where it is empty.
pub fn error_with(id: Option<&[u8]>, code: Code, message: &str, data: &str) -> Bytes {
    let number = code.number();
    let id = id.map(|id| format!(r#""id":{},"#, String::from_utf8_lossy(id))).unwrap_or_default();
    let data = if data.is_empty() { String::new() } else { format!(r#","data":{data}"#) };
    format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{number},"message":{}{data}}}}}"#, quoted(message))
        .into()
}

/// An answer with a server's own error; `id` and `error` are raw JSON.
pub fn failure(id: &[u8], error: &[u8]) -> Bytes {
    [br#"{"jsonrpc":"2.0","id":"#, id, br#","error":"#, error, b"}"].concat().into()
}

/// Several raw JSON texts as an array.
pub fn array(texts: &[Bytes]) -> Bytes {
    let mut out = BytesMut::with_capacity(texts.iter().map(|text| text.len() + 1).sum::<usize>() + 2);
    for (n, text) in texts.iter().enumerate() {
        out.put_u8(if n == 0 { b'[' } else { b',' });
        out.put_slice(text);
    }
    if texts.is_empty() {
        out.put_u8(b'[');
    }
    out.put_u8(b']');
    out.freeze()
}

/// `text`, valid JSON, on one line. Line breaks can only stand between its tokens, so nothing of it changes.
pub fn flat(text: Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', &text).is_none() {
        return text;
    }
    text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 7, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(Digits::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn what_we_build_reads_back() {
        let message =
            crate::wire::Message::parse(error(Some(br#""a""#), Code::Parse, "a \"b\"\n"), 9).unwrap();
        assert_eq!(message.id().unwrap(), r#""a""#);
        assert_eq!(message.body().unwrap(), r#"{"code":-32700,"message":"a \"b\"\n"}"#);
        assert_eq!(array(&[]), "[]");
        assert_eq!(array(&["1".into(), "{}".into()]), "[1,{}]");
        assert_eq!(flat("{\n\"a\":1\r\n}".into()), r#"{ "a":1  }"#);
    }
}
