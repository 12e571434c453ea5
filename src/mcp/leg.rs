//! What servers ask of clients, in the other era's form (specification of each revision, `client/elicitation`,
//! `client/sampling`, `client/roots`).

use super::client::Unable;
use super::elicitation::{older_schema, url_mode};
use super::meta::{RELATED_TASK, Rewrite};
use super::method;
use super::project::{blocks, kind};
use super::revision::Revision;
use crate::wire::{Edit, Span, edited, members, quoted};

/// The raw `params` of a legacy server's request as they stand in a result that asks for input: without what belongs to a
/// request of its own, to its task, or to a notification that does not exist any more.
pub fn input_params(params: &str) -> String {
    let drop_meta = |key: &str| key == "progressToken" || key == RELATED_TASK;
    let rewrite = Rewrite {
        drop: &["task", "elicitationId"],
        drop_meta: Some(&drop_meta),
        drop_empty: true,
        ..Rewrite::default()
    };
    edited(params, &mut rewrite.edits(params, 0..params.len()))
}

/// The raw `params` of what a modern server asks, as a request to a client of the legacy revision `client`.
/// `elicitation` is the id to give an elicitation that sends the user to a page.
///
/// # Errors
/// Where that revision has no words for it.
pub fn leg_params(
    client: Revision,
    name: &str,
    params: Option<&str>,
    elicitation: &str,
) -> Result<String, Unable> {
    let params = params.unwrap_or("{}");
    let mut edits = match name {
        method::ELICITATION => elicited(client, params, elicitation)?,
        method::SAMPLING => sampled(client, params)?,
        _ => vec![],
    };
    Ok(edited(params, &mut edits))
}

fn elicited(client: Revision, params: &str, elicitation: &str) -> Result<Vec<Edit>, Unable> {
    let drop = |drop: &[&str], put: String| {
        Rewrite { drop, put, ..Rewrite::default() }.edits(params, 0..params.len())
    };
    if url_mode(params) {
        let put = format!(r#""elicitationId":{}"#, quoted(elicitation));
        return if client >= Revision::V2025_11_25 {
            Ok(drop(&["elicitationId"], put))
        } else {
            Err(Unable("elicitation.url"))
        };
    }
    match client {
        Revision::V2024_11_05 | Revision::V2025_03_26 => Err(Unable("elicitation")),
        Revision::V2025_06_18 => {
            let mut edits = drop(&["mode"], String::new());
            edits.extend(older_schema(params)?);
            Ok(edits)
        }
        Revision::V2025_11_25 | Revision::V2026_07_28 => Ok(vec![]),
    }
}

/// Messages of one block each, of kinds that the client knows, are all that the older revisions have.
fn sampled(client: Revision, params: &str) -> Result<Vec<Edit>, Unable> {
    if client >= Revision::V2025_11_25 {
        return Ok(vec![]);
    }
    let found = members(params, ["tools", "toolChoice", "messages"]).map_err(|_| Unable("such requests"))?;
    let [None, None, messages] = found else { return Err(Unable("sampling.tools")) };
    let mut edits = vec![];
    for message in messages.map_or(vec![], |at| blocks(params, at)) {
        edits.extend(one_block(client, params, message)?);
    }
    Ok(edits)
}

/// The edits that leave the message at `at` with one block.
fn one_block(client: Revision, params: &str, at: Span) -> Result<Vec<Edit>, Unable> {
    let start = at.start;
    let content = params.get(at).and_then(|message| members(message, ["content"]).ok()).and_then(|[at]| at);
    let Some(at) = content.map(|at| at.start + start..at.end + start) else { return Ok(vec![]) };
    let is_array = params.get(at.clone()).is_some_and(|raw| raw.starts_with('['));
    let (block, edits) = if is_array {
        let [block] = &*blocks(params, at.clone()) else { return Err(Unable("messages of several blocks")) };
        (block.clone(), vec![(at.start..block.start, String::new()), (block.end..at.end, String::new())])
    } else {
        (at, vec![])
    };
    match &*kind(params, &block) {
        "tool_use" | "tool_result" => Err(Unable("sampling.tools")),
        "audio" if client < Revision::V2025_03_26 => Err(Unable("audio")),
        _ => Ok(edits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_request_is_not_asked_within_a_result() {
        for (params, left) in [
            (
                r#"{"mode":"url","url":"u","elicitationId":"e","message":"m"}"#,
                r#"{"mode":"url","url":"u","message":"m"}"#,
            ),
            (
                r#"{"_meta":{"progressToken":1,"io.modelcontextprotocol/related-task":{}},"task":{},"messages":[]}"#,
                r#"{"messages":[]}"#,
            ),
            (r#"{"_meta":{"progressToken":1,"a/b":2}}"#, r#"{"_meta":{"a/b":2}}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(input_params(params), left);
        }
    }

    #[test]
    fn legs_speak_the_clients_revision() {
        use Revision::{V2024_11_05 as A, V2025_03_26 as B, V2025_06_18 as C, V2025_11_25 as D};
        let url = r#"{"mode":"url","url":"u","message":"m"}"#;
        let form = r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
        let modeless = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
        let with_id = r#"{"elicitationId":"e\"1","mode":"url","url":"u","message":"m"}"#;
        let (elicit, sample) = (method::ELICITATION, method::SAMPLING);
        let text = r#"{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":1}"#;
        let array =
            r#"{"messages":[{"role":"user","content":[ {"type":"text","text":"x"} ]}],"maxTokens":1}"#;
        let two = r#"{"messages":[{"content":[{"type":"text"},{"type":"text"}]}]}"#;
        let audio = r#"{"messages":[{"content":{"type":"audio"}}]}"#;
        let used = r#"{"messages":[{"content":[{"type":"tool_use"}]}]}"#;
        for (client, name, params, read) in [
            (A, method::ROOTS_LIST, "{}", Ok("{}")),
            (D, elicit, url, Ok(with_id)),
            (C, elicit, url, Err("elicitation.url")),
            (D, elicit, form, Ok(form)),
            (C, elicit, form, Ok(modeless)),
            (B, elicit, form, Err("elicitation")),
            (A, elicit, modeless, Err("elicitation")),
            (A, sample, text, Ok(text)),
            (C, sample, array, Ok(text)),
            (D, sample, array, Ok(array)),
            (C, sample, two, Err("messages of several blocks")),
            (B, sample, audio, Ok(audio)),
            (A, sample, audio, Err("audio")),
            (C, sample, used, Err("sampling.tools")),
            (D, sample, used, Ok(used)),
            (C, sample, r#"{"tools":[],"messages":[]}"#, Err("sampling.tools")),
        ] {
            let leg = leg_params(client, name, Some(params), "e\"1");
            assert_eq!(leg.as_deref().map_err(|unable| unable.0), read, "{client} {params}");
        }
        assert_eq!(leg_params(A, method::ROOTS_LIST, None, "e").unwrap(), "{}");
    }
}
