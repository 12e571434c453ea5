//! A long result on its way through, piece by piece: what is inside is neither held nor changed.

use std::mem::take;

use bytes::Bytes;
use memchr::memchr2;

use super::member::{Malformed, Text, is_key, resembles};
use super::scan::DEEPEST;

/// A response with a result that passes on under another id while it comes. Of its text only the brackets are counted and
/// a few members looked at, so what is no JSON further inside passes as it is, as it would without us. Its last bracket is
/// kept back until all is known to be well: who reads a response that is not cannot take it for whole.
#[derive(Debug)]
pub struct Passage {
    /// The id that the server knows, and the one that the client does, raw.
    ours: u64,
    theirs: Bytes,
    limit: usize,
    depth: usize,
    /// Which of the open brackets are those of objects: a bit for each, the innermost the lowest.
    objects: u128,
    reads: Reads,
    /// What the token that is being read is, or the value that comes next.
    what: What,
    /// A key comes next.
    key_next: bool,
    /// The member of the message that is open is the result.
    in_result: bool,
    /// What has come of a token that is looked at.
    token: Vec<u8>,
    found: Found,
    is_error: bool,
    uris: Vec<String>,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Between tokens.
    Between,
    Text,
    /// In a text, behind a backslash.
    Escape,
    /// A number, `true`, `false` or `null`.
    Word,
    /// Behind the last bracket.
    End,
}

/// What a token is to us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum What {
    /// It passes.
    #[default]
    Any,
    Key,
    Version,
    Id,
    Result,
    /// Whether a tool has failed.
    IsError,
    /// The URI of a resource.
    Uri,
}

/// The members of the message that have come.
#[derive(Debug, Default)]
struct Found {
    version: bool,
    id: bool,
    result: bool,
}

/// The longest token that is looked at, in bytes: a URI.
const TOKEN: usize = 2048;
/// How deep the URIs stand that are a client's to read: in blocks of content, in embedded resources, in messages.
const URIS: std::ops::RangeInclusive<usize> = 4..=7;
/// Most of them that are noted.
const MOST: usize = 1000;

impl Passage {
    /// Of the response to the request `ours`, which the client knows as `theirs`. It may nest `limit` deep.
    pub fn new(ours: u64, theirs: Bytes, limit: usize) -> Self {
        Self {
            ours,
            theirs,
            limit: limit.min(DEEPEST),
            depth: 0,
            objects: 0,
            reads: Reads::Between,
            what: What::Any,
            key_next: false,
            in_result: false,
            token: Vec::new(),
            found: Found::default(),
            is_error: false,
            uris: Vec::new(),
        }
    }

    /// Takes the next bytes; what of them may go on is put to `out`.
    ///
    /// # Errors
    /// Where it turns out to be no result, or that of another request.
    pub fn pass(&mut self, piece: &Bytes, out: &mut Vec<Bytes>) -> Result<(), Malformed> {
        if self.reads == Reads::End {
            return rest(piece);
        }
        // What goes on begins at `from`; of an id nothing does.
        let (mut at, mut from) = (0, if self.is_cutting() { piece.len() } else { 0 });
        while at < piece.len() {
            let cuts = self.is_cutting();
            let start = at;
            at = self.step(piece, at)?;
            match (cuts, self.is_cutting()) {
                (false, true) => {
                    push(out, piece.slice(from..start));
                    from = piece.len();
                }
                (true, false) => {
                    push(out, self.theirs.clone());
                    from = at;
                }
                (true, true) | (false, false) => {}
            }
            if self.reads == Reads::End {
                push(out, piece.slice(from..start));
                return rest(piece.get(at..).unwrap_or_default());
            }
        }
        push(out, piece.slice(from..));
        Ok(())
    }

    /// All has come: the last bytes.
    ///
    /// # Errors
    /// Where something is missing.
    pub fn end(&self) -> Result<Bytes, Malformed> {
        let Found { version, id, result } = self.found;
        if self.reads == Reads::End && version && id && result {
            return Ok(Bytes::from_static(b"}"));
        }
        Err(Malformed::NotRpc("it ended before its end".into()))
    }

    /// Whether the result says of itself that it is an error.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// The URIs of resources that have come by since this was asked last, and perhaps others.
    pub fn uris(&mut self) -> Vec<String> {
        take(&mut self.uris)
    }

    /// In the id, or a value that is to become it.
    fn is_cutting(&self) -> bool {
        self.what == What::Id && matches!(self.reads, Reads::Text | Reads::Escape | Reads::Word)
    }

    /// Reads one token, or what has come of it, from `at` on. Gives where it ends.
    fn step(&mut self, piece: &[u8], at: usize) -> Result<usize, Malformed> {
        match self.reads {
            Reads::Between => {
                self.between(piece.get(at).copied().unwrap_or_default()).map(|eaten| at + eaten)
            }
            Reads::Text | Reads::Escape => self.text(piece, at),
            Reads::Word => self.word(piece, at),
            Reads::End => Ok(piece.len()),
        }
    }

