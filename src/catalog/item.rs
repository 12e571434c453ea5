//! One thing that a server lists.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::audience::Audience;
use super::wrap::wrapped;
use crate::config::Retry;
use crate::mcp::{Feature, ParamHeader, TaskSupport};
use crate::wire::{Span, Text, cuts, elements, every_member, members};

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
    /// What a tool says of calls that come twice.
    pub(super) twice: Retry,
    /// What only 2025-11-25 knows: `execution`, with its comma.
    execution_at: Option<Span>,
    /// The schema of its arguments.
    pub(super) input_at: Option<Span>,
    /// The arguments that headers repeat. Known once the item is in a part.
    pub(super) headers: Arc<[ParamHeader]>,
    /// A schema of results that may be no objects, which only clients without a handshake take.
    pub(super) output_at: Option<Span>,
    /// A tool for pages, not for models (MCP Apps, `_meta.ui.visibility`).
    pub(super) for_pages: bool,
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
            twice: Retry::Never,
            execution_at: None,
            input_at: None,
            headers: Arc::default(),
            output_at: None,
            for_pages: false,
        };
        if feature == Feature::Tool {
            item.read_tool(text);
        }
        Some(item)
    }

    fn read_tool(&mut self, text: &str) {
        let all = every_member(text).unwrap_or_default();
        let of = |key| all.iter().find(|member| member.name(text) == key).map(|member| member.value.clone());
        let [meta, execution, output, hints] = ["_meta", "execution", "outputSchema", "annotations"].map(of);
        self.twice = hints.map_or(Retry::Never, |hints| twice(text, hints));
        self.input_at = of("inputSchema");
        if let Some(meta) = meta {
            let ui = Ui::read(text, meta);
            (self.uris_at, self.for_pages) = (ui.pages, ui.hidden);
        }
        if let Some(execution) = execution {
            self.task_support = inside(text, execution.clone(), ["taskSupport"])
                .and_then(|[word]| Text::of(text.get(word?)?))
                .map_or(TaskSupport::default(), |word| TaskSupport::of(&word));
            self.execution_at = cuts(&all, |member| member.value == execution).into_iter().next();
        }
        self.output_at = output.filter(|at| {
            let kind = inside(text, at.clone(), ["type"]).and_then(|[kind]| Text::of(text.get(kind?)?));
            kind.as_deref() != Some("object")
        });
    }

    /// Whether it can be listed: a tool's schema, where it has one, is an object.
    pub(super) fn is_sound(&self) -> bool {
        self.input_at.as_ref().is_none_or(|at| self.slice(at).starts_with('{'))
    }

    /// What `at` says.
    pub(super) fn slice(&self, at: &Span) -> &str {
        self.text.get(at.clone()).and_then(|raw| std::str::from_utf8(raw).ok()).unwrap_or_default()
    }

    /// Whether `audience` is shown it.
    pub(super) fn is_for(&self, audience: Audience) -> bool {
        audience.ui || !self.for_pages
    }

    /// What of an audience makes a difference.
    pub(super) fn varies(&self) -> Audience {
        Audience { modern: self.execution_at.is_some() || self.output_at.is_some(), ui: self.for_pages }
    }

    /// The edits that leave only what `audience` understands.
    pub(super) fn projected(&self, audience: Audience) -> Vec<(Span, String)> {
        let cut = self.execution_at.clone().filter(|_| audience.modern).map(|at| (at, String::new()));
        let schema = self.output_at.clone().filter(|_| !audience.modern);
        let schema = schema.map(|at| (at.clone(), wrapped(self.slice(&at))));
        cut.into_iter().chain(schema).collect()
    }

    /// The name as the server wrote it, JSON.
    pub(super) fn raw(&self) -> Bytes {
        self.text.slice(self.name_at.clone())
    }

    /// What the JSON string at `at` says.
    pub(super) fn string(&self, at: &Span) -> Option<Cow<'_, str>> {
        Text::of(self.slice(at))
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

/// What the annotations at `at` in `tool` say of calls that come twice.
fn twice(tool: &str, at: Span) -> Retry {
    let hints = inside(tool, at, ["readOnlyHint", "idempotentHint"]).unwrap_or_default();
    let [reads, idempotent] = hints.map(|hint| hint.and_then(|at| tool.get(at)) == Some("true"));
    match (reads, idempotent) {
        (true, _) => Retry::ReadOnly,
        (false, true) => Retry::Idempotent,
        (false, false) => Retry::Never,
    }
}

/// What a tool says of pages (MCP Apps).
#[derive(Default)]
struct Ui {
    /// Where it says which resource is its page, in the form of MCP Apps and in that before it.
    pages: Vec<Span>,
    /// Models are not to see it.
    hidden: bool,
}

impl Ui {
    /// Reads the `_meta` at `meta` in `tool`.
    fn read(tool: &str, meta: Span) -> Self {
        let [ui, flat] = inside(tool, meta, ["ui", "ui/resourceUri"]).unwrap_or_default();
        let [nested, seen] =
            ui.and_then(|ui| inside(tool, ui, ["resourceUri", "visibility"])).unwrap_or_default();
        let seen = seen.and_then(|at| tool.get(at)).and_then(|list| Some((list, elements(list).ok()?)));
        let hidden = seen.is_some_and(|(list, by)| {
            !by.into_iter().any(|at| list.get(at).and_then(Text::of).is_some_and(|who| who == "model"))
        });
        Self { pages: nested.into_iter().chain(flat).collect(), hidden }
    }
}

/// The places of members of the object at `at` in `text`; `None` where there is no such object.
fn inside<const N: usize>(text: &str, at: Span, keys: [&str; N]) -> Option<[Option<Span>; N]> {
    let start = at.start;
    let found = members(text.get(at)?, keys).ok()?;
    Some(found.map(|span| span.map(|span| span.start + start..span.end + start)))
}
