//! Content that older clients do not know, as text.

use super::project::{Answer, blocks, kind};
use super::revision::Revision;
use crate::wire::{Edit, Span, Text, members, quoted};

/// The edits that put text in place of content that came up after `client`'s revision: links to resources (2025-06-18)
/// and audio (2025-03-26). None for newer clients.
pub(super) fn content_edits(result: &str, answer: Answer, client: Revision) -> Vec<Edit> {
    if client >= Revision::V2025_06_18 || !["resource_link", "audio"].iter().any(|word| result.contains(word))
    {
        return vec![];
    }
    let found = match answer {
        Answer::Call { .. } => member(result, 0..result.len(), "content").map(|at| blocks(result, at)),
        Answer::Prompt => member(result, 0..result.len(), "messages").map(|at| {
            blocks(result, at).into_iter().filter_map(|message| member(result, message, "content")).collect()
        }),
        Answer::Read | Answer::Other => None,
    };
    let text = |at: Span| Some((at.clone(), as_text(result, at, client)?));
    found.unwrap_or_default().into_iter().filter_map(text).collect()
}

/// The block at `at` as a block of text, where `client` does not know its kind.
fn as_text(result: &str, at: Span, client: Revision) -> Option<String> {
    let says = |key| member(result, at.clone(), key).and_then(|at| Text::of(result.get(at)?));
    let text = match &*kind(result, &at) {
        "resource_link" => {
            let (name, uri) = (says("name").unwrap_or_default(), says("uri").unwrap_or_default());
            format!("{name}: {uri}")
        }
        "audio" if client < Revision::V2025_03_26 => {
            format!("[audio, {}]", says("mimeType").unwrap_or("of unknown type".into()))
        }
        _ => return None,
    };
    Some(format!(r#"{{"type":"text","text":{}}}"#, quoted(&text)))
}

/// The place of the member `key` of the object at `at`.
fn member(text: &str, at: Span, key: &str) -> Option<Span> {
    let start = at.start;
    let [found] = members(text.get(at)?, [key]).ok()?;
    found.map(|at| at.start + start..at.end + start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::edited;

    #[test]
    fn what_a_client_cannot_know_is_text() {
        let link = r#"{"type":"resource_link","name":"a\"","uri":"x:y"}"#;
        let audio = r#"{"type":"audio","mimeType":"audio/wav","data":"AA"}"#;
        let link_text = r#"{"type":"text","text":"a\": x:y"}"#;
        let audio_text = r#"{"type":"text","text":"[audio, audio/wav]"}"#;
        let call = Answer::Call { wrapped: false };
        for (client, texts) in [
            (Revision::V2024_11_05, [link_text, audio_text]),
            (Revision::V2025_03_26, [link_text, audio]),
            (Revision::V2025_06_18, [link, audio]),
        ] {
            for (answer, around) in [
                (call, r#"{"content":[X,1,Y]}"#),
                (Answer::Prompt, r#"{"messages":[{"role":"user","content":X},{"content":Y}]}"#),
            ] {
                let with = |link: &str, audio: &str| around.replace('X', link).replace('Y', audio);
                let text = with(link, audio);
                let read = edited(&text, &mut content_edits(&text, answer, client));
                assert_eq!(read, with(texts[0], texts[1]), "{client}");
            }
        }
    }
}