    /// Reads a byte between tokens, or leaves it to the token that begins with it: how many are read.
    fn between(&mut self, byte: u8) -> Result<usize, Malformed> {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'{' | b'[' => self.open(byte == b'{')?,
            b'}' | b']' => self.close(byte == b'}')?,
            _ if self.depth == 0 => return Err(no_object()),
            b',' => (self.key_next, self.what) = (self.objects & 1 == 1, What::Any),
            b':' => {}
            b'"' => {
                if take(&mut self.key_next) {
                    self.what = if self.looks_at_keys() { What::Key } else { What::Any };
                }
                self.reads = Reads::Text;
                self.hold(b"\"")?;
            }
            _ => {
                self.reads = Reads::Word;
                return Ok(0);
            }
        }
        Ok(1)
    }

    fn open(&mut self, object: bool) -> Result<(), Malformed> {
        if self.depth == 0 && !object {
            return Err(no_object());
        }
        match take(&mut self.what) {
            What::Id | What::Version => return Err(Malformed::NotRpc("an id or version is neither".into())),
            what @ (What::Any | What::Key | What::Result | What::IsError | What::Uri) => {
                if self.depth == 1 {
                    self.in_result = what == What::Result;
                }
            }
        }
        self.depth += 1;
        if self.depth > self.limit {
            return Err(Malformed::TooDeep(self.limit));
        }
        self.objects = self.objects << 1 | u128::from(object);
        self.key_next = object;
        Ok(())
    }

    fn close(&mut self, object: bool) -> Result<(), Malformed> {
        if self.depth == 0 || (self.objects & 1 == 1) != object {
            return Err(Malformed::NotJson("a bracket closes what is not open".into()));
        }
        (self.depth, self.objects, self.key_next) = (self.depth - 1, self.objects >> 1, false);
        if self.depth == 0 {
            self.reads = Reads::End;
        }
        Ok(())
    }

    /// A text from `at` on, up to its end or the piece's.
    fn text(&mut self, piece: &[u8], mut at: usize) -> Result<usize, Malformed> {
        let start = at;
        if self.reads == Reads::Escape {
            (self.reads, at) = (Reads::Text, at + 1);
        }
        while let Some(found) = memchr2(b'"', b'\\', piece.get(at..).unwrap_or_default()) {
            at += found + 1;
            if piece.get(at - 1) == Some(&b'"') {
                self.hold(piece.get(start..at).unwrap_or_default())?;
                return self.ended().map(|()| at);
            }
            at += 1; // and what is escaped
        }
        if at > piece.len() {
            self.reads = Reads::Escape;
        }
        self.hold(piece.get(start..).unwrap_or_default())?;
        Ok(piece.len())
    }

    fn word(&mut self, piece: &[u8], start: usize) -> Result<usize, Malformed> {
        let rest = piece.get(start..).unwrap_or_default();
        let ends = |byte: &u8| {
            matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b':' | b'"' | b'{' | b'[')
        };
        let length = rest.iter().position(ends);
        self.hold(rest.get(..length.unwrap_or(rest.len())).unwrap_or_default())?;
        match length {
            Some(length) => self.ended().map(|()| start + length),
            None => Ok(piece.len()),
        }
    }

    /// Keeps what is looked at.
    fn hold(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if self.what == What::Any || self.what == What::Result {
            return Ok(());
        }
        if self.token.len() + bytes.len() > TOKEN {
            // Too long to mean anything to us.
            if self.what == What::Id || self.what == What::Version {
                return Err(others());
            }
            self.what = What::Any;
            self.token.clear();
            return Ok(());
        }
        self.token.extend_from_slice(bytes);
        Ok(())
    }

    /// A token is whole.
    fn ended(&mut self) -> Result<(), Malformed> {
        self.reads = Reads::Between;
        let token = take(&mut self.token);
        match take(&mut self.what) {
            What::Key => self.what = self.member(&token)?,
            What::Version if token != br#""2.0""# => {
                return Err(Malformed::NotRpc(r#"`jsonrpc` is not "2.0""#.into()));
            }
            What::Id if token != self.ours.to_string().as_bytes() => {
                return Err(others());
            }
            What::IsError => self.is_error |= token == b"true",
            What::Uri if self.uris.len() < MOST => {
                let raw = std::str::from_utf8(&token).ok();
                self.uris.extend(raw.and_then(Text::of).map(std::borrow::Cow::into_owned));
            }
            What::Any | What::Version | What::Id | What::Result | What::Uri => {}
        }
        self.token = token;
        self.token.clear();
        Ok(())
    }

    fn looks_at_keys(&self) -> bool {
        self.depth == 1 || self.in_result && (self.depth == 2 || URIS.contains(&self.depth))
    }

    /// What the member with the raw `key` is.
    fn member(&mut self, key: &[u8]) -> Result<What, Malformed> {
        if self.depth > 1 {
            return Ok(match self.depth {
                2 if is_key(key, "isError") => What::IsError,
                4.. if is_key(key, "uri") => What::Uri,
                _ => What::Any,
            });
        }
        let Found { version, id, result } = &mut self.found;
        for (name, seen, what) in
            [("jsonrpc", version, What::Version), ("id", id, What::Id), ("result", result, What::Result)]
        {
            if is_key(key, name) {
                let twice = std::mem::replace(seen, true);
                return if twice {
                    Err(Malformed::NotRpc(format!("`{name}` stands there twice").into()))
                } else {
                    Ok(what)
                };
            }
        }
        let odd = ["jsonrpc", "id", "result", "error", "method", "params"]
            .into_iter()
            .find(|name| resembles(key, name));
        odd.map_or(Ok(What::Any), |name| Err(Malformed::NotRpc(format!("a result has no {name}").into())))
    }
}

