//! The envelope of a modern request: who asks, and what it can do (specification of 2026-07-28, `basic/index`, `_meta`).

use super::level::Level;
use super::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, RELATED_TASK, RESERVED, Rewrite,
    SUBSCRIPTION_ID, joined,
};
use super::revision::Revision;
use crate::wire::{Edit, Member, Message, Span, cuts, edited, members, members_of, quoted};

/// What a request says of its client. Places are those in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The revision that it speaks, which we may not know.
    pub revision: Box<str>,
    /// What the client can do, an object.
    pub capabilities: Span,
    /// Who it is, an object.
    pub client: Option<Span>,
    /// From which level on it wants log messages of this request; without one it wants none.
    pub level: Option<Level>,
    /// The token of its progress.
    pub token: Option<Span>,
}

impl Envelope {
    /// Reads what `message` has in `params._meta`. `None` where there is no protocol version at all: then it is no modern
    /// message, whatever else is there.
    ///
    /// # Errors
    /// What is missing or of another type than it should be, for the client (-32602).
    pub fn read(message: &Message) -> Option<Result<Self, String>> {
        let keys = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, "progressToken"];
        let found = match in_meta(message, keys) {
            Ok(found) => found?,
            Err(why) => return Some(Err(why)),
        };
        let [version, capabilities, client, level, token] = found;
        Some(Self::from_places(message, version?, capabilities, client, level, token))
    }

    fn from_places(
        message: &Message,
        version: Span,
        capabilities: Option<Span>,
        client: Option<Span>,
        level: Option<Span>,
        token: Option<Span>,
    ) -> Result<Self, String> {
        let is = |at: &Span, first: char| message.slice(at.clone()).is_some_and(|raw| raw.starts_with(first));
        let revision = message.string(version).ok_or_else(|| ill(PROTOCOL_VERSION, "a string"))?.into();
        let capabilities = capabilities.ok_or_else(|| missing(&[CLIENT_CAPABILITIES]))?;
        if !is(&capabilities, '{') {
            return Err(ill(CLIENT_CAPABILITIES, "an object"));
        }
        if client.as_ref().is_some_and(|at| !is(at, '{')) {
            return Err(ill(CLIENT_INFO, "an object"));
        }
        let level = level.map(|at| {
            let named = message.string(at).as_deref().and_then(Level::of);
            named.ok_or_else(|| ill(LOG_LEVEL, "a level of logging"))
        });
        let token = token.filter(|at| message.slice(at.clone()) != Some("null"));
        Ok(Self { revision, capabilities, client, level: level.transpose()?, token })
    }
}

/// What a request lacks whose header names a modern revision and whose body has no [`Envelope`], for the client (-32602).
pub fn missing_envelope(message: &Message) -> String {
    match in_meta(message, [PROTOCOL_VERSION, CLIENT_CAPABILITIES]) {
        Ok(Some([_, Some(_)])) => missing(&[PROTOCOL_VERSION]),
        Ok(_) => missing(&[PROTOCOL_VERSION, CLIENT_CAPABILITIES]),
        Err(why) => why,
    }
}

fn missing(keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
    format!("`params._meta` lacks {}", keys.join(" and "))
}

fn ill(key: &str, wanted: &str) -> String {
    format!("`{key}` in `params._meta` is not {wanted}")
}

/// The places of `keys` in `params._meta`, if there is one.
fn in_meta<const N: usize>(message: &Message, keys: [&str; N]) -> Result<Option<[Option<Span>; N]>, String> {
    let [meta] = message.params_members(["_meta"]).map_err(|why| format!("`params`: {why}"))?;
    let Some(meta) = meta.filter(|at| message.slice(at.clone()).is_some_and(|raw| raw.starts_with('{')))
    else {
        return Ok(None);
    };
    message.members_at(meta, keys).map(Some).map_err(|why| format!("`params._meta`: {why}"))
}

