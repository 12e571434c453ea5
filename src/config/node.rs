//! The text as a small tree of nodes that know their places.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::problem::{Place, shown};
use super::text::readable;

/// A value of the file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// What a [`Node`] is.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A word, a number, a text.
    Scalar {
        /// As written, without quotes.
        text: String,
        /// Quotes make a text of anything.
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Node,
}

/// A place and what is wrong there.
pub(super) type Fault = (Place, String);

impl Node {
    /// Nothing was written, or `null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false } if is_null(text))
    }

    /// The value of a key, if this is a mapping that has it.
    pub(super) fn child(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar { text, quoted: false } if is_null(text) => "nothing",
            Value::Scalar { .. } => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Largest text: what a `ConfigMap` may hold.
const LARGEST: usize = 1 << 20;
/// Most bytes of a tree, what stands behind an alias counted each time: a bomb of aliases ends here.
const HEAVIEST: usize = 16 << 20;
/// What a node weighs beside its text, in bytes.
const WEIGHT: usize = 64;
/// Deepest nesting; what we read is five deep.
const DEEPEST: usize = 64;

/// Reads YAML, or JSON with or without comments. What can be stepped over (a key given twice) goes to `faults`; what
/// cannot is the error.
pub(super) fn read(text: &str, faults: &mut Vec<Fault>) -> Result<Node, Fault> {
    if text.len() > LARGEST {
        return Err((Place::START, format!("the file is larger than {} MiB", LARGEST >> 20)));
    }
    let text = readable(text);
    let mut builder = Builder { faults, open: vec![], anchors: HashMap::new(), weight: 0, root: None };
    let mut parser = Parser::new_from_str(&text);
    while let Some(step) = parser.next_event() {
        let (event, span) = step.map_err(|error| {
            (place_of(*error.marker()), format!("this is neither YAML nor JSON: {}", error.info()))
        })?;
        builder.take(event, place_of(span.start))?;
    }
    builder.root.filter(|root| !root.is_null()).ok_or_else(|| (Place::START, "the file is empty".into()))
}

fn place_of(marker: Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

/// Puts the parser's events together.
struct Builder<'f> {
    faults: &'f mut Vec<Fault>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    weight: usize,
    root: Option<Node>,
}

/// A list or mapping whose end has not come yet.
struct Open {
    place: Place,
    anchor: usize,
    /// The builder's weight before it.
    before: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        /// Where each key was first.
        lines: HashMap<String, usize>,
        /// From `<<`; the mapping's own keys win over them.
        merged: Vec<Entry>,
        /// Read, its value not yet.
        key: Option<(String, Place)>,
    },
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain || self.is_text(tag.as_deref(), place);
                let before = self.weight;
                self.spend(WEIGHT + text.len(), place)?;
                let node = Node { place, value: Value::Scalar { text: text.into_owned(), quoted } };
                self.close(node, anchor, before)
            }
            Event::SequenceStart(anchor, tag) => {
                self.is_text(tag.as_deref(), place);
                self.open(place, anchor, Inside::List(vec![]))
            }
            Event::MappingStart(anchor, tag) => {
                self.is_text(tag.as_deref(), place);
                let (lines, entries, merged) = (HashMap::new(), vec![], vec![]);
                self.open(place, anchor, Inside::Map { entries, lines, merged, key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let value = match open.inside {
                    Inside::List(items) => Value::List(items),
                    Inside::Map { mut entries, mut lines, merged, .. } => {
                        let new = |entry: &Entry| lines.insert(entry.key.clone(), entry.place.line).is_none();
                        entries.extend(merged.into_iter().filter(new));
                        Value::Map(entries)
                    }
                };
                self.close(Node { place: open.place, value }, open.anchor, open.before)
            }
            Event::Alias(anchor) => {
                let Some((node, weight)) = self.anchors.get(&anchor) else {
                    return Err((place, "this alias stands inside of what it stands for".into()));
                };
                let (node, weight) = (node.clone(), *weight);
                let before = self.weight;
                self.spend(weight, place)?;
                self.close(Node { place, ..node }, 0, before)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err((place, "a second document begins here; one is enough".into()))
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    /// Whether a tag makes a text of a scalar. Tags of other languages have no meaning here.
    fn is_text(&mut self, tag: Option<&Tag>, place: Place) -> bool {
        let Some(tag) = tag else { return false };
        if !tag.is_yaml_core_schema() && !tag.suffix.is_empty() {
            self.faults.push((place, format!("the tag {} has no meaning here", shown(&tag.suffix))));
        }
        !tag.is_yaml_core_schema() || tag.suffix == "str"
    }

    fn spend(&mut self, weight: usize, place: Place) -> Result<(), Fault> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > HEAVIEST {
            return Err((place, "the file holds too many values, or its aliases multiply them".into()));
        }
        Ok(())
    }

    fn open(&mut self, place: Place, anchor: usize, inside: Inside) -> Result<(), Fault> {
        if self.open.len() == DEEPEST {
            return Err((place, format!("nested more than {DEEPEST} deep")));
        }
        let before = self.weight;
        self.spend(WEIGHT, place)?;
        self.open.push(Open { place, anchor, before, inside });
        Ok(())
    }

    /// A node is whole: kept for aliases and put where it belongs.
    fn close(&mut self, node: Node, anchor: usize, before: usize) -> Result<(), Fault> {
        if anchor != 0 {
            let weight = self.weight - before;
            self.spend(weight, node.place)?; // the copy takes room too
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.inside {
            Inside::List(items) => items.push(node),
            Inside::Map { entries, lines, merged, key } => match (key.take(), node) {
                (None, Node { place, value: Value::Scalar { text, .. } }) => *key = Some((text, place)),
                (None, node) => return Err((node.place, "a key must be a single word".into())),
                (Some((word, _)), node) if word == "<<" => merge(node, merged)?,
                (Some((key, place)), value) => {
                    if let Some(line) = lines.get(&key) {
                        self.faults.push((place, twice(&key, *line)));
                    } else {
                        lines.insert(key.clone(), place.line);
                        entries.push(Entry { key, place, value });
                    }
                }
            },
        }
        Ok(())
    }
}

fn twice(key: &str, line: usize) -> String {
    format!("{} is given twice; the first is in line {line}", shown(key))
}

/// Takes over what stands behind `<<`: a mapping, or several of which the first wins.
fn merge(node: Node, merged: &mut Vec<Entry>) -> Result<(), Fault> {
    match node.value {
        Value::Map(entries) => {
            merged.extend(entries);
            Ok(())
        }
        Value::List(maps) => maps.into_iter().try_for_each(|map| merge(map, merged)),
        Value::Scalar { .. } => Err((node.place, "only a mapping can be merged with `<<`".into())),
    }
}