/// What stands behind the last bracket.
fn rest(bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        return Ok(());
    }
    Err(Malformed::NotJson("something stands behind its end".into()))
}

fn push(out: &mut Vec<Bytes>, bytes: Bytes) {
    if !bytes.is_empty() {
        out.push(bytes);
    }
}

fn no_object() -> Malformed {
    Malformed::NotRpc("an object was expected here".into())
}

fn others() -> Malformed {
    Malformed::NotRpc("it answers another request".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Message;

    /// `text` in pieces of `size` bytes, under the id `"c"` where ours was 7.
    fn passed(text: &str, size: usize) -> Result<(String, Passage), Malformed> {
        let mut passage = Passage::new(7, "\"c\"".into(), DEEPEST);
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            passage.pass(&Bytes::copy_from_slice(piece), &mut out)?;
        }
        out.push(passage.end()?);
        assert!(out.iter().all(|piece| !piece.is_empty()));
        Ok((String::from_utf8(out.concat()).unwrap(), passage))
    }

    /// A result with members in any order, inside and outside.
    fn result() -> impl Strategy<Value = String> {
        let text = prop::sample::select(vec!["", "a", "\\\"", "\\\\", "id\\\":9", "é", "]}", "\\u007d", ","]);
        let text = prop::collection::vec(text, 0..6).prop_map(|parts| format!("\"{}\"", parts.concat()));
        let leaf = prop_oneof![text.clone(), Just("-1.5e9".into()), Just("true".into()), Just("null".into())];
        let value = leaf.prop_recursive(4, 32, 5, move |inner| {
            let key = prop_oneof![text.clone(), Just("\"id\"".into()), Just("\"result\"".into())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(" ,"))),
                prop::collection::vec((key, inner), 0..5).prop_map(|all| {
                    let all: Vec<_> =
                        all.into_iter().map(|(key, value)| format!("{key}\n: {value}")).collect();
                    format!("{{{}}}", all.join(", "))
                }),
            ]
        });
        let key = prop::sample::select(vec!["\"id\"", "\"\\u0069d\""]);
        (value, key, Just([0, 1, 2]).prop_shuffle(), any::<bool>()).prop_map(|(value, key, order, more)| {
            let members =
                [r#""jsonrpc" :"2.0""#.to_owned(), format!("{key}: 7"), format!(r#""result":{value}"#)];
            let mut members: Vec<_> = order.iter().filter_map(|place| members.get(*place).cloned()).collect();
            if more {
                members.insert(1, r#""extra":{"id":8}"#.into());
            }
            format!("{{ {}}} ", members.join(" ,"))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn passes_what_splicing_the_whole_gives(text in result(), size in 1..40_usize) {
            let message = Message::parse(Bytes::from(text.clone()), DEEPEST).unwrap();
            let spliced = message.splice(&mut [(message.id_span().unwrap(), b"\"c\"")]);
            let (passed, _) = passed(&text, size).unwrap();
            prop_assert_eq!(passed.as_bytes(), spliced.trim_ascii_end());
        }
    }

    #[test]
    fn what_is_no_result_of_ours_never_looks_whole() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}1{}}}"#, "[".repeat(128), "]".repeat(128));
        let texts = [
            "",
            "[]",
            "7",
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":"7"}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":{}}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":77}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":+7}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":07}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":7,"id":7}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":7,"Id":8}"#,
            r#"{"result":{},"jsonrpc":"2.0","id":7,"error":{}}"#,
            r#"{"result":{},"jsonrpc":"1.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{]}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}} {"#,
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\x0c",
            r#"{"jsonrpc":"2.0","id":7,"result":"}"#,
            &deep,
        ];
        for text in texts {
            for size in [1, 3, 1000] {
                assert!(passed(text, size).is_err(), "{text} by {size}");
            }
        }
    }

    #[test]
    fn tells_an_error_and_the_uris_that_come_by() {
        let result = r#"{"content":[{"type":"resource_link","uri":"a:\u0031"},{"resource":{"uri":"a:2"}}],"isError":true,"uri":"no"}"#;
        for size in [1, 5, 1000] {
            let (_, mut passage) =
                passed(&format!(r#"{{"result":{result},"jsonrpc":"2.0","id":7}}"#), size).unwrap();
            assert!(passage.is_error());
            assert_eq!(passage.uris(), ["a:1", "a:2"]);
            let (_, mut passage) = passed(
                &format!(r#"{{"other":{result},"result":{{"isError":false}},"jsonrpc":"2.0","id":7}}"#),
                size,
            )
            .unwrap();
            assert!(!passage.is_error() && passage.uris().is_empty());
        }
    }
}
