//! What a client without a session carries from a request to its retry: sealed, so that it can be neither read nor
//! changed, and bound to the request that it came with (specification, `basic/patterns/mrtr`).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::replay::Script;
use crate::session::Keyring;
use crate::wire::{Message, members};

/// What they are sealed for.
const PURPOSE: &str = "request state";
/// Whose they are where callers need not prove who they are. A principal's text has a space in it.
const ANYBODY: &str = "anon";

/// What a state says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) enum State {
    /// The call waits here under this number.
    Held(u128),
    /// `server` keeps its own state with the client: a raw JSON string.
    Servers { server: Box<str>, raw: Box<str> },
    /// The call was ended, and is to be made again with what the client says.
    Again(Script),
}

/// A state that is none of ours, is over, or came with another request. Which of them is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) struct BadState;

/// The request that a state is good for: its method, and what it asks for as a digest. A retry may write the same
/// arguments in another order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Bound {
    method: Box<str>,
    asked: String,
    /// Who asks.
    principal: Box<str>,
}

impl Bound {
    /// What `request` asks for: the name or URI and the arguments, as its client knows them; and for whom.
    pub(in crate::relay) fn to(request: &Message, principal: Option<&Arc<str>>) -> Self {
        let params = request.params().unwrap_or("{}");
        let found = members(params, ["name", "uri", "arguments"]).unwrap_or_default();
        let mut text = Vec::new();
        for part in found {
            let raw = part.and_then(|at| params.get(at)).filter(|raw| *raw != "null").unwrap_or_default();
            let part = canonical(raw);
            text.extend_from_slice(&part.len().to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        let asked = URL_SAFE_NO_PAD.encode(digest(&SHA256, &text));
        let principal = principal.map_or(ANYBODY, |principal| principal).into();
        Self { method: request.method().into(), asked, principal }
    }

    /// `state` for the client, good for `time`.
    pub(in crate::relay) fn seal(&self, keys: &Keyring, state: &State, time: Duration) -> String {
        let (kind, server, inner) = match state {
            State::Held(number) => ("held", "", format!("{number:032x}")),
            State::Servers { server, raw } => ("server's", &**server, (**raw).to_owned()),
            State::Again(script) => ("again", "", script.write()),
        };
        let end = now().saturating_add(time.as_secs()).to_string();
        let plain = [kind, server, &*self.method, &self.asked, &*self.principal, &end, &inner].join("\n");
        keys.seal(PURPOSE, plain.as_bytes())
    }

    /// What the state `sealed` says, if it came with this request.
    pub(in crate::relay) fn open(&self, keys: &Keyring, sealed: &str) -> Result<State, BadState> {
        let plain = keys.open(PURPOSE, sealed).and_then(|plain| String::from_utf8(plain).ok());
        let plain = plain.ok_or(BadState)?;
        let mut parts = plain.splitn(7, '\n');
        let mut part = || parts.next().ok_or(BadState);
        let (kind, server, method, asked) = (part()?, part()?, part()?, part()?);
        let (whose, end, inner) = (part()?, part()?, part()?);
        let over = end.parse::<u64>().map_err(|_| BadState)? <= now();
        if over || method != &*self.method || asked != self.asked || whose != &*self.principal {
            return Err(BadState);
        }
        match kind {
            "held" => u128::from_str_radix(inner, 16).map(State::Held).map_err(|_| BadState),
            "server's" => Ok(State::Servers { server: server.into(), raw: inner.into() }),
            "again" => Script::parse(inner).map(State::Again).ok_or(BadState),
            _ => Err(BadState),
        }
    }
}

/// The same text for JSON that says the same. What `serde_json` cannot hold, as a number of any size, stays as it is.
pub(super) fn canonical(raw: &str) -> String {
    serde_json::from_str::<Value>(raw).map_or_else(|_| raw.to_owned(), |value| value.to_string())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn request(method: &str, params: &str) -> Message {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        Message::parse(text.into(), 64).unwrap()
    }

    fn call(arguments: &str) -> Bound {
        Bound::to(&request("tools/call", &format!(r#"{{"name":"a","arguments":{arguments}}}"#)), None)
    }

    #[test]
    fn opens_only_with_the_request_that_it_came_with() {
        let keys = Keyring::random();
        let to = |method: &str, params: &str| Bound::to(&request(method, params), None);
        let began = request("tools/call", r#"{"name":"a","arguments":{"x":1,"y":[{"b":1.50,"a":2}]}}"#);
        let bound = Bound::to(&began, None);
        let server = State::Servers { server: "git_hub".into(), raw: "\"line\\nline\"".into() };
        for state in [State::Held(u128::MAX - 7), server, State::Again(Script::default())] {
            let sealed = bound.seal(&keys, &state, HOUR);
            assert_eq!(bound.open(&keys, &sealed), Ok(state.clone()));
            let same = call(r#"{ "y" : [{"a":2,"b":1.5}], "x" : 1 }"#);
            assert_eq!(same.open(&keys, &sealed), Ok(state.clone()));
            let others = [
                call(r#"{"x":1,"y":[{"b":1.50,"a":3}]}"#),
                call("{}"),
                to("tools/call", r#"{"name":"b","arguments":{"x":1,"y":[{"b":1.50,"a":2}]}}"#),
                to("prompts/get", r#"{"name":"a","arguments":{"x":1,"y":[{"b":1.50,"a":2}]}}"#),
                to("resources/read", r#"{"uri":"a"}"#),
                Bound::to(&began, Some(&"keys alice".into())),
            ];
            for other in others {
                assert_eq!(other.open(&keys, &sealed), Err(BadState), "{other:?}");
            }
            assert_eq!(bound.open(&Keyring::random(), &sealed), Err(BadState));
            assert_eq!(bound.open(&keys, &format!("{sealed}-TAMPERED")), Err(BadState));
            assert_eq!(bound.open(&keys, &bound.seal(&keys, &state, Duration::ZERO)), Err(BadState));
        }
        assert_eq!(bound.open(&keys, ""), Err(BadState));
        assert_eq!(bound.open(&keys, &keys.seal(PURPOSE, b"held\n\n")), Err(BadState));
    }

    #[test]
    fn arguments_that_are_none_and_numbers_of_any_size_are_told_apart() {
        let with = |params: &str| Bound::to(&request("tools/call", params), None);
        assert_eq!(with(r#"{"name":"a"}"#), with(r#"{"name":"a","arguments":null}"#));
        assert_ne!(with(r#"{"name":"a"}"#), with(r#"{"name":"a","arguments":{}}"#));
        assert_ne!(call(r#"{"n":1e400}"#), call(r#"{"n":1e401}"#));
        assert_eq!(with(r#"{"name":"\u0061","_meta":{"x":1}}"#), with(r#"{"name":"a"}"#));
    }
}