/// Whether a key of `_meta` has a meaning in modern requests alone.
fn is_envelope(key: &str) -> bool {
    [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SUBSCRIPTION_ID].contains(&key)
}

/// What to cut of a request so that nothing of an envelope is left, however it is written. Progress token, trace,
/// related task and the keys of others stay.
pub fn envelope_cuts(message: &Message) -> Vec<Span> {
    let (Some(at), Some(text)) = (message.params_span(), text_of(message)) else { return vec![] };
    let metas = members_of(text, at).into_iter().filter(|member| member.name(text) == "_meta");
    let inner = |meta: Member| {
        let members = members_of(text, meta.value);
        cuts(&members, |member| is_envelope(&member.name(text)))
    };
    metas.flat_map(inner).collect()
}

/// The members of `_meta` with which a request of ours says for whom it asks; `capabilities` and `client` are raw
/// objects.
pub fn envelope_members(
    revision: Revision,
    capabilities: &str,
    client: &str,
    level: Option<Level>,
) -> String {
    let level = level.map_or(String::new(), |level| format!(r#","{LOG_LEVEL}":"{}""#, level.as_str()));
    format!(
        r#""{PROTOCOL_VERSION}":"{revision}","{CLIENT_INFO}":{client},"{CLIENT_CAPABILITIES}":{capabilities}{level}"#
    )
}

/// The edits that put `members`, as [`envelope_members`] writes them, into a client's request in place of what it has of
/// that kind. A legacy client's request loses all else of the protocol's own prefix as well, but the task that it
/// belongs to: such a client has nothing to say there, and a modern server would believe it.
pub fn enveloped(message: &Message, members: &str) -> Vec<Edit> {
    let Some(text) = text_of(message) else { return vec![] };
    let is_modern = matches!(in_meta(message, [PROTOCOL_VERSION]), Ok(Some([Some(_)])));
    let drop =
        |key: &str| is_envelope(key) || (!is_modern && key.starts_with(RESERVED) && key != RELATED_TASK);
    let rewrite = Rewrite { drop_meta: Some(&drop), put_meta: members.to_owned(), ..Rewrite::default() };
    if let Some(at) = message.params_span() {
        return rewrite.edits(text, at);
    }
    with_params(text, members)
}

/// The edits that give the message `text`, which has no `params`, some whose `_meta` has `members`.
pub(super) fn with_params(text: &str, members: &str) -> Vec<Edit> {
    let whole = format!(r#"{{"_meta":{{{members}}}}}"#);
    if let Ok([Some(null)]) = crate::wire::members(text, ["params"]) {
        return vec![(null, whole)];
    }
    let inside = text.find('{').map_or(0, |brace| brace + 1);
    vec![(inside..inside, format!(r#""params":{whole},"#))] // `jsonrpc` at least comes after it
}

/// As [`enveloped`], of `params` of our own making, a raw object.
pub fn enveloped_params(params: &str, members: &str) -> String {
    let rewrite = Rewrite { put_meta: members.to_owned(), ..Rewrite::default() };
    edited(params, &mut rewrite.edits(params, 0..params.len()))
}

/// The capabilities to declare to a modern server for a client that declared `capabilities` when it spoke `revision`:
/// its own, without the tasks of 2025-11-25, and without the extension of that name where it spoke a legacy revision,
/// which knows nothing of it (specification of the extension, `io.modelcontextprotocol/tasks`).
pub fn modern_capabilities(capabilities: &str, revision: Revision) -> String {
    if !capabilities.starts_with('{') {
        return "{}".into();
    }
    let rewrite = Rewrite { drop: &["tasks"], ..Rewrite::default() };
    let mut edits = rewrite.edits(capabilities, 0..capabilities.len());
    if let Ok([Some(extensions)]) = members(capabilities, ["extensions"])
        && !revision.is_modern()
    {
        let rewrite = Rewrite { drop: &[TASKS_EXTENSION], ..Rewrite::default() };
        edits.extend(rewrite.edits(capabilities, extensions));
    }
    edited(capabilities, &mut edits)
}

/// The extension for tasks (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A raw `Implementation` for a client that gave its `name` and `version`; for one without a name, ours.
pub fn client_info(name: &str, version: &str) -> String {
    if name.is_empty() {
        return super::IDENTITY.into();
    }
    joined(&format!(r#"{{"name":{}"#, quoted(name)), &format!(r#""version":{}}}"#, quoted(version)))
}

fn text_of(message: &Message) -> Option<&str> {
    std::str::from_utf8(message.text()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FULL: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}"#;

    fn message(params: &str) -> Message {
        let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
        Message::parse(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x"{params}}}"#).into(), 128).unwrap()
    }

    fn meta(members: &str) -> Message {
        message(&format!(r#"{{"_meta":{{{members}}}}}"#))
    }

    #[test]
    fn reads_what_a_request_says() {
        let request = meta(&format!(
            r#"{FULL},"io.modelcontextprotocol/clientInfo":{{"name":"a"}},"io.modelcontextprotocol/logLevel":"info","progressToken":7"#
        ));
        let envelope = Envelope::read(&request).unwrap().unwrap();
        let raw = |at: Option<Span>| at.and_then(|at| request.slice(at)).unwrap_or_default().to_owned();
        assert_eq!(&*envelope.revision, "2026-07-28");
        assert_eq!(raw(Some(envelope.capabilities)), r#"{"sampling":{}}"#);
        assert_eq!((raw(envelope.client), raw(envelope.token)), (r#"{"name":"a"}"#.into(), "7".into()));
        assert_eq!(envelope.level, Some(Level::Info));
    }

    #[test]
    fn without_a_version_it_is_no_modern_message() {
        for request in [
            message(""),
            message("null"),
            message("{}"),
            message(r#"{"_meta":null}"#),
            message(r#"{"_meta":[]}"#),
            meta(""),
            meta(r#""io.modelcontextprotocol/clientCapabilities":{}"#),
        ] {
            assert_eq!(Envelope::read(&request), None, "{request:?}");
        }
    }

    #[test]
    fn names_what_is_wrong() {
        let version = r#""io.modelcontextprotocol/protocolVersion":"v""#;
        for (members, word) in [
            (version.to_owned(), "lacks `io.modelcontextprotocol/clientCapabilities`"),
            (r#""io.modelcontextprotocol/protocolVersion":1"#.into(), "not a string"),
            (format!(r#"{version},"io.modelcontextprotocol/clientCapabilities":[]"#), "not an object"),
            (format!(r#"{FULL},"io.modelcontextprotocol/clientInfo":"me""#), "clientInfo"),
            (format!(r#"{FULL},"io.modelcontextprotocol/logLevel":"loud""#), "logLevel"),
            (format!(r#"{FULL},"io.modelcontextprotocol/logLevel":null"#), "logLevel"),
            (format!("{FULL},{version}"), "twice"),
        ] {
            let why = Envelope::read(&meta(&members)).unwrap().unwrap_err();
            assert!(why.contains(word), "{members}: {why}");
        }
        let lacks = missing_envelope(&message(""));
        assert!(lacks.contains("protocolVersion") && lacks.contains("clientCapabilities"));
        let lacks = missing_envelope(&meta(r#""io.modelcontextprotocol/clientCapabilities":{}"#));
        assert!(lacks.contains("protocolVersion") && !lacks.contains("clientCapabilities"));
    }

    fn cut(request: &Message) -> String {
        let mut edits: Vec<_> = envelope_cuts(request).into_iter().map(|at| (at, String::new())).collect();
        edited(text_of(request).unwrap(), &mut edits)
    }

    #[test]
    fn nothing_of_an_envelope_is_left_for_a_legacy_server() {
        let kept = r#""progressToken":1,"traceparent":"t","a/b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}"#;
        let escaped =
            r#""io.modelcontextprotocol\/logLevel":"debug","\u0069o.modelcontextprotocol/clientInfo":{}"#;
        let left = cut(&meta(&format!("{FULL},{kept},{escaped}")));
        assert!(left.contains(&format!("{{{kept}}}")), "{left}");
        assert!(!left.contains("logLevel") && !left.contains("clientInfo"), "{left}");
        let twice = message(&format!(r#"{{"_meta":{{{FULL}}},"_meta":{{{FULL}}}}}"#));
        assert!(cut(&twice).contains(r#"{"_meta":{},"_meta":{}}"#));
        assert_eq!(cut(&message("")), text_of(&message("")).unwrap());
    }

    #[test]
    fn an_envelope_replaces_what_a_client_says() {
        let ours = envelope_members(Revision::LATEST, "{}", r#"{"name":"n"}"#, Some(Level::Error));
        let put = |request: &Message| {
            let text = edited(text_of(request).unwrap(), &mut enveloped(request, &ours));
            Message::parse(text.into(), 128).unwrap()
        };
        for request in [
            message(""),
            message("null"),
            message("{}"),
            message(r#"{"name":"a"}"#),
            message(r#"{"_meta":null,"name":"a"}"#),
            meta(""),
            meta(FULL),
            meta(&format!(r#""progressToken":1,{FULL}"#)),
        ] {
            let written = put(&request);
            let envelope = Envelope::read(&written).unwrap().unwrap();
            assert_eq!(written.slice(envelope.capabilities), Some("{}"), "{written:?}");
            assert_eq!(envelope.level, Some(Level::Error));
        }
        let extra = r#""io.modelcontextprotocol/new":1,"a/b":2"#;
        let modern = put(&meta(&format!("{FULL},{extra}")));
        assert!(modern.params().unwrap().contains(extra));
        let legacy = put(&meta(&format!(r#"{extra},"io.modelcontextprotocol/related-task":{{}}"#)));
        let params = legacy.params().unwrap();
        assert!(!params.contains("/new") && params.contains("a/b") && params.contains("related-task"));
        assert_eq!(enveloped_params("{}", r#""a":1"#), r#"{"_meta":{"a":1}}"#);
        assert_eq!(enveloped_params(r#"{"x":0}"#, r#""a":1"#), r#"{"_meta":{"a":1},"x":0}"#);
    }

    #[test]
    fn tasks_of_the_other_era_are_not_declared() {
        let declared = r#"{"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":1}}"#;
        assert_eq!(modern_capabilities(declared, Revision::LATEST_LEGACY), r#"{"extensions":{"a/b":1}}"#);
        let modern = r#"{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":1}}"#;
        assert_eq!(modern_capabilities(declared, Revision::LATEST), modern);
        assert_eq!(modern_capabilities("nope", Revision::LATEST), "{}");
        assert_eq!(client_info("a\"", "1"), r#"{"name":"a\"","version":"1"}"#);
        assert_eq!(client_info("", ""), crate::mcp::IDENTITY);
    }

    proptest! {
        #[test]
        fn cutting_leaves_all_else(keys in prop::collection::vec(0..8_usize, 0..9)) {
            let names = [
                PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SUBSCRIPTION_ID,
                "progressToken", "a/b", RELATED_TASK,
            ];
            let members: Vec<_> = keys.iter().map(|n| format!(r#" "{}" : {{"n":{n}}}"#, names[*n])).collect();
            let request = meta(&members.join(" ,"));
            let left = Message::parse(cut(&request).into(), 128).unwrap();
            let [at] = left.params_members(["_meta"]).unwrap();
            let text = text_of(&left).unwrap();
            let left: Vec<_> = members_of(text, at.unwrap()).iter().map(|m| m.name(text).into_owned()).collect();
            let kept: Vec<_> = keys.iter().filter(|n| **n > 4).map(|n| names[*n].to_owned()).collect();
            prop_assert_eq!(left, kept);
        }
    }
}
