//! Requests of our own, in the words of the revision that the server speaks.

use super::state::Ready;
use crate::mcp::{Letter, Revision, meta};
use crate::transport::{Failure, Link, Reply};
use crate::wire::{Code, Kind, Message, members};

/// The answer to a request of ours on a link that is ready, of those that may reach the server twice.
pub(super) async fn ask(ready: &Ready, method: &str, params: &str) -> Result<Message, Failure> {
    ask_as(&ready.link, ready.hello.revision, ready.id(), method, params).await
}

/// As [`ask`], on a link of which nothing is known yet.
pub(super) async fn ask_as(
    link: &Link,
    revision: Revision,
    id: u64,
    method: &str,
    params: &str,
) -> Result<Message, Failure> {
    answer_of(link.request(id, Letter::ours(revision, id, method, params)).await?).await
}

/// Waits for the answer.
pub(super) async fn answer_of(reply: Reply) -> Result<Message, Failure> {
    let mut reply = reply.repeatable();
    loop {
        let message = reply.next().await?;
        if matches!(message.kind(), Kind::Result | Kind::Error) {
            return Ok(message);
        }
    }
}

/// The raw result.
pub(super) fn result_of(answer: &Message) -> Result<&str, Failure> {
    let body = answer.body().unwrap_or_default();
    if answer.kind() == Kind::Result {
        return Ok(body);
    }
    let told: String = body.chars().take(200).collect();
    Err(Failure::Garbage(format!("it answered with the error {told}")))
}

/// Whether `answer` says that the method is not known.
pub(super) fn is_unknown_method(answer: &Message) -> bool {
    error_code(answer) == Some(i64::from(Code::MethodNotFound.number()))
}

/// Whether the `answer` to a list request that was understood before says that the server means another revision now.
pub(super) fn disowns(answer: &Message) -> bool {
    let Some(code) = error_code(answer) else { return false };
    let codes = [Code::UnsupportedRevision, Code::HeaderMismatch, Code::InvalidParams, Code::InvalidRequest];
    // The range is for whatever a server likes; those that miss a session answer with one of it.
    codes.iter().any(|one| i64::from(one.number()) == code) || (-32019..=-32000).contains(&code)
}

/// Whether the `answer` to a call makes it doubtful that the server still speaks this revision. A tool can say the same, so
/// this is no proof.
pub(super) fn is_suspicious(revision: Revision, answer: &Message) -> bool {
    let Some(code) = error_code(answer) else { return false };
    let says = |word: &str| answer.body().unwrap_or_default().contains(word);
    let is = |one: Code| i64::from(one.number()) == code;
    if revision.is_modern() {
        // What servers with sessions say to a revision that they do not know (Python and TypeScript SDK).
        let refuses = is(Code::InvalidRequest) || code == -32000;
        let unknown = refuses && ["ersion", "evision"].into_iter().any(says);
        unknown || is(Code::UnsupportedRevision) || (answer.id().is_none() && says("ession"))
    } else {
        is(Code::UnsupportedRevision) || is(Code::HeaderMismatch) || says(meta::PROTOCOL_VERSION)
    }
}

/// The code of an error.
pub(super) fn error_code(answer: &Message) -> Option<i64> {
    let error = (answer.kind() == Kind::Error).then(|| answer.body()).flatten()?;
    let [code] = members(error, ["code"]).ok()?;
    error.get(code?)?.parse().ok()
}
