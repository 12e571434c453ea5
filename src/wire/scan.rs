//! A strict JSON reader that keeps nothing: it tells whether a text is JSON and where its parts lie.
//!
//! The parts that we look at are few and stand at the outside, so their places are all that a message costs.

use super::member::{Malformed, Span};

/// How deep a text may nest at the most: one bit a level.
pub(super) const DEEPEST: usize = 128;

/// A place in a text, moving on.
pub(super) struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    limit: usize,
}

impl<'t> Scan<'t> {
    /// The start of `text`, valid UTF-8, which may nest `limit` deep, [`DEEPEST`] at the most.
    pub(super) fn new(text: &'t [u8], limit: usize) -> Self {
        Self { text, at: 0, limit: limit.min(DEEPEST) }
    }

    /// Reads an object to the end of the text, and tells the places of each member's key and value.
    pub(super) fn object(
        mut self,
        mut member: impl FnMut(Span, Span) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.open(b'{', "an object")?;
        if self.closes(b'}') {
            return self.end();
        }
        loop {
            let start = self.at;
            self.key()?;
            let key = start..self.at;
            self.colon()?;
            let place = self.place()?;
            member(key, place)?;
            if self.closes(b'}') {
                return self.end();
            }
            self.comma()?;
        }
    }

    /// Reads an object that may not have come whole, up to the member with the raw `key`, and tells the places of those
    /// before it. Gives where its value begins.
    pub(super) fn until(
        mut self,
        key: &[u8],
        mut member: impl FnMut(Span, Span) -> Result<(), Malformed>,
    ) -> Result<usize, Malformed> {
        self.open(b'{', "an object")?;
        loop {
            let start = self.at;
            self.key()?;
            let found = start..self.at;
            self.colon()?;
            self.space();
            if self.text.get(found.clone()) == Some(key) {
                return Ok(self.at);
            }
            let place = self.place()?;
            member(found, place)?;
            self.comma()?;
        }
    }

    /// Reads an array to the end of the text, and tells the place of each element.
    pub(super) fn array(mut self, mut element: impl FnMut(Span)) -> Result<(), Malformed> {
        self.open(b'[', "an array")?;
        if self.closes(b']') {
            return self.end();
        }
        loop {
            element(self.place()?);
            if self.closes(b']') {
                return self.end();
            }
            self.comma()?;
        }
    }

    fn open(&mut self, bracket: u8, wanted: &str) -> Result<(), Malformed> {
        self.space();
        if self.peek() == Some(bracket) {
            self.at += 1;
            self.space();
            return Ok(());
        }
        self.value(0)?;
        self.space();
        if self.at < self.text.len() {
            return self.wrong("the end");
        }
        Err(Malformed::NotRpc(format!("{wanted} was expected here").into()))
    }

    fn place(&mut self) -> Result<Span, Malformed> {
        self.space();
        let start = self.at;
        self.value(1)?;
        let place = start..self.at;
        self.space();
        Ok(place)
    }

    fn closes(&mut self, bracket: u8) -> bool {
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
        closes
    }

    fn end(&mut self) -> Result<(), Malformed> {
        self.space();
        if self.at < self.text.len() { self.wrong("the end") } else { Ok(()) }
    }

