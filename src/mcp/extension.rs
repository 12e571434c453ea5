//! Extensions that clients declare among their capabilities (specification of 2026-07-28, `basic/index`, "Extensions").

use std::borrow::Cow;

use super::meta::joined;
use crate::wire::{Span, edited, members};

/// The extension MCP Apps: pages that come with tools.
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// Whether raw client `capabilities` declare the extension of that `name`.
pub fn declares(capabilities: &str, name: &str) -> bool {
    // Most declare none, and are not read for it; an escape could hide the word.
    if !capabilities.contains("extensions") && !capabilities.contains('\\') {
        return false;
    }
    let settings = || {
        let [all] = members(capabilities, ["extensions"]).ok()?;
        let all = capabilities.get(all?)?;
        let [settings] = members(all, [name]).ok()?;
        all.get(settings?)
    };
    settings().is_some_and(|settings| settings.starts_with('{'))
}

/// Raw client `capabilities`, an object, that declare the extension of that `name` as well.
pub fn declaring<'c>(capabilities: &'c str, name: &str) -> Cow<'c, str> {
    if declares(capabilities, name) {
        return Cow::Borrowed(capabilities);
    }
    let mine = format!(r#""{name}":{{}}"#);
    let inner = |raw: &str| raw.trim_matches(['{', '}', ' ', '\t', '\r', '\n']).is_empty();
    let into = |at: Span, raw: &str, member: &str| {
        let comma = if inner(raw) { "" } else { "," };
        (at.start + 1..at.start + 1, format!("{member}{comma}"))
    };
    let known = members(capabilities, ["extensions"]).ok().and_then(|[at]| at);
    let edit = match known.and_then(|at| Some((at.clone(), capabilities.get(at)?))) {
        Some((at, all)) if all.starts_with('{') => into(at, all, &mine),
        Some((at, _)) => (at, format!("{{{mine}}}")),
        None => into(0..capabilities.len(), capabilities, &format!(r#""extensions":{{{mine}}}"#)),
    };
    Cow::Owned(edited(capabilities, &mut [edit]))
}

/// The `data` of an error for a client that would have to declare the extension of that `name`.
pub fn lacking(name: &str) -> String {
    format!(r#"{{"requiredCapabilities":{{"extensions":{{"{name}":{{}}}}}}}}"#)
}

/// The extensions that a raw `error` says the client would have to declare: the object of them.
pub(super) fn lacked(error: &str) -> Option<&str> {
    ["data", "requiredCapabilities", "extensions"].iter().try_fold(error, |at, key| {
        let [found] = members(at, [key]).ok()?;
        at.get(found?)
    })
}

/// Raw members of an object, without those that are `None`.
pub(super) fn object<const N: usize>(given: [Option<(&str, &str)>; N]) -> String {
    given
        .into_iter()
        .flatten()
        .fold(String::new(), |all, (key, raw)| joined(&all, &format!(r#""{key}":{raw}"#)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_is_found_and_added_once() {
        let name = "a/b";
        for (before, after) in [
            ("{}", r#"{"extensions":{"a/b":{}}}"#),
            (r#"{"roots":{}}"#, r#"{"extensions":{"a/b":{}},"roots":{}}"#),
            (r#"{"extensions":{}}"#, r#"{"extensions":{"a/b":{}}}"#),
            (r#"{"extensions":{"c/d":1}}"#, r#"{"extensions":{"a/b":{},"c/d":1}}"#),
            (r#"{"extensions":null}"#, r#"{"extensions":{"a/b":{}}}"#),
            (r#"{"extensions":{"a\/b":{"x":1}}}"#, r#"{"extensions":{"a\/b":{"x":1}}}"#),
        ] {
            assert_eq!(declaring(before, name), after);
            assert!(declares(after, name));
            assert_eq!(declares(before, name), before == after, "{before}");
        }
        assert!(!declares(r#"{"extensions":{"a/b":null}}"#, name) && !declares("nope extensions", name));
    }
}
