//! One JSON-RPC message.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use super::member::{Malformed, Near, Span, Text, members_within};
use super::scan::{DEEPEST, Scan};

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Has a method and an id: wants an answer.
    Request,
    /// Has a method and no id.
    Notification,
    /// Answers a request with a result.
    Result,
    /// Answers a request with an error.
    Error,
}

/// A message as it arrived and where its parts lie. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Message {
    text: Bytes,
    kind: Kind,
    method: Box<str>,
    id: Option<Span>,
    params: Option<Span>,
    body: Option<Span>,
    is_open: bool,
}

impl Message {
    /// The start of a response that has not come whole, where it can be told from that that it is one with a result. All
    /// that is known of it is that, and its id if that stands before the result.
    pub fn opening(text: Bytes) -> Option<Self> {
        let (mut id, mut version) = (None, None);
        let begun = Scan::new(&text, DEEPEST).until(br#""result""#, |key, place| {
            match text.get(key).unwrap_or_default() {
                br#""jsonrpc""# if version.is_none() => version = Some(place),
                br#""id""# if id.is_none() => id = Some(place),
                _ => return Err(Malformed::NotRpc("nothing else is expected here".into())),
            }
            Ok(())
        });
        let body = begun.ok()?..text.len();
        if version.is_some_and(|at| text.get(at) != Some(br#""2.0""#)) {
            return None;
        }
        let method = Box::default();
        Some(Self { text, kind: Kind::Result, method, id, params: None, body: Some(body), is_open: true })
    }

    /// Whether more of it is to come, and all of it that is known is how it [opens](Self::opening).
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Reads a message that nests at most `depth` deep.
    ///
    /// # Errors
    /// [`Malformed`] tells a text that is not JSON from one that is no JSON-RPC message.
    pub fn parse(text: Bytes, depth: usize) -> Result<Self, Malformed> {
        let message = Self::parse_any(text, depth)?;
        if message.has_odd_params() {
            return Err(Malformed::NotRpc("`params` is no object".into()));
        }
        Ok(message)
    }

    /// As [`parse`](Self::parse), where a request or notification may have `params` that are no object: so that whoever
    /// sent it can be told so, and all else that came with it goes on.
    ///
    /// # Errors
    /// As there.
    pub fn parse_any(text: Bytes, depth: usize) -> Result<Self, Malformed> {
        let readable = std::str::from_utf8(&text).map_err(|e| Malformed::NotJson(e.to_string()))?;
        let [version, id, method, params, result, error] = members_within(
            &text,
            ["jsonrpc", "id", "method", "params", "result", "error"],
            depth,
            Near::Refused,
        )?;
        let part = |span: &Option<Span>| span.clone().and_then(|span| readable.get(span));
        if part(&version) != Some(r#""2.0""#) {
            return Err(Malformed::NotRpc(r#"`jsonrpc` is not "2.0""#.into()));
        }
        let name = match part(&method) {
            Some(raw) => Text::of(raw).ok_or(Malformed::NotRpc("`method` is no string".into()))?.into(),
            None => "".into(),
        };
        // Clients that always write the member mean that there is nothing in it.
        let params = params.filter(|span| readable.get(span.clone()) != Some("null"));
        let kind = kind(part(&id), method.is_some(), result.is_some(), error.is_some())?;
        // A peer that cannot read an id answers with `null`: no id for us.
        let id = id.filter(|span| readable.get(span.clone()) != Some("null"));
        Ok(Self { kind, method: name, id, params, body: result.or(error), text, is_open: false })
    }

    /// Whether it asks or tells something with `params` that are no object.
    pub fn has_odd_params(&self) -> bool {
        let is_asked = matches!(self.kind, Kind::Request | Kind::Notification);
        is_asked && self.params.as_ref().is_some_and(|at| self.text.get(at.start) != Some(&b'{'))
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The method of a request or notification; empty otherwise.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The whole text, as it arrived.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// The id as written, with its JSON type: `1` and `"1"` differ.
    pub fn id(&self) -> Option<Bytes> {
        self.id.clone().map(|span| self.text.slice(span))
    }

    /// The id as a number, which every id of ours is.
    pub fn number(&self) -> Option<u64> {
        self.slice(self.id.clone()?)?.parse().ok()
    }

    /// Where the id stands.
    pub fn id_span(&self) -> Option<Span> {
        self.id.clone()
    }

    /// The raw `params`.
    pub fn params(&self) -> Option<&str> {
        self.slice(self.params.clone()?)
    }

    /// The raw `result`, or `error`, of a response.
    pub fn body(&self) -> Option<&str> {
        self.slice(self.body.clone()?)
    }

    /// Where the `params` stand.
    pub fn params_span(&self) -> Option<Span> {
        self.params.clone()
    }

    /// Where the `result`, or `error`, of a response stands.
    pub fn body_span(&self) -> Option<Span> {
        self.body.clone()
    }

    /// As [`body`](Self::body), sharing the text.
    pub fn body_bytes(&self) -> Option<Bytes> {
        self.body.clone().map(|span| self.text.slice(span))
    }

    /// The places of the members `keys` of `params`, relative to the message.
    ///
    /// # Errors
    /// Where one of them stands there twice, or something that reads like it but for the case of its letters.
    pub fn params_members<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Span>; N], Malformed> {
        let Some(span) = self.params.clone() else { return Ok([const { None }; N]) };
        self.places(span, keys, Near::Refused)
    }

    /// The places of the members `keys` of the object at `span`, relative to the message.
    ///
    /// # Errors
    /// Where the text there is no object, or one of `keys` stands there twice.
    pub fn members_at<const N: usize>(
        &self,
        span: Span,
        keys: [&str; N],
    ) -> Result<[Option<Span>; N], Malformed> {
        self.places(span, keys, Near::Other)
    }

    fn places<const N: usize>(
        &self,
        span: Span,
        keys: [&str; N],
        near: Near,
    ) -> Result<[Option<Span>; N], Malformed> {
        let start = span.start;
        // Valid UTF-8 as a part of what was read before, which is not to be checked again.
        let inner = self.text.get(span).unwrap_or_default();
        Ok(members_within(inner, keys, DEEPEST, near)?
            .map(|found| found.map(|found| found.start + start..found.end + start)))
    }

    /// The text at `span`.
    pub fn slice(&self, span: Span) -> Option<&str> {
        self.text.get(span).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The JSON string at `span`.
    pub fn string(&self, span: Span) -> Option<Cow<'_, str>> {
        Text::of(self.slice(span)?)
    }

    /// The text with other bytes at some places: the only way to change a message. Places must not overlap.
    pub fn splice(&self, edits: &mut [(Span, &[u8])]) -> Bytes {
        edits.sort_by_key(|(span, _)| (span.start, span.end));
        let grown: usize = edits.iter().map(|(_, with)| with.len()).sum();
        let shrunk: usize = edits.iter().map(|(span, _)| span.len()).sum();
        // To the byte: with room left, the text would need another allocation to be shared.
        let mut out = BytesMut::with_capacity((self.text.len() + grown).saturating_sub(shrunk));
        let mut at = 0;
        for (span, with) in edits.iter() {
            out.extend_from_slice(self.text.get(at..span.start).unwrap_or_default());
            out.extend_from_slice(with);
            at = span.end;
        }
        out.extend_from_slice(self.text.get(at..).unwrap_or_default());
        out.freeze()
    }
}

fn kind(id: Option<&str>, method: bool, result: bool, error: bool) -> Result<Kind, Malformed> {
    let id_ok = |id: &str| id.starts_with('"') || is_integer(id);
    match (method, result, error, id) {
        (true, false, false, None) => Ok(Kind::Notification),
        (true, false, false, Some(id)) if id_ok(id) => Ok(Kind::Request),
        (true, false, false, Some(_)) => {
            Err(Malformed::NotRpc("`id` is neither a string nor an integer".into()))
        }
        (false, true, false, Some(id)) if id_ok(id) => Ok(Kind::Result),
        (false, false, true, None | Some("null")) => Ok(Kind::Error),
        (false, false, true, Some(id)) if id_ok(id) => Ok(Kind::Error),
        _ => Err(Malformed::NotRpc("neither a request, nor a notification, nor a response".into())),
    }
}

/// Of any size: ids are echoed byte by byte, never computed with.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, Malformed> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()), 128)
    }

