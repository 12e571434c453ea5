//! Checking answers: every one is read, a wrong one is an error. Cheap enough to do for each call.

use std::borrow::Cow;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use hyper::http::response::Parts;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// An answer as far as it is checked. Unknown fields are the server's own affair.
#[derive(Debug, Deserialize)]
pub struct Answer<'a> {
    /// The request's. `load` sends numbers only.
    pub id: Option<u64>,
    /// Absent in an error answer.
    #[serde(borrow)]
    pub result: Option<Outcome<'a>>,
    #[serde(borrow)]
    error: Option<Fault<'a>>,
}

/// An error instead of a result.
#[derive(Debug, Deserialize)]
pub struct Fault<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

/// The words of trunkline for calls that find no room.
fn is_busy(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("busy") || text.contains("too many")
}

/// The results of the three methods that are called, in one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome<'a> {
    /// `tools/call`.
    #[serde(borrow, default)]
    pub content: Vec<Content<'a>>,
    /// `tools/call`: the tool failed, or a stub stood in for it.
    #[serde(default)]
    pub is_error: bool,
    /// `tools/list`.
    #[serde(default)]
    pub tools: Vec<IgnoredAny>,
    /// `initialize`.
    #[serde(borrow)]
    pub protocol_version: Option<Cow<'a, str>>,
}

/// A piece of a tool's result.
#[derive(Debug, Deserialize)]
pub struct Content<'a> {
    /// Absent for pictures and the like.
    #[serde(borrow)]
    pub text: Option<Cow<'a, str>>,
}

/// The server has too much to do and says so: no fault, but no answer either.
#[derive(Debug)]
pub struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server is busy")
    }
}

impl std::error::Error for Busy {}

/// The result that answers request `id`, from a JSON body or the event stream that holds it.
pub fn read<'a>(head: &Parts, body: &'a [u8], id: u64) -> anyhow::Result<Outcome<'a>> {
    if matches!(head.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        return Err(Busy.into());
    }
    ensure!(head.status.is_success(), "status {}: {}", head.status, start(body));
    let stream =
        head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-"));
    let answer = if stream { find(body, id)? } else { parse(body)? };
    ensure!(answer.id == Some(id), "the answer to {id} has another id: {}", start(body));
    if answer.error.as_ref().is_some_and(|error| is_busy(&error.message)) {
        return Err(Busy.into());
    }
    answer.result.with_context(|| format!("not a result: {}", start(body)))
}

/// That a call's only text is `expected`.
pub fn check_text(outcome: &Outcome<'_>, expected: &str) -> anyhow::Result<()> {
    let [Content { text: Some(text) }] = outcome.content.as_slice() else { bail!("not one text") };
    if outcome.is_error && is_busy(text) {
        return Err(Busy.into());
    }
    ensure!(!outcome.is_error, "the tool failed: {}", start(text.as_bytes()));
    ensure!(text == expected, "sent {:?}, got back {:?}", start(expected.as_bytes()), start(text.as_bytes()));
    Ok(())
}

/// An answer that was read in full once. Parsing 500 tools or 16 MiB costs more than serving them, so later ones are
/// compared with it by bytes: all of them must be equal but for the id, and all ids are of one width.
#[derive(Debug, Clone, Default)]
pub struct Known(Option<(Bytes, usize)>);

