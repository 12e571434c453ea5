//! Takes typed values out of nodes and notes everything that is wrong on the way.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use super::keys::{Fate, Key};
use super::near::nearest;
use super::node::{Entry, Fault, Node, Value};
use super::placeholder::{Filled, Scope, fill};
use super::problem::{Place, Problem, Severity, shown, shown_all};
use super::source::Source;
use super::units;

/// Problems told at most; who has more does not read them one by one.
const MOST: usize = 1_000;

/// Unknown keys of a mapping that are compared with the known ones; a file with more is not a typing mistake.
pub(super) const HINTS: usize = 100;

/// Walks the tree. A value that is wrong is noted and read as absent, so that the walk goes on to the next problem.
pub(super) struct Reader<'s> {
    source: &'s Source<'s>,
    file: Arc<str>,
    problems: Vec<Problem>,
    /// Whether an error was told: the problems kept are limited in number.
    failed: bool,
    /// Files that were read: `${file:…}` and `envFile`.
    pub(super) files: Vec<PathBuf>,
    /// Keys that have no effect here, told together in one note.
    chat: Vec<(Place, String)>,
    /// Keys not supported yet, told together in one warning.
    later: Vec<(Place, String)>,
    /// What `LibreChat` asks its users for, in the server's entry being read.
    pub(super) custom: HashSet<String>,
    /// What placeholders of the server's entry being read stood for.
    pub(super) secrets: Vec<String>,
    /// Variables of the server's entry being read, once they are known.
    pub(super) own: IndexMap<String, String>,
}

/// A mapping's known keys.
pub(super) struct Fields<'n> {
    /// Whose they are, for messages; empty at the top.
    pub(super) of: String,
    pub(super) place: Place,
    known: Vec<(&'static str, &'n Entry)>,
    /// Keys that the table does not have.
    pub(super) unknown: Vec<&'n Entry>,
}