    #[test]
    fn tells_the_kinds_apart() {
        let kind = |text: &str| parse(text).unwrap().kind();
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Kind::Request);
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"x"}"#), Kind::Notification);
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":"a","result":null}"#), Kind::Result);
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#), Kind::Error);
    }

    #[test]
    fn a_start_tells_a_result_or_nothing() {
        let opening = |text: &str| Message::opening(Bytes::copy_from_slice(text.as_bytes()));
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a"#, Some(7)),
            (r#" { "result" : "#, None),
            (r#"{"id":7,"result":[{"#, Some(7)),
        ] {
            let opening = opening(text).unwrap();
            assert!(opening.is_open() && opening.kind() == Kind::Result);
            assert_eq!(opening.number(), id, "{text}");
        }
        for text in [
            "",
            r#"{"jsonrpc":"2.0","id":7,"resu"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"a"#,
            r#"{"jsonrpc":"2.0","method":"a","result":{"#,
            r#"{"jsonrpc":"1.0","result":{"#,
            r#"{"id":7,"id":7,"result":{"#,
            "{}",
            r#"["result":"#,
        ] {
            assert!(opening(text).is_none(), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_message() {
        let not_json = ["", "nope", "{", "{}x", "\u{feff}{}", r#"{"jsonrpc":"2.0","method":"x"}]"#];
        for text in not_json {
            assert!(matches!(parse(text), Err(Malformed::NotJson(_))), "{text}");
        }
        let not_rpc = [
            "{}",
            "[]",
            "1",
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}"#,
            r#"{"jsonrpc":"2.0","id":1,"Method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","METHOD":"y"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","Params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"Id":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        ];
        for text in not_rpc {
            assert!(matches!(parse(text), Err(Malformed::NotRpc(_))), "{text}");
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#,
            "[".repeat(128),
            "]".repeat(128)
        );
        assert_eq!(parse(&deep).unwrap_err(), Malformed::TooDeep(128));
    }

    #[test]
    fn params_of_nothing_are_none() {
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#).unwrap().params(),
            None
        );
    }

    #[test]
    fn splicing_changes_nothing_else() {
        let text = r#"{ "params":{"b":12345678901234567890123,"a":1e400,"a":-0, "name" : "x\u00e9\ud800"},"method":"m","id": "q","jsonrpc":"2.0"}"#;
        let message = parse(text).unwrap();
        let [name] = message.params_members(["name"]).unwrap();
        assert_eq!(message.id().unwrap(), r#""q""#);
        let spliced = message.splice(&mut [(message.id_span().unwrap(), b"7"), (name.unwrap(), b"\"y\"")]);
        assert_eq!(spliced, text.replace(r#""q""#, "7").replace(r#""x\u00e9\ud800""#, r#""y""#));
    }

    #[test]
    fn escapes_in_keys_and_methods_are_read() {
        let message = parse(r#"{"jsonrpc":"2.0","\u0069d":4,"method":"tools\/call"}"#).unwrap();
        assert_eq!((message.method(), message.number()), ("tools/call", Some(4)));
    }
}
