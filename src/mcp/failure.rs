//! Errors of one era as clients of the other read them (specification of 2026-07-28, `basic/index`, "Error Codes").

use super::revision::Revision;
use crate::wire::{Code, Span, Text, edited, members, quoted};

/// A server's user has to go somewhere first (2025-11-25, `client/elicitation`, "URL Elicitation Required Error").
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// The code of the raw `error`, if it has one that can be one.
pub fn code_of(error: &str) -> Option<i64> {
    let [code] = members(error, ["code"]).ok()?;
    error.get(code?)?.parse().ok()
}

/// The raw `error` of a server that speaks `from`, for a client that speaks `to`; `None` where it can stay as it is.
/// `uri` is what the client wanted to read, if it wanted to read anything.
///
/// - A resource that is not there has another code in each era, and modern clients are told its URI.
/// - What the newest revision keeps for itself (-32020 to -32099) would be misread where it does not come from a modern
///   server, or is about what we wrote and not the client: the client is told that something failed, and what.
pub fn error_for(error: &str, from: Revision, to: Revision, uri: Option<&str>) -> Option<String> {
    let code = code_of(error)?;
    let is = |other: Code| code == i64::from(other.number());
    match (from.is_modern(), to.is_modern()) {
        (false, false) => None,
        (true, false) if is(Code::InvalidParams) && uri.is_some() && has_uri(error) => {
            with_code(error, Code::ResourceNotFound)
        }
        (_, true) if is(Code::ResourceNotFound) => {
            let error = with_code(error, Code::InvalidParams)?;
            let located = uri.filter(|_| !has_uri(&error)).and_then(|uri| with_data(&error, uri));
            Some(located.unwrap_or(error))
        }
        // The only one that is about the client itself.
        (true, true) if is(Code::MissingCapability) => None,
        _ if (-32099..=-32020).contains(&code) => Some(wrapped(error)),
        _ => None,
    }
}

/// An error of ours that holds the raw `error` of a server.
fn wrapped(error: &str) -> String {
    let message = part(error, "message").and_then(Text::of);
    let message = message.unwrap_or("the server refused the request".into());
    let code = Code::Internal.number();
    format!(r#"{{"code":{code},"message":{},"data":{{"upstreamError":{error}}}}}"#, quoted(&message))
}

fn part<'t>(error: &'t str, key: &str) -> Option<&'t str> {
    let [found] = members(error, [key]).ok()?;
    error.get(found?)
}

fn has_uri(error: &str) -> bool {
    part(error, "data").is_some_and(|data| part(data, "uri").is_some())
}

fn with_code(error: &str, code: Code) -> Option<String> {
    let [at] = members(error, ["code"]).ok()?;
    Some(edited(error, &mut [(at?, code.number().to_string())]))
}

/// The error with the URI in its data, unless its data is something that cannot hold it.
fn with_data(error: &str, uri: &str) -> Option<String> {
    let [data] = members(error, ["data"]).ok()?;
    let uri = format!(r#""uri":{}"#, quoted(uri));
    let raw = |at: &Span| error.get(at.clone()).unwrap_or_default();
    let edit = match data {
        None => (1..1, format!(r#""data":{{{uri}}},"#)), // there is a code after it
        Some(at) if raw(&at) == "null" => (at, format!("{{{uri}}}")),
        Some(at) if raw(&at).starts_with('{') => {
            let is_empty = members(raw(&at), []).is_ok() && !raw(&at).contains('"');
            let comma = if is_empty { "" } else { "," };
            (at.start + 1..at.start + 1, format!("{uri}{comma}"))
        }
        Some(_) => return None,
    };
    error.starts_with('{').then(|| edited(error, &mut [edit]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Revision = Revision::LATEST_LEGACY;
    const NEW: Revision = Revision::LATEST;

    #[test]
    fn a_missing_resource_has_its_eras_code() {
        for (from, to, error, read) in [
            (OLD, OLD, r#"{"code":-32002,"message":"m"}"#, None),
            (NEW, NEW, r#"{"code":-32602,"message":"m","data":{"uri":"a"}}"#, None),
            (
                OLD,
                NEW,
                r#"{"code":-32002,"message":"m"}"#,
                Some(r#"{"data":{"uri":"a:\"b"},"code":-32602,"message":"m"}"#),
            ),
            (OLD, NEW, r#"{"code":-32002,"data":null}"#, Some(r#"{"code":-32602,"data":{"uri":"a:\"b"}}"#)),
            (OLD, NEW, r#"{"code":-32002,"data":{}}"#, Some(r#"{"code":-32602,"data":{"uri":"a:\"b"}}"#)),
            (
                OLD,
                NEW,
                r#"{"code":-32002,"data":{"x":1}}"#,
                Some(r#"{"code":-32602,"data":{"uri":"a:\"b","x":1}}"#),
            ),
            (
                OLD,
                NEW,
                r#"{"code":-32002,"data":{"uri":"c"}}"#,
                Some(r#"{"code":-32602,"data":{"uri":"c"}}"#),
            ),
            (OLD, NEW, r#"{"code":-32002,"data":"x"}"#, Some(r#"{"code":-32602,"data":"x"}"#)),
            (NEW, NEW, r#"{"code":-32002,"data":"x"}"#, Some(r#"{"code":-32602,"data":"x"}"#)),
            (
                NEW,
                OLD,
                r#"{"code":-32602,"data":{"uri":"c"}}"#,
                Some(r#"{"code":-32002,"data":{"uri":"c"}}"#),
            ),
            (NEW, OLD, r#"{"code":-32602,"message":"m"}"#, None),
        ] {
            assert_eq!(error_for(error, from, to, Some("a:\"b")).as_deref(), read, "{error}");
        }
        let not_read = error_for(r#"{"code":-32002,"message":"m"}"#, OLD, NEW, None);
        assert_eq!(not_read.as_deref(), Some(r#"{"code":-32602,"message":"m"}"#));
        assert_eq!(error_for(r#"{"code":-32602,"data":{"uri":"c"}}"#, NEW, OLD, None), None);
    }

    #[test]
    fn what_would_be_misread_is_told_within_another() {
        for (from, to, code, wrapped) in [
            (OLD, NEW, -32020, true),
            (OLD, NEW, -32021, true),
            (OLD, NEW, -32042, true),
            (OLD, NEW, -32099, true),
            (OLD, NEW, -32100, false),
            (OLD, NEW, -32000, false),
            (OLD, NEW, -32019, false),
            (OLD, NEW, -32603, false),
            (OLD, NEW, 1, false),
            (NEW, NEW, -32021, false),
            (NEW, NEW, -32020, true),
            (NEW, NEW, -32022, true),
            (NEW, OLD, -32021, true),
            (NEW, OLD, -32022, true),
            (OLD, OLD, -32042, false),
        ] {
            let error = format!(r#"{{"code":{code},"message":"m","data":1}}"#);
            let around = format!(r#"{{"code":-32603,"message":"m","data":{{"upstreamError":{error}}}}}"#);
            assert_eq!(error_for(&error, from, to, None), wrapped.then_some(around), "{code}");
        }
        for odd in ["{}", "null", r#"{"code":"x"}"#, r#"{"code":1e3}"#] {
            assert_eq!(error_for(odd, OLD, NEW, None), None);
        }
        assert_eq!(code_of(r#"{"code":-32042}"#), Some(URL_ELICITATION_REQUIRED));
    }
}
