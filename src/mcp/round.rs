//! Rounds: a result that asks for input, and the retry that brings it (specification of 2026-07-28,
//! `basic/patterns/mrtr`).

use std::collections::HashSet;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::meta::joined;
use crate::wire::{Edit, Member, Message, Span, Text, cuts, every_member, members, members_of, quoted};

/// What a server asks of a client within a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// The server's name for it.
    pub key: Box<str>,
    /// What is asked for.
    pub method: Box<str>,
    /// Where its `params` stand in the result, an object.
    pub params: Option<Span>,
}

/// A result that asks for input. Places are those in the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// What the client is asked, in the server's order.
    pub requests: Vec<InputRequest>,
    /// Where the state stands that the retry must bring back as it is, a JSON string.
    pub state: Option<Span>,
}

impl Round {
    /// Reads a raw `result`; `None` where it does not ask for input.
    ///
    /// # Errors
    /// Where it does and cannot be understood.
    pub fn read(result: &str) -> Option<Result<Self, String>> {
        static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"input_required"));
        WORD.find(result.as_bytes())?; // most results have none, and large ones are not read for it
        let [kind, requests, state] =
            members(result, ["resultType", "inputRequests", "requestState"]).ok()?;
        let kind = result.get(kind?).and_then(Text::of)?;
        (kind == "input_required").then(|| Self::from_places(result, requests, state))
    }

    /// Reads what a task asks for, in its raw object (specification of the extension for tasks).
    ///
    /// # Errors
    /// Where that cannot be understood.
    pub fn of_task(task: &str) -> Result<Self, String> {
        match members(task, ["inputRequests"]) {
            Ok([Some(requests)]) => Self::from_places(task, Some(requests), None),
            Ok([None]) | Err(_) => Ok(Self::default()),
        }
    }

    fn from_places(result: &str, requests: Option<Span>, state: Option<Span>) -> Result<Self, String> {
        let raw = |at: &Span| result.get(at.clone()).unwrap_or_default();
        let requests = requests.filter(|at| raw(at) != "null");
        let state = state.filter(|at| raw(at) != "null");
        if requests.is_none() && state.is_none() {
            return Err("the server wants input and does not say which".into());
        }
        if state.as_ref().is_some_and(|at| !raw(at).starts_with('"')) {
            return Err("the server's `requestState` is no string".into());
        }
        let mut round = Self { requests: vec![], state };
        let Some(at) = requests else { return Ok(round) };
        if !raw(&at).starts_with('{') {
            return Err("the server's `inputRequests` are no object".into());
        }
        let mut keys = HashSet::new();
        for Member { key, value } in members_of(result, at) {
            let request = Self::request(result, key, value)?;
            if !keys.insert(request.key.clone()) {
                return Err(format!("the server asks {} twice", quoted(&request.key)));
            }
            round.requests.push(request);
        }
        Ok(round)
    }

    fn request(result: &str, key: Span, value: Span) -> Result<InputRequest, String> {
        let key = result.get(key).and_then(Text::of).unwrap_or_default();
        let bad = || format!("what the server asks as {} is no request", quoted(&key));
        let inner = result.get(value.clone()).unwrap_or_default();
        let [method, params] = members(inner, ["method", "params"]).map_err(|_| bad())?;
        let method = method.and_then(|at| inner.get(at)).and_then(Text::of).ok_or_else(bad)?.into();
        let params = params.filter(|at| inner.get(at.clone()) != Some("null"));
        let is_object = |at: &Span| inner.get(at.clone()).is_some_and(|raw| raw.starts_with('{'));
        if params.as_ref().is_some_and(|at| !is_object(at)) {
            return Err(bad());
        }
        let params = params.map(|at| at.start + value.start..at.end + value.start);
        Ok(InputRequest { key: key.into(), method, params })
    }
}