    /// One value of any kind, `base` deep in the text. Does not recurse: what is open stands in the bits of a number.
    fn value(&mut self, base: usize) -> Result<(), Malformed> {
        let (mut depth, mut objects) = (base, 0_u128);
        loop {
            self.space();
            let mut whole = true;
            match self.peek() {
                Some(b'"') => self.string()?,
                Some(b'{' | b'[') => {
                    depth += 1;
                    if depth > self.limit {
                        return Err(Malformed::TooDeep(self.limit));
                    }
                    let object = self.peek() == Some(b'{');
                    objects = objects << 1 | u128::from(object);
                    self.at += 1;
                    self.space();
                    whole = self.peek() == Some(if object { b'}' } else { b']' });
                    if !whole && object {
                        self.key()?;
                        self.colon()?;
                    }
                }
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => self.number()?,
            }
            // A value that is whole may end those around it.
            while whole {
                if depth == base {
                    return Ok(());
                }
                self.space();
                let object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.comma()?;
                        if object {
                            self.key()?;
                            self.colon()?;
                        }
                        whole = false;
                    }
                    Some(b'}') if object => {
                        (self.at, depth, objects) = (self.at + 1, depth - 1, objects >> 1);
                    }
                    Some(b']') if !object => {
                        (self.at, depth, objects) = (self.at + 1, depth - 1, objects >> 1);
                    }
                    _ => return self.wrong("`,` or a closing bracket"),
                }
            }
        }
    }

    fn key(&mut self) -> Result<(), Malformed> {
        if self.peek() == Some(b'"') { self.string() } else { self.wrong("a key") }
    }

    fn colon(&mut self) -> Result<(), Malformed> {
        self.space();
        if self.closes(b':') { Ok(()) } else { self.wrong("`:`") }
    }

    fn comma(&mut self) -> Result<(), Malformed> {
        if !self.closes(b',') {
            return self.wrong("`,` or a closing bracket");
        }
        self.space();
        Ok(())
    }

    fn string(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        loop {
            self.plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0x20..) => self.at += 1,
                _ => return self.wrong("the end of the string"),
            }
        }
    }

    /// Up to the next byte that is no plain part of a string, or near the end of the text.
    fn plain(&mut self) {
        /// Longer strings are worth the wider steps.
        const SHORT: usize = 16;
        let end = self.at + SHORT;
        while self.at < end {
            if !self.step() {
                return;
            }
        }
        while let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk::<32>) {
            // Bit by bit and with no way out in between, so that it becomes a few instructions for all of them.
            let special = |found: u8, byte: &u8| {
                found | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < 0x20)
            };
            if bytes.iter().fold(0, special) > 0 {
                break;
            }
            self.at += bytes.len();
        }
        while self.step() {}
    }

    /// Over eight plain bytes; else up to the one that is not plain, or nowhere near the end of the text.
    fn step(&mut self) -> bool {
        const ONES: u64 = u64::MAX / 0xff;
        const HIGH: u64 = ONES << 7;
        let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) else { return false };
        let word = u64::from_le_bytes(*bytes);
        let quote = (word ^ (ONES * 0x22)).wrapping_sub(ONES);
        let backslash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
        let control = word.wrapping_sub(ONES * 0x20);
        let found = (quote | backslash | control) & !word & HIGH;
        // None found: all eight.
        self.at += found.trailing_zeros() as usize / 8;
        found == 0
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.text.get(self.at + 1..self.at + 5).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return self.wrong("four hexadecimal digits");
                }
                self.at += 5;
            }
            _ => return self.wrong("an escape"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.wrong("a value");
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Malformed> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return self.wrong("a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn wrong(&self, wanted: &str) -> Result<(), Malformed> {
        Err(Malformed::NotJson(format!("{wanted} was expected at byte {}", self.at)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn reads(text: &str) -> bool {
        let mut scan = Scan::new(text.as_bytes(), DEEPEST);
        scan.value(0).and_then(|()| scan.end()).is_ok()
    }

    /// Text that is JSON, or nearly so.
    fn nearly_json() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\",
            "\\u00e9",
            "\\ud800",
            "\\x",
            "a",
            "key",
            "é",
            "\u{1F680}",
            " ",
            "\n",
            "\t",
            "0",
            "-",
            "1",
            "12345678",
            ".",
            "e",
            "E+",
            "true",
            "false",
            "null",
            "nul",
            "\"a\":",
            "\"b\",",
            "\u{1}",
            "\u{7f}",
            "[]",
            "{}",
            "\"\"",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[ -~é]{0,40}".prop_map(|text| serde_json::Value::from(text).to_string()),
            any::<f64>()
                .prop_filter("JSON has finite numbers only", |n| n.is_finite())
                .prop_map(|n| n.to_string()),
            any::<i64>().prop_map(|n| n.to_string()),
            Just("null".to_owned()),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6)
                    .prop_map(|items| format!("[ {} ]", items.join(" ,\n"))),
                prop::collection::vec(("[a-z\\\\]{0,9}", inner), 0..6).prop_map(|members| {
                    let text = |(key, value): &(String, String)| {
                        format!("{} : {value}", serde_json::Value::from(&**key))
                    };
                    format!("{{{}}}", members.iter().map(text).collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_serde_json(text in prop_oneof![nearly_json(), json()]) {
            prop_assert_eq!(reads(&text), serde_json::from_str::<&RawValue>(&text).is_ok(), "{:?}", text);
        }

        #[test]
        fn agrees_on_json_cut_anywhere(text in json(), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(text.len() + 1);
            if let Some(text) = text.get(..cut) {
                prop_assert_eq!(reads(text), serde_json::from_str::<&RawValue>(text).is_ok(), "{:?}", text);
            }
        }
    }

    #[test]
    fn depth_is_counted_to_the_last_level() {
        let nested = |n: usize| format!("{}{}", "[{\"a\":".repeat(n / 2) + "1", "}]".repeat(n / 2));
        assert!(reads(&nested(128)) && !reads(&nested(130)));
        let million = "[".repeat(1_000_000);
        assert_eq!(Scan::new(million.as_bytes(), 128).value(0), Err(Malformed::TooDeep(128)));
    }
}
