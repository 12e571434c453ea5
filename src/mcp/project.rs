//! Results of one era as clients of the other read them (specification of each revision, `schema`; 2026-07-28,
//! `changelog`). Edits are relative to the result.

use super::caching::Caching;
use super::content::content_edits;
use super::hello::IDENTITY;
use super::meta::{Rewrite, SERVER_INFO, VIA, joined};
use super::revision::Revision;
use crate::wire::{Edit, Span, edited, elements, members, quoted};

/// What a result answers, as far as that decides how it reads in the other era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// `tools/call`. Whether the client was shown an output schema that says `{"result": …}` around the server's own,
    /// because that one is not of objects alone.
    Call {
        /// It was.
        wrapped: bool,
    },
    /// `prompts/get`.
    Prompt,
    /// `resources/read`.
    Read,
    /// Anything else.
    Other,
}

/// The edits that make a modern server's `result` one for a client of the legacy revision `client`; for one before
/// 2025-06-18 also those that an older server's result needs, so that no content is left that it cannot know.
pub fn to_legacy(result: &str, answer: Answer, client: Revision) -> Vec<Edit> {
    let is_server = |key: &str| key == SERVER_INFO || key == VIA;
    // A tool's result is the server's own in all but its kind.
    let drop: &[&str] = match answer {
        Answer::Call { .. } | Answer::Prompt => &["resultType"],
        Answer::Read | Answer::Other => &["resultType", "ttlMs", "cacheScope"],
    };
    let mut edits = Vec::new();
    let mut put = String::new();
    if let Answer::Call { wrapped } = answer {
        (edits, put) = structured(result, wrapped);
    }
    let rewrite = Rewrite { drop, put, drop_meta: Some(&is_server), drop_empty: true, ..Rewrite::default() };
    edits.extend(rewrite.edits(result, 0..result.len()));
    edits.extend(content_edits(result, answer, client));
    edits
}

