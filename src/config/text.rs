//! The text made readable for a YAML parser: JSON with comments, tabs and surrogate pairs is what editors write.

use std::borrow::Cow;

/// Without a byte order mark; and where it is JSON, comments and tabs outside of strings have become spaces, so that
/// every place stays where it was. A pair of surrogate escapes becomes the one escape that YAML has for it.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_json(text) { Cow::Owned(json(text)) } else { Cow::Borrowed(text) }
}

/// Whether it starts like JSON, perhaps with a comment; `{a: http://b}` does not.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    match text.strip_prefix(['{', '[']) {
        Some(inside) => inside.trim_start().starts_with(['"', '{', '}', ']', '/']),
        None => text.starts_with("//") || text.starts_with("/*"),
    }
}

fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => {
                out.push('"');
                string(&mut chars, &mut out);
            }
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(c) = chars.next_if(|&c| c != '\n') {
                    out.push(blank(c));
                }
            }
            ('/', Some('*')) => {
                out.push_str("  ");
                let mut before = ' '; // not the star, so that `/*/` does not end itself
                for c in chars.by_ref().skip(1) {
                    out.push(blank(c));
                    if (before, c) == ('*', '/') {
                        break;
                    }
                    before = c;
                }
            }
            _ => out.push(if c == '\t' { ' ' } else { c }),
        }
    }
    out
}

fn blank(c: char) -> char {
    if matches!(c, '\n' | '\r') { c } else { ' ' }
}

/// Copies a string up to and with its closing quote.
fn string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '"' => return,
            '\\' if chars.peek() == Some(&'u') => {
                let escape: String = chars.clone().take(11).collect();
                if let Some(c) = surrogates(&escape) {
                    out.extend(format!("U{:08x}", u32::from(c)).chars());
                    let _ = chars.nth(10);
                }
            }
            '\\' => out.extend(chars.next()),
            _ => {}
        }
    }
}

/// The character that `ud83d\ude00` stands for.
fn surrogates(escape: &str) -> Option<char> {
    let (high, low) = escape.strip_prefix('u')?.split_once("\\u")?;
    let unit = |hex: &str| u16::from_str_radix(hex, 16).ok();
    char::decode_utf16([unit(high)?, unit(low)?]).next()?.ok().filter(|&c| c > '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tabs_of_json_become_spaces() {
        let text = "\u{feff}{\r\n\t// why\r\n\t\"a\": \"//\t\\\"/*\", /* x\n*/ \"b\": 1 }";
        assert_eq!(readable(text), "{\r\n       \r\n \"a\": \"//\t\\\"/*\",      \n   \"b\": 1 }");
        assert_eq!(readable("a: b // c\t"), "a: b // c\t");
    }

    #[test]
    fn surrogate_pairs_become_one_escape() {
        assert_eq!(readable(r#"{"a": "\ud83d\ude00\u00e9\\ud83d"}"#), r#"{"a": "\U0001f600\u00e9\\ud83d"}"#);
        assert_eq!(readable(r#"{"a": "\ud83d"}"#), r#"{"a": "\ud83d"}"#);
    }
}