/// A result of ours that asks for input: for each request its key, its method and its raw `params`.
pub fn input_required(requests: &[(&str, &str, Option<&str>)], state: Option<&str>) -> String {
    let request = |(key, method, params): &(&str, &str, Option<&str>)| {
        let params = params.map_or(String::new(), |params| format!(r#","params":{params}"#));
        format!(r#"{}:{{"method":{}{params}}}"#, quoted(key), quoted(method))
    };
    let requests: Vec<_> = requests.iter().map(request).collect();
    let requests = if requests.is_empty() {
        String::new()
    } else {
        format!(r#","inputRequests":{{{}}}"#, requests.join(","))
    };
    let state = state.map_or(String::new(), |state| format!(r#","requestState":{}"#, quoted(state)));
    format!(r#"{{"resultType":"input_required"{requests}{state}}}"#)
}

/// The members of a request's `params` that make it a retry.
const INPUT: [&str; 2] = ["inputResponses", "requestState"];

/// What a request brings of an earlier round. Places are those in the message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// The answers by the server's names, each raw.
    pub responses: Vec<(Box<str>, Span)>,
    /// The state, as the client was given it.
    pub state: Option<Box<str>>,
}

impl Retry {
    /// Reads what `request` has of it. `None` where it has nothing.
    ///
    /// # Errors
    /// Where that is not what it should be, for the client (-32602).
    pub fn read(request: &Message) -> Result<Option<Self>, String> {
        let found = request.params_members(INPUT).map_err(|why| format!("`params`: {why}"))?;
        let [responses, state] = found.map(|at| at.filter(|at| request.slice(at.clone()) != Some("null")));
        if responses.is_none() && state.is_none() {
            return Ok(None);
        }
        let state = state.map(|at| request.string(at).map(Into::into).ok_or("`requestState` is no string"));
        let mut retry = Self { responses: vec![], state: state.transpose()? };
        let Some(at) = responses else { return Ok(Some(retry)) };
        let text = request.slice(at.clone()).unwrap_or_default();
        let answers = every_member(text).map_err(|_| "`inputResponses` is no object")?;
        let mut keys = HashSet::new();
        for answer in answers {
            let key = answer.name(text).into_owned().into_boxed_str();
            if !keys.insert(key.clone()) {
                return Err(format!("`inputResponses` has {} twice", quoted(&key)));
            }
            retry.responses.push((key, answer.value.start + at.start..answer.value.end + at.start));
        }
        Ok(Some(retry))
    }
}

/// The edits that make `request` the first one or a retry: what it brings of rounds goes, and raw `responses` by their
/// keys and the raw `state` come in its place. `responses` without a key stand for a round that asked nothing.
pub fn retried(request: &Message, responses: Option<&[(&str, &str)]>, state: Option<&str>) -> Vec<Edit> {
    let (Some(at), Ok(text)) = (request.params_span(), std::str::from_utf8(request.text())) else {
        return vec![];
    };
    let members = members_of(text, at.clone());
    let is_gone = |member: &Member| INPUT.contains(&&*member.name(text));
    let mut edits: Vec<Edit> = cuts(&members, is_gone).into_iter().map(|at| (at, String::new())).collect();
    let responses = responses.map_or(String::new(), |responses| {
        let responses: Vec<_> = responses.iter().map(|(key, raw)| format!("{}:{raw}", quoted(key))).collect();
        format!(r#""inputResponses":{{{}}}"#, responses.join(","))
    });
    let state = state.map_or(String::new(), |state| format!(r#""requestState":{state}"#));
    let put = joined(&responses, &state);
    if !put.is_empty() {
        let comma = if members.iter().all(is_gone) { "" } else { "," };
        edits.push((at.start + 1..at.start + 1, put + comma));
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::edited;

    #[test]
    fn reads_what_servers_ask() {
        let text = r#"{"inputRequests":{"u":{"method":"elicitation/create","params":{"message":"?"}},"r\u00e9":{"method":"roots/list","params":null}},"requestState":"s\"","resultType":"input_required"}"#;
        let round = Round::read(text).unwrap().unwrap();
        let asked: Vec<_> = round.requests.iter().map(|asked| (&*asked.key, &*asked.method)).collect();
        assert_eq!(asked, [("u", "elicitation/create"), ("ré", "roots/list")]);
        assert_eq!(text.get(round.requests[0].params.clone().unwrap()), Some(r#"{"message":"?"}"#));
        assert_eq!(text.get(round.state.unwrap()), Some(r#""s\"""#));
        let state_only =
            Round::read(r#"{"resultType":"input_required","requestState":"s"}"#).unwrap().unwrap();
        assert!(state_only.requests.is_empty() && state_only.state.is_some());
    }

    #[test]
    fn other_results_are_none() {
        for text in [
            "{}",
            "null",
            r#"{"resultType":"complete"}"#,
            r#"{"content":"input_required"}"#,
            r#"{"resultType":"complete","content":[{"text":"input_required"}]}"#,
        ] {
            assert_eq!(Round::read(text), None, "{text}");
        }
        for rest in [
            "",
            r#","inputRequests":null"#,
            r#","inputRequests":[]"#,
            r#","inputRequests":{"a":1}"#,
            r#","inputRequests":{"a":{}}"#,
            r#","inputRequests":{"a":{"method":"m","params":[]}}"#,
            r#","inputRequests":{"a":{"method":"m"},"\u0061":{"method":"m"}}"#,
            r#","requestState":{}"#,
        ] {
            let text = format!(r#"{{"resultType":"input_required"{rest}}}"#);
            assert!(Round::read(&text).unwrap().is_err(), "{text}");
        }
    }

    #[test]
    fn what_we_ask_reads_back() {
        let text = input_required(
            &[("leg-1", "elicitation/create", Some("{}")), ("leg-2", "roots/list", None)],
            Some("s\""),
        );
        let round = Round::read(&text).unwrap().unwrap();
        assert_eq!(round.requests.len(), 2);
        assert_eq!(round.requests[1].params, None);
        assert_eq!(text.get(round.state.unwrap()), Some(r#""s\"""#));
        assert_eq!(input_required(&[], Some("s")), r#"{"resultType":"input_required","requestState":"s"}"#);
    }

    fn request(params: &str) -> Message {
        Message::parse(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#).into(), 99)
            .unwrap()
    }

    #[test]
    fn reads_what_clients_bring() {
        let message = request(
            r#"{"name":"a","inputResponses":{"k":{"action":"accept"},"n":5},"requestState":"s\u0022"}"#,
        );
        let retry = Retry::read(&message).unwrap().unwrap();
        assert_eq!(retry.state.as_deref(), Some("s\""));
        let raw: Vec<_> =
            retry.responses.iter().map(|(key, at)| (&**key, message.slice(at.clone()).unwrap())).collect();
        assert_eq!(raw, [("k", r#"{"action":"accept"}"#), ("n", "5")]);
        for none in [r#"{"name":"a"}"#, r#"{"inputResponses":null,"requestState":null}"#] {
            assert_eq!(Retry::read(&request(none)), Ok(None));
        }
        for bad in [
            r#"{"inputResponses":[]}"#,
            r#"{"inputResponses":{"a":1,"a":2}}"#,
            r#"{"requestState":5}"#,
            r#"{"requestState":"a","requestState":"b"}"#,
        ] {
            assert!(Retry::read(&request(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_retry_is_the_request_with_its_input() {
        let put = |params: &str, responses: Option<&[(&str, &str)]>, state| {
            let request = request(params);
            let text = edited(
                std::str::from_utf8(request.text()).unwrap(),
                &mut retried(&request, responses, state),
            );
            Message::parse(text.into(), 99).unwrap().params().unwrap().to_owned()
        };
        let old = r#"{"inputResponses":{"k":1},"name":"a","requestState":"s"}"#;
        assert_eq!(put(old, None, None), r#"{"name":"a"}"#);
        assert_eq!(
            put(old, Some(&[("q\"", "{}")]), Some(r#""t""#)),
            r#"{"inputResponses":{"q\"":{}},"requestState":"t","name":"a"}"#
        );
        assert_eq!(put(r#"{"name":"a"}"#, None, Some(r#""t""#)), r#"{"requestState":"t","name":"a"}"#);
        assert_eq!(put(r#"{"requestState":"s"}"#, Some(&[]), None), r#"{"inputResponses":{}}"#);
    }
}
