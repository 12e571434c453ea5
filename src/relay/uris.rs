//! URIs in results: where they stand, and whose they were.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use indexmap::IndexSet;
use memchr::memmem::Finder;

use crate::names::ServerName;
use crate::wire::{Span, elements, members};

/// The places of the URIs of resources in the result of a tool, a prompt or a resource, as JSON strings: in links, in
/// embedded resources, in contents, and in what a task has come to (PROTOCOL of resources: URIs in other places are not the client's to read).
/// Most results have none, and large ones are not read for it.
pub(super) fn places(result: &str) -> Vec<Span> {
    /// Made once: every result is searched.
    static MEMBER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"uri\""));
    let mut found = Vec::new();
    if MEMBER.find(result.as_bytes()).is_none() {
        return found;
    }
    let keys = ["content", "contents", "messages", "taskId", "result"];
    let Ok([content, contents, messages, task, outcome]) = members(result, keys) else { return found };
    if let (Some(_), Some(at)) = (task, outcome) {
        let inner = places(result.get(at.clone()).unwrap_or_default());
        found.extend(inner.into_iter().map(|inner| inner.start + at.start..inner.end + at.start));
    }
    let at = |span: Option<Span>| span.into_iter().flat_map(|span| all(result, span));
    at(content).for_each(|block| in_block(result, block, &mut found));
    at(contents).for_each(|block| found.extend(member(result, block, "uri")));
    for message in at(messages) {
        let content = member(result, message, "content");
        at(content).for_each(|block| in_block(result, block, &mut found));
    }
    found
}

/// The elements of the array at `span`, or the one thing that stands there in place of an array.
fn all(text: &str, span: Span) -> Vec<Span> {
    let inner = text.get(span.clone()).unwrap_or_default();
    if !inner.starts_with('[') {
        return vec![span];
    }
    let found = elements(inner).unwrap_or_default();
    found.into_iter().map(|inner| inner.start + span.start..inner.end + span.start).collect()
}

fn member(text: &str, span: Span, key: &'static str) -> Option<Span> {
    let [found] = members(text.get(span.clone())?, [key]).ok()?;
    found.map(|found| found.start + span.start..found.end + span.start)
}

fn in_block(text: &str, block: Span, found: &mut Vec<Span>) {
    let kind = member(text, block.clone(), "type").and_then(|kind| text.get(kind));
    let uri = match kind {
        Some(r#""resource_link""#) => member(text, block, "uri"),
        Some(r#""resource""#) => member(text, block, "resource").and_then(|inner| member(text, inner, "uri")),
        _ => None,
    };
    found.extend(uri.filter(|uri| text.get(uri.clone()).is_some_and(|raw| raw.starts_with('"'))));
}

/// The URIs that servers named in results lately: they need not be in any list.
#[derive(Debug, Default)]
pub(super) struct Sightings(Mutex<HashMap<ServerName, IndexSet<Box<str>>>>);

/// Most URIs kept of one server.
const MOST: usize = 1_000;
/// Longest one kept.
const LONGEST: usize = 2_048;

impl Sightings {
    /// `server` named `uri`.
    pub(super) fn note(&self, server: &ServerName, uri: &str) {
        if uri.len() > LONGEST {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(server.clone()).or_default();
        if !seen.shift_remove(uri) && seen.len() >= MOST {
            seen.shift_remove_index(0); // the longest not named
        }
        seen.insert(uri.into());
    }

    /// The first of `servers` that named `uri`.
    pub(super) fn owner<'n>(
        &self,
        mut servers: impl Iterator<Item = &'n ServerName>,
        uri: &str,
    ) -> Option<&'n ServerName> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.find(|server| all.get(*server).is_some_and(|seen| seen.contains(uri)))
    }

    /// Forgets the servers that `known` does not know.
    pub(super) fn retain(&self, known: impl Fn(&ServerName) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|server, _| known(server));
    }
}

/// Under what a URI is remembered that was named to `whose` clients: what a server names to one principal says nothing of
/// what it has for another.
pub(super) fn seen_by<'u>(whose: Option<&Arc<str>>, uri: &'u str) -> Cow<'u, str> {
    whose.map_or(Cow::Borrowed(uri), |principal| Cow::Owned(format!("{principal}\n{uri}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(result: &str) -> Vec<&str> {
        places(result).into_iter().filter_map(|span| result.get(span)).collect()
    }

    #[test]
    fn finds_links_embedded_resources_and_contents() {
        let tool = r#"{"x":{"uri":"no"},"content":[{"type":"text","text":"\"uri\"","uri":"no"},{"uri":"a:1","type":"resource_link"},{"type":"resource","resource":{"text":"t","uri":"a:2"}},{"type":"resource","resource":7},{"type":"resource_link","uri":7},9]}"#;
        assert_eq!(found(tool), [r#""a:1""#, r#""a:2""#]);
        let prompt = r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"b:1"}}},{"content":[{"type":"resource_link","uri":"b:2"}]},{}]}"#;
        assert_eq!(found(prompt), [r#""b:1""#, r#""b:2""#]);
        assert_eq!(
            found(r#"{"contents":[{"uri":"c:1","text":"x"},{"uri":"c:2"}]}"#),
            [r#""c:1""#, r#""c:2""#]
        );
        let link = r#"{"content":[{"type":"resource_link","uri":"d:1"}]}"#;
        assert_eq!(found(&format!(r#"{{"taskId":"t","result":{link}}}"#)), [r#""d:1""#]);
        assert!(found(&format!(r#"{{"result":{link}}}"#)).is_empty());
        for none in [r#"{"content":"uri"}"#, "{}", "[]", "7", r#"{"content":{"uri":1}}"#] {
            assert!(found(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn keeps_the_newest_of_each_server() {
        let sightings = Sightings::default();
        let (one, two) = (ServerName::expose("one"), ServerName::expose("two"));
        for n in 0..MOST {
            sightings.note(&one, &n.to_string());
        }
        sightings.note(&one, "0");
        sightings.note(&one, "new");
        sightings.note(&two, "2");
        let owner = |uri| sightings.owner([&one, &two].into_iter(), uri).map(ServerName::as_str);
        assert_eq!(
            (owner("0"), owner("1"), owner("2"), owner("new")),
            (Some("one"), None, Some("one"), Some("one"))
        );
        sightings.retain(|server| *server == two);
        assert_eq!((owner("0"), owner("2")), (None, Some("two")));
        sightings.note(&two, &"x".repeat(LONGEST + 1));
        assert_eq!(owner(&"x".repeat(LONGEST + 1)), None);
    }
}