/// For structured content that is no object, or stands for a [wrapped](Answer::Call) schema: the edits, and the members to
/// put into the result. Those who cannot read it get it as text.
fn structured(result: &str, wrapped: bool) -> (Vec<Edit>, String) {
    let none = (vec![], String::new());
    let Ok([Some(value), content]) = members(result, ["structuredContent", "content"]) else { return none };
    let raw = result.get(value.clone()).unwrap_or_default();
    if raw.starts_with('{') && !wrapped {
        return none;
    }
    let around = |at: usize, text: &str| (at..at, text.to_owned());
    let mut edits = vec![around(value.start, r#"{"result":"#), around(value.end, "}")];
    let block = format!(r#"{{"type":"text","text":{}}}"#, quoted(raw));
    let Some(content) = content else { return (edits, format!(r#""content":[{block}]"#)) };
    let blocks = blocks(result, content.clone());
    if !blocks.iter().any(|block| kind(result, block) == "text") {
        let comma = if blocks.is_empty() { "" } else { "," };
        let end = content.end.saturating_sub(1);
        if result.get(content).is_some_and(|raw| raw.starts_with('[')) {
            edits.push(around(end, &format!("{comma}{block}")));
        }
    }
    (edits, String::new())
}

/// The places of the elements of the array at `at`.
pub(super) fn blocks(text: &str, at: Span) -> Vec<Span> {
    let start = at.start;
    let found = text.get(at).and_then(|array| elements(array).ok()).unwrap_or_default();
    found.into_iter().map(|at| at.start + start..at.end + start).collect()
}

/// What the content block at `at` says it is.
pub(super) fn kind<'t>(text: &'t str, at: &Span) -> std::borrow::Cow<'t, str> {
    let block = text.get(at.clone()).unwrap_or_default();
    let kind = members(block, ["type"]).ok().and_then(|[kind]| block.get(kind?));
    kind.and_then(crate::wire::Text::of).unwrap_or_default()
}

/// The edits that make the `result` of a server that speaks `from` one for a modern client: it says what it is, for how
/// long it may be kept, and that it comes from us. `server` is a raw object that tells which of the servers behind us it
/// is from.
pub fn to_modern(result: &str, answer: Answer, from: Revision, server: Option<&str>) -> Vec<Edit> {
    let Ok([kind, ttl, scope]) = members(result, ["resultType", "ttlMs", "cacheScope"]) else {
        return vec![];
    };
    let raw = |at: &Option<Span>| at.clone().and_then(|at| result.get(at)).unwrap_or_default();
    let mut drop: Vec<&str> = vec![];
    let mut put = String::new();
    // What an older server says there is not meant so.
    let is_known = from.is_modern() && raw(&kind).starts_with('"');
    if !is_known {
        drop.push("resultType");
        put = r#""resultType":"complete""#.into();
    }
    if answer == Answer::Read && (!is_known || raw(&kind) == r#""complete""#) {
        let caching = if from.is_modern() { Caching::read(result) } else { Caching::NEVER };
        let written = (caching.ttl_ms.to_string(), format!(r#""{}""#, caching.scope.as_str()));
        if (raw(&ttl), raw(&scope)) != (&*written.0, &*written.1) {
            drop.extend(["ttlMs", "cacheScope"]);
            put = joined(&put, &caching.write());
        }
    }
    let via = server.map_or(String::new(), |server| format!(r#""{VIA}":{server}"#));
    let is_server = |key: &str| key == SERVER_INFO || (key == VIA && server.is_some());
    let put_meta = joined(&format!(r#""{SERVER_INFO}":{IDENTITY}"#), &via);
    Rewrite { drop: &drop, put, drop_meta: Some(&is_server), put_meta, drop_empty: false }
        .edits(result, 0..result.len())
}

/// A result of our own, a raw object, as modern clients read it.
pub fn completed(result: &str, caching: Option<Caching>) -> String {
    let kind = r#""resultType":"complete""#;
    let put = joined(kind, &caching.map_or(String::new(), Caching::write));
    let put_meta = format!(r#""{SERVER_INFO}":{IDENTITY}"#);
    let is_server = |key: &str| key == SERVER_INFO;
    let rewrite = Rewrite {
        drop: &["resultType", "ttlMs", "cacheScope"],
        put,
        drop_meta: Some(&is_server),
        put_meta,
        drop_empty: false,
    };
    edited(result, &mut rewrite.edits(result, 0..result.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Answer = Answer::Call { wrapped: false };

    fn legacy(result: &str, answer: Answer) -> String {
        edited(result, &mut to_legacy(result, answer, Revision::LATEST_LEGACY))
    }

    #[test]
    fn legacy_clients_get_what_they_know() {
        for (answer, result, left) in [
            (CALL, r#"{"resultType":"complete","content":[]}"#, r#"{"content":[]}"#),
            (CALL, r#"{"content":[],"resultType":"complete","ttlMs":1}"#, r#"{"content":[],"ttlMs":1}"#),
            (
                Answer::Read,
                r#"{"contents":[],"ttlMs":5,"cacheScope":"public","resultType":"complete"}"#,
                r#"{"contents":[]}"#,
            ),
            (
                Answer::Other,
                r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a"}},"resultType":"complete"}"#,
                "{}",
            ),
            (
                CALL,
                r#"{"_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":{}},"content":[]}"#,
                r#"{"_meta":{"a/b":1},"content":[]}"#,
            ),
            (CALL, r#"{"content":[],"_meta":{}}"#, r#"{"content":[],"_meta":{}}"#),
            (CALL, "null", "null"),
        ] {
            assert_eq!(legacy(result, answer), left);
        }
    }

    #[test]
    fn structured_content_is_an_object() {
        let wrapped = Answer::Call { wrapped: true };
        for (answer, result, left) in [
            (
                CALL,
                r#"{"structuredContent":{"a":1},"content":[]}"#,
                r#"{"structuredContent":{"a":1},"content":[]}"#,
            ),
            (
                wrapped,
                r#"{"structuredContent":{"a":1},"content":[{"type":"text","text":"x"}]}"#,
                r#"{"structuredContent":{"result":{"a":1}},"content":[{"type":"text","text":"x"}]}"#,
            ),
            (wrapped, r#"{"content":[]}"#, r#"{"content":[]}"#),
            (
                CALL,
                r#"{"resultType":"complete","structuredContent":[1,"a"],"content":[]}"#,
                r#"{"structuredContent":{"result":[1,"a"]},"content":[{"type":"text","text":"[1,\"a\"]"}]}"#,
            ),
            (
                CALL,
                r#"{"content":[{"type":"image"}],"structuredContent":null}"#,
                r#"{"content":[{"type":"image"},{"type":"text","text":"null"}],"structuredContent":{"result":null}}"#,
            ),
            (
                CALL,
                r#"{"structuredContent":5}"#,
                r#"{"content":[{"type":"text","text":"5"}],"structuredContent":{"result":5}}"#,
            ),
        ] {
            assert_eq!(legacy(result, answer), left);
        }
    }

    #[test]
    fn modern_clients_are_told_all_they_need() {
        let ours = format!(r#""io.modelcontextprotocol/serverInfo":{IDENTITY}"#);
        let old = Revision::LATEST_LEGACY;
        let new = Revision::LATEST;
        for (answer, from, result, left) in [
            (CALL, old, r#"{"content":[]}"#, r#"{"resultType":"complete","_meta":{OURS},"content":[]}"#),
            (CALL, old, "{}", r#"{"resultType":"complete","_meta":{OURS}}"#),
            (CALL, old, r#"{"resultType":"input_required"}"#, r#"{"resultType":"complete","_meta":{OURS}}"#),
            (
                CALL,
                new,
                r#"{"resultType":"task","ttlMs":5}"#,
                r#"{"_meta":{OURS},"resultType":"task","ttlMs":5}"#,
            ),
            (
                CALL,
                new,
                r#"{"resultType":"complete","_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":{}}}"#,
                r#"{"resultType":"complete","_meta":{OURS,"a/b":1}}"#,
            ),
            (
                Answer::Read,
                old,
                r#"{"contents":[],"ttlMs":9,"cacheScope":"public"}"#,
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{OURS},"contents":[]}"#,
            ),
            (
                Answer::Read,
                new,
                r#"{"resultType":"complete","ttlMs":9,"cacheScope":"public","_meta":{}}"#,
                r#"{"resultType":"complete","ttlMs":9,"cacheScope":"public","_meta":{OURS}}"#,
            ),
            (
                Answer::Read,
                new,
                r#"{"resultType":"complete","ttlMs":-9}"#,
                r#"{"ttlMs":0,"cacheScope":"private","_meta":{OURS},"resultType":"complete"}"#,
            ),
            (
                Answer::Read,
                new,
                r#"{"resultType":"input_required","_meta":{}}"#,
                r#"{"resultType":"input_required","_meta":{OURS}}"#,
            ),
        ] {
            let text = edited(result, &mut to_modern(result, answer, from, None));
            assert_eq!(text, left.replace("OURS", &ours), "{result}");
        }
        let via = edited("{}", &mut to_modern("{}", CALL, old, Some(r#"{"key":"a"}"#)));
        assert_eq!(
            via,
            format!(r#"{{"resultType":"complete","_meta":{{{ours},"trunkline/server":{{"key":"a"}}}}}}"#)
        );
        let caching = Caching { ttl_ms: 3, ..Caching::NEVER };
        assert_eq!(
            completed(r#"{"tools":[]}"#, Some(caching)),
            format!(
                r#"{{"resultType":"complete","ttlMs":3,"cacheScope":"private","_meta":{{{ours}}},"tools":[]}}"#
            )
        );
    }

    #[test]
    fn there_and_back_again_is_the_same() {
        let result = r#"{"content":[{"type":"text","text":"x"}],"_meta":{"a/b":1}}"#;
        let modern = edited(result, &mut to_modern(result, CALL, Revision::LATEST_LEGACY, Some("{}")));
        assert_eq!(legacy(&modern, CALL), result);
    }
}
