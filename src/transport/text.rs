//! What peers wrote, made fit for an error or a log line.

use std::error::Error;

/// The longest text of a peer in a [`Failure`](super::Failure), in characters.
pub(super) const SHORT: usize = 200;

/// How much of a text is looked at, in bytes.
const HEAD: usize = 4096;

/// Values from the configuration that must not come back in a text.
#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Hides `values`, and what follows the scheme in values like `Bearer x`. Short ones are no secrets (`info`, `true`)
    /// and would tear holes into everything.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let both =
            values.into_iter().flat_map(|value| [Some(value), value.split_once(' ').map(|(_, rest)| rest)]);
        let mut hidden: Vec<_> = both.flatten().filter(|value| value.len() >= 8).map(str::to_owned).collect();
        hidden.sort_by_key(|value| std::cmp::Reverse(value.len())); // the whole before its parts
        Self(hidden)
    }

    /// These and `more`.
    pub(super) fn with<'a>(&'a self, more: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(self.0.iter().map(String::as_str).chain(more))
    }

    /// The start of `text` on one line without control characters, at most `most` characters.
    pub(super) fn plain(&self, text: &[u8], most: usize) -> String {
        let head = text.get(..HEAD.max(most)).unwrap_or(text);
        let mut text = String::from_utf8_lossy(head).into_owned();
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "***");
            }
        }
        plain(&text, most)
    }

    /// What a body looks like, for people.
    pub(super) fn snippet(&self, body: &[u8]) -> String {
        if is_html(body) { "an HTML page".into() } else { self.plain(body, SHORT) }
    }
}

/// `text` on one line without control characters and terminal sequences, at most `most` characters.
pub(super) fn plain(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut chars = text.trim().chars();
    let mut written = 0;
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.as_str().starts_with('[') {
            chars.next();
            chars.by_ref().find(|c| ('@'..='~').contains(c)); // a colour ends with a letter
            continue;
        }
        let c = if c.is_whitespace() { ' ' } else { c };
        if c.is_control() || is_invisible(c) || (c == ' ' && out.ends_with(' ')) {
            continue;
        }
        if written == most {
            out.push('…');
            break;
        }
        out.push(c);
        written += 1;
    }
    out
}

/// The innermost reason of an error: the outer ones only say where it was met.
pub(super) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    plain(&inner.to_string(), SHORT)
}

/// Marks that turn the direction of text, and others that show nothing: they could disguise a log line.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn is_html(body: &[u8]) -> bool {
    let head = body.get(..512).unwrap_or(body).trim_ascii_start().to_ascii_lowercase();
    let page = memchr::memmem::find(&head, b"<html").is_some();
    head.starts_with(b"<!doctype html") || (head.starts_with(b"<") && page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_one_short_plain_line() {
        assert_eq!(plain(" a\r\n\t b\u{1b}[31mred\u{1b}[0m\u{0}\u{202e}c ", 99), "a bredc");
        assert_eq!(plain(&"é".repeat(300), SHORT).chars().count(), SHORT + 1);
        assert_eq!(plain("abc", 3), "abc");
    }

    #[test]
    fn secrets_do_not_come_back() {
        let secrets = Secrets::new(["Bearer sk-123456789", "info"]);
        assert_eq!(secrets.plain(b"bad token sk-123456789, info", 99), "bad token ***, info");
        assert_eq!(secrets.plain(b"got Bearer sk-123456789", 99), "got ***");
        assert_eq!(format!("{secrets:?}"), "Secrets(2)");
        assert_eq!(secrets.with(["abcdefgh"]).plain(b"abcdefgh sk-123456789", 99), "*** ***");
    }

    #[test]
    fn pages_are_called_pages() {
        let secrets = Secrets::default();
        assert_eq!(secrets.snippet(b"\n<!DOCTYPE html><p>secret"), "an HTML page");
        assert_eq!(secrets.snippet(b"<?xml?><HTML>"), "an HTML page");
        assert_eq!(secrets.snippet(b"<oops>"), "<oops>");
    }
}