impl<'n> Fields<'n> {
    /// These keys of a mapping, and no word on any other.
    pub(super) fn only(node: &'n Node, keys: &[&'static str], of: &str) -> Self {
        let entries: &[Entry] = if let Value::Map(entries) = &node.value { entries } else { &[] };
        let known = |entry: &'n Entry| Some((*keys.iter().find(|key| **key == entry.key)?, entry));
        let known = entries.iter().filter_map(known).collect();
        Self { of: of.to_owned(), place: node.place, known, unknown: vec![] }
    }

    /// The value of a key; `null` is as good as absent.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        let (_, entry) = self.known.iter().find(|(known, _)| *known == name)?;
        (!entry.value.is_null()).then_some(&entry.value)
    }

    /// The value of a key, be it `null`.
    pub(super) fn given(&self, name: &str) -> Option<&'n Entry> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, entry)| *entry)
    }

    /// `` `timeout` of server `github` ``.
    pub(super) fn name(&self, key: &str) -> String {
        format!("`{key}`{}", self.of)
    }
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s Source<'s>) -> Self {
        Self {
            source,
            file: source.name.into(),
            problems: vec![],
            failed: false,
            files: vec![],
            chat: vec![],
            later: vec![],
            custom: HashSet::new(),
            secrets: vec![],
            own: IndexMap::new(),
        }
    }

    pub(super) fn source(&self) -> &'s Source<'s> {
        self.source
    }

    pub(super) fn error(&mut self, place: Place, message: impl Into<String>) {
        self.tell(place, Severity::Error, message.into());
    }

    pub(super) fn warn(&mut self, place: Place, message: impl Into<String>) {
        self.tell(place, Severity::Warning, message.into());
    }

    pub(super) fn note(&mut self, place: Place, message: impl Into<String>) {
        self.tell(place, Severity::Note, message.into());
    }

    /// Takes over what the text's reading found.
    pub(super) fn faults(&mut self, faults: Vec<Fault>) {
        for (place, message) in faults {
            self.error(place, message);
        }
    }

    fn tell(&mut self, place: Place, severity: Severity, message: String) {
        let Place { line, column } = place;
        self.failed |= severity == Severity::Error;
        if self.problems.len() < MOST {
            self.problems.push(Problem { file: Arc::clone(&self.file), line, column, severity, message });
        }
    }

    /// Notes a key that this version ignores, for the one warning at the end.
    pub(super) fn later(&mut self, place: Place, name: String) {
        self.later.push((place, name));
    }

    /// Everything told, in the order of the file; an error if there is one among it.
    pub(super) fn finish(mut self) -> Result<(Vec<Problem>, Vec<PathBuf>), Vec<Problem>> {
        if let Some(place) = self.later.iter().map(|(place, _)| *place).min() {
            let names = shown_each(&mut self.later);
            self.warn(place, format!("not supported yet, ignored: {names}"));
        }
        if let Some(place) = self.chat.iter().map(|(place, _)| *place).min() {
            let names = shown_each(&mut self.chat);
            self.note(place, format!("of no effect here, since they only concern the client: {names}"));
        }
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        if self.problems.len() == MOST {
            let message = format!("there is more; only the first {MOST} problems are shown");
            let (file, severity) =
                (Arc::clone(&self.file), if self.failed { Severity::Error } else { Severity::Note });
            let last = self.problems.last().map_or((1, 1), |last| (last.line, last.column));
            self.problems.push(Problem { file, line: last.0, column: last.1, severity, message });
        }
        if self.failed { Err(self.problems) } else { Ok((self.problems, self.files)) }
    }

    /// A mapping with these keys. Unknown ones are left to the caller.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        keys: &'static [Key],
        what: &str,
        of: &str,
    ) -> Option<Fields<'n>> {
        let Value::Map(entries) = &node.value else {
            self.error(node.place, format!("{what} must be a mapping, not {}", node.kind()));
            return None;
        };
        let mut fields = Fields { of: of.to_owned(), place: node.place, known: vec![], unknown: vec![] };
        for entry in entries {
            let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
                fields.unknown.push(entry);
                continue;
            };
            let name = fields.name(&entry.key);
            match key.fate {
                Fate::Read => self.know(&mut fields, key.name, entry),
                Fate::Same(name) => self.know(&mut fields, name, entry),
                Fate::Chat => self.chat.push((entry.place, entry.key.clone())),
                Fate::Later => self.later.push((entry.place, entry.key.clone())),
                Fate::Refused => self.error(
                    entry.place,
                    format!("{name} is not supported yet, and leaving it out would be unsafe: {}", key.says),
                ),
            }
        }
        Some(fields)
    }

    fn know<'n>(&mut self, fields: &mut Fields<'n>, name: &'static str, entry: &'n Entry) {
        if let Some(first) = fields.given(name) {
            let (key, line) = (shown(&first.key), first.place.line);
            let message =
                format!("{} says the same as {key} in line {line}; give one", fields.name(&entry.key));
            self.error(entry.place, message);
        } else {
            fields.known.push((name, entry));
        }
    }

    /// Warns of keys that the table does not have.
    pub(super) fn warn_unknown(&mut self, fields: &Fields<'_>, keys: &'static [Key]) {
        for (number, entry) in fields.unknown.iter().enumerate() {
            let hint = match nearest(&entry.key, keys.iter().map(|key| key.name).filter(|_| number < HINTS)) {
                Some(name) => format!("; did you mean `{name}`?"),
                None => String::new(),
            };
            self.warn(
                entry.place,
                format!("unknown key {}{} is ignored{hint}", shown(&entry.key), fields.of),
            );
        }
    }

    /// Keys that are nobody's, where leaving one out would be unsafe.
    pub(super) fn refuse_unknown(&mut self, fields: &Fields<'_>, keys: &'static [Key]) {
        for entry in &fields.unknown {
            let known = shown_all(keys.iter().map(|key| key.name));
            self.error(
                entry.place,
                format!("unknown key {}{}; there are {known}", shown(&entry.key), fields.of),
            );
        }
    }

    /// A single value with its placeholders replaced, the same for all callers.
    pub(super) fn filled(&mut self, node: &Node, name: &str) -> Option<Filled> {
        let filled = self.personal(node, name)?;
        if filled.form.is_some() {
            let places = "`url`, `headers`, `args` and `env` of a server";
            self.error(node.place, format!("{name}: what callers fill in can only stand in {places}"));
            return None;
        }
        Some(filled)
    }

    /// A single value with its placeholders replaced, but for those that each caller fills in.
    pub(super) fn personal(&mut self, node: &Node, name: &str) -> Option<Filled> {
        match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => {
                let scope = Scope { source: self.source, own: &self.own, custom: &self.custom };
                match fill(text, scope, &mut self.files) {
                    Ok(filled) => {
                        self.secrets.extend_from_slice(&filled.pieces);
                        return Some(filled);
                    }
                    Err(faults) => {
                        for fault in faults {
                            self.error(node.place, format!("{name}: {fault}"));
                        }
                    }
                }
            }
            Value::Scalar { .. } => {
                self.error(node.place, format!("{name} is empty; write \"\" if that is meant"));
            }
            Value::List(_) | Value::Map(_) => {
                self.error(node.place, format!("{name} must be a single value, not {}", node.kind()));
            }
        }
        None
    }

    /// A text, if the key is given.
    pub(super) fn text(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        Some(self.filled(fields.get(key)?, &fields.name(key))?.value)
    }

    /// A text that `parse` understands, if the key is given. `what` says what it must be.
    pub(super) fn parsed<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let node = fields.get(key)?;
        let name = fields.name(key);
        let filled = self.filled(node, &name)?;
        let value = parse(filled.value.trim());
        if value.is_none() {
            let instead =
                if filled.secret { String::new() } else { format!(", not {}", shown(&filled.value)) };
            self.error(node.place, format!("{name} must be {what}{instead}"));
        }
        value
    }

    /// `true` or `false`. Quoted is fine only where it came by a placeholder, but it cannot mean anything else.
    pub(super) fn flag(&mut self, fields: &Fields<'_>, key: &str) -> Option<bool> {
        self.parsed(fields, key, "true or false", |text| match text {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        })
    }

    /// A number within bounds.
    pub(super) fn whole(&mut self, fields: &Fields<'_>, key: &str, from: usize, to: usize) -> Option<usize> {
        let what = format!("a number from {from} to {to}");
        self.parsed(fields, key, &what, |text| {
            text.parse().ok().filter(|number| (from..=to).contains(number))
        })
    }

    /// A size within bounds, in bytes.
    pub(super) fn size(&mut self, fields: &Fields<'_>, key: &str, from: usize, to: usize) -> Option<usize> {
        let what = format!("a size such as 4MiB, from {from} to {to} bytes");
        self.parsed(fields, key, &what, |text| units::size(text).filter(|size| (from..=to).contains(size)))
    }

    /// A duration, which may be nothing at all.
    pub(super) fn span(&mut self, fields: &Fields<'_>, key: &str) -> Option<Duration> {
        self.parsed(
            fields,
            key,
            "a duration such as 60s, 5m, 1500ms or a number of milliseconds",
            units::duration,
        )
    }

    /// A duration above zero.
    pub(super) fn duration(&mut self, fields: &Fields<'_>, key: &str) -> Option<Duration> {
        let what = "a duration above zero such as 60s, 5m, 1500ms or a number of milliseconds";
        self.parsed(fields, key, what, |text| units::duration(text).filter(|time| !time.is_zero()))
    }

    /// One of a few words.
    pub(super) fn choice(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        of: &[&'static str],
    ) -> Option<&'static str> {
        let what = format!("one of {}", shown_all(of.iter().copied()));
        self.parsed(fields, key, &what, |text| of.iter().copied().find(|word| *word == text))
    }

    /// A list of texts; empty if the key is not given.
    pub(super) fn texts(&mut self, fields: &Fields<'_>, key: &str) -> Vec<(Place, String)> {
        let all = self.items(fields, key, Self::filled);
        all.into_iter().map(|(place, filled)| (place, filled.value)).collect()
    }

    /// As [`texts`](Self::texts), each of which callers may fill in.
    pub(super) fn personal_texts(&mut self, fields: &Fields<'_>, key: &str) -> Vec<(Place, Filled)> {
        self.items(fields, key, Self::personal)
    }

    fn items(&mut self, fields: &Fields<'_>, key: &str, read: Read<Self>) -> Vec<(Place, Filled)> {
        let Some(node) = fields.get(key) else { return vec![] };
        let name = fields.name(key);
        let Value::List(items) = &node.value else {
            self.error(node.place, format!("{name} must be a list, not {}", node.kind()));
            return vec![];
        };
        let item = format!("an item of {name}");
        items.iter().filter_map(|node| Some((node.place, read(self, node, &item)?))).collect()
    }

    /// Names → texts; empty if the key is not given.
    pub(super) fn map<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Vec<(&'n Entry, String)> {
        let all = self.pairs(fields, key, Self::filled);
        all.into_iter().map(|(entry, filled)| (entry, filled.value)).collect()
    }

    /// As [`map`](Self::map), each text of which callers may fill in.
    pub(super) fn personal_map<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Vec<(&'n Entry, Filled)> {
        self.pairs(fields, key, Self::personal)
    }

    fn pairs<'n>(&mut self, fields: &Fields<'n>, key: &str, read: Read<Self>) -> Vec<(&'n Entry, Filled)> {
        let Some(node) = fields.get(key) else { return vec![] };
        let name = fields.name(key);
        let Value::Map(entries) = &node.value else {
            self.error(node.place, format!("{name} must be a mapping, not {}", node.kind()));
            return vec![];
        };
        let value = |entry: &Entry| format!("{} in {name}", shown(&entry.key));
        entries.iter().filter_map(|entry| Some((entry, read(self, &entry.value, &value(entry))?))).collect()
    }
}

/// How a single value is read.
type Read<R> = fn(&mut R, &Node, &str) -> Option<Filled>;

/// Each name once, in the order of the file.
fn shown_each(names: &mut [(Place, String)]) -> String {
    names.sort();
    let mut each: Vec<&str> = vec![];
    for (_, name) in names {
        if !each.contains(&name.as_str()) {
            each.push(name);
        }
    }
    shown_all(each.into_iter())
}