impl Known {
    /// That `body` is the known answer under another id. The first one, and one that differs in bytes, is read, and
    /// `check` says whether it is right.
    pub fn check(
        &mut self,
        (head, body, id): (&Parts, &Bytes, u64),
        check: impl FnOnce(&Outcome<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let digits = id.to_string();
        if head.status.is_success() && self.is(body, digits.as_bytes()) {
            return Ok(());
        }
        check(&read(head, body, id)?)?;
        if self.0.is_none() {
            let place = body.windows(digits.len()).position(|window| window == digits.as_bytes());
            self.0 = Some((body.clone(), place.context("the id is not in the answer")?));
        }
        Ok(())
    }

    fn is(&self, body: &[u8], digits: &[u8]) -> bool {
        let Some((known, place)) = &self.0 else { return false };
        let halves = |bytes| <[u8]>::split_at_checked(bytes, *place);
        let (Some((known_before, known_rest)), Some((before, rest))) = (halves(known), halves(body)) else {
            return false;
        };
        let after = rest.strip_prefix(digits);
        after.is_some() && before == known_before && after == known_rest.get(digits.len()..)
    }
}

/// How many tools a list holds, which must be some, and as many each time.
pub fn check_tools(outcome: &Outcome<'_>, known: &mut Option<usize>) -> anyhow::Result<()> {
    let tools = outcome.tools.len();
    ensure!(tools > 0, "the list is empty");
    let known = *known.get_or_insert(tools);
    ensure!(tools == known, "{tools} tools instead of {known}");
    Ok(())
}

fn parse(body: &[u8]) -> anyhow::Result<Answer<'_>> {
    serde_json::from_slice(body).with_context(|| format!("not an answer: {}", start(body)))
}

/// The answer to `id` among a stream's events; servers write each message as one `data:` line.
fn find(stream: &[u8], id: u64) -> anyhow::Result<Answer<'_>> {
    let messages = stream.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    for message in messages.filter(|message| !message.trim_ascii().is_empty()) {
        let answer = parse(message)?;
        if answer.id == Some(id) {
            return Ok(answer);
        }
    }
    bail!("no answer to {id} in the stream: {}", start(stream))
}

/// The first 200 bytes, for messages.
fn start(body: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(body.get(..200).unwrap_or(body))
}

#[cfg(test)]
mod tests {
    use hyper::Response;

    use super::*;

    fn head(kind: &str) -> Parts {
        Response::builder().header(CONTENT_TYPE, kind).body(()).unwrap().into_parts().0
    }

    fn outcome(text: &str) -> anyhow::Result<()> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{text}}}"#);
        check_text(&read(&head("application/json"), body.as_bytes(), 7)?, "a\"b")
    }

    #[test]
    fn only_the_echo_of_the_text_passes() {
        outcome(r#"{"content":[{"type":"text","text":"a\"b"}]}"#).unwrap();
        for wrong in [
            r#"{"content":[{"type":"text","text":"a"}]}"#,
            r#"{"content":[{"type":"text","text":"a\"b"}],"isError":true}"#,
            r#"{"content":[]}"#,
            "null",
        ] {
            outcome(wrong).unwrap_err();
        }
    }

    #[test]
    fn another_id_or_status_is_wrong() {
        let body = br#"{"id":8,"result":{}}"#;
        read(&head("application/json"), body, 8).unwrap();
        read(&head("application/json"), body, 7).unwrap_err();
        let mut failed = head("application/json");
        failed.status = StatusCode::BAD_GATEWAY;
        read(&failed, body, 8).unwrap_err();
    }

    #[test]
    fn the_answer_is_found_among_events() {
        let stream =
            b": hi\r\ndata: \r\n\r\ndata: {\"method\":\"m\"}\r\n\r\ndata:{\"id\":7,\"result\":{}}\r\n\r\n";
        read(&head("text/event-stream"), stream, 7).unwrap();
        read(&head("text/event-stream"), stream, 8).unwrap_err();
    }

    #[test]
    fn answers_are_equal_but_for_the_id() {
        let json = head("application/json");
        let mut known = Known::default();
        let mut tools = None;
        let mut check = |id: u64, told: u64, list: &str| {
            let body = Bytes::from(format!(r#"{{"result":{{"tools":[{list}]}},"id":{told}}}"#));
            known.check((&json, &body, id), |outcome| check_tools(outcome, &mut tools))
        };
        check(10, 10, "").unwrap_err();
        check(10, 10, "1,2").unwrap();
        check(11, 11, "1,2").unwrap();
        check(11, 11, "1,3").unwrap();
        check(12, 11, "1,2").unwrap_err();
        check(11, 11, "1").unwrap_err();
    }
}
