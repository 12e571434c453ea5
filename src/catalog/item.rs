//! One thing that a server lists.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::mcp::{Feature, TaskSupport};
use crate::wire::{Span, Text, members};

/// One tool, prompt, resource or template: the server's own JSON and where its name and description stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The server's own name, URI or URI template.
    pub name: Box<str>,
    pub(super) text: Bytes,
    pub(super) name_at: Span,
    pub(super) description_at: Option<Span>,
    /// Where else URIs of the server stand: the page of a tool with one (`_meta.ui.resourceUri`).
    pub(super) uris_at: Vec<Span>,
    pub(super) task_support: TaskSupport,
}

impl Item {
    /// Reads one element of a list; `None` where it has no name.
    pub(super) fn parse(raw: &Bytes, feature: Feature) -> Option<Self> {
        let text = std::str::from_utf8(raw).ok()?;
        let [name, description_at] = members(text, [feature.key(), "description"]).ok()?;
        let name_at = name?;
        let name = Text::of(text.get(name_at.clone())?)?.into();
        // A copy of its own: a slice would keep the whole page alive.
        let mut item = Self {
            name,
            text: Bytes::copy_from_slice(raw),
            name_at,
            description_at,
            uris_at: vec![],
            task_support: TaskSupport::default(),
        };
        if feature == Feature::Tool {
            item.uris_at = pages_of(text);
            item.task_support = inside(text, 0..text.len(), ["execution"])
                .and_then(|[execution]| inside(text, execution?, ["taskSupport"]))
                .and_then(|[word]| Text::of(text.get(word?)?))
                .map_or(TaskSupport::default(), |word| TaskSupport::of(&word));
        }
        Some(item)
    }

    /// The name as the server wrote it, JSON.
    pub(super) fn raw(&self) -> Bytes {
        self.text.slice(self.name_at.clone())
    }

    /// What the JSON string at `at` says.
    pub(super) fn string(&self, at: &Span) -> Option<Cow<'_, str>> {
        Text::of(std::str::from_utf8(self.text.get(at.clone())?).ok()?)
    }

    /// The edit that puts `title`, as it stands in a JSON string, before the description.
    pub(super) fn titled(&self, title: &str) -> (Span, String) {
        match &self.description_at {
            Some(at) if self.text.get(at.start) == Some(&b'"') => {
                (at.start + 1..at.start + 1, format!("{title} "))
            }
            Some(at) => (at.clone(), format!(r#""{title}""#)), // null, or something else that nobody can read
            None => self.described(&format!(r#""{title}""#)),
        }
    }

    /// The edit that makes the raw JSON string `text` the description.
    pub(super) fn described(&self, text: &str) -> (Span, String) {
        let end = self.name_at.end;
        match &self.description_at {
            Some(at) => (at.clone(), text.to_owned()),
            None => (end..end, format!(r#","description":{text}"#)),
        }
    }

    /// Puts the item's JSON with `edits` into `out`. They must not overlap.
    pub(super) fn write(&self, out: &mut BytesMut, edits: &mut [(Span, String)]) {
        edits.sort_by_key(|(at, _)| (at.start, at.end));
        let mut from = 0;
        for (at, text) in edits {
            out.put_slice(self.text.get(from..at.start).unwrap_or_default());
            out.put_slice(text.as_bytes());
            from = at.end;
        }
        out.put_slice(self.text.get(from..).unwrap_or_default());
    }
}

/// Where a tool says which resource is its page, in the form of MCP Apps and in that before it.
fn pages_of(tool: &str) -> Vec<Span> {
    let found = || {
        let [meta] = inside(tool, 0..tool.len(), ["_meta"])?;
        let [ui, flat] = inside(tool, meta?, ["ui", "ui/resourceUri"])?;
        let nested = ui.and_then(|ui| inside(tool, ui, ["resourceUri"])).and_then(|[uri]| uri);
        Some(nested.into_iter().chain(flat).collect())
    };
    found().unwrap_or_default()
}

/// The places of members of the object at `at` in `text`; `None` where there is no such object.
fn inside<const N: usize>(text: &str, at: Span, keys: [&str; N]) -> Option<[Option<Span>; N]> {
    let start = at.start;
    let found = members(text.get(at)?, keys).ok()?;
    Some(found.map(|span| span.map(|span| span.start + start..span.end + start)))
}
