//! The directories that a server is told of.

use std::path::Path;

use url::Url;

use super::keys::ROOT;
use super::node::{Node, Value};
use super::reader::{Fields, Reader};

/// A directory that a server is told of (specification, `client/roots`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

/// Paths or `file://` URIs, by themselves or with a name. Relative paths start at the file's folder.
pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Vec<Root> {
    let Some(node) = fields.get("roots") else { return vec![] };
    let name = fields.name("roots");
    let Value::List(items) = &node.value else {
        reader.error(node.place, format!("{name} must be a list, not {}", node.kind()));
        return vec![];
    };
    let item = format!("an item of {name}");
    items.iter().filter_map(|node| root(reader, node, &item)).collect()
}

fn root(reader: &mut Reader<'_>, node: &Node, item: &str) -> Option<Root> {
    if !matches!(node.value, Value::Map(_)) {
        return Some(Root { uri: uri(reader, node, item)?, name: None });
    }
    let inner = reader.fields(node, ROOT, item, &format!(" of {item}"))?;
    reader.warn_unknown(&inner, ROOT);
    let name = reader.text(&inner, "name");
    let Some(node) = inner.get("uri") else {
        reader.error(inner.place, format!("{item} needs a `uri`"));
        return None;
    };
    Some(Root { uri: uri(reader, node, &inner.name("uri"))?, name })
}

fn uri(reader: &mut Reader<'_>, node: &Node, name: &str) -> Option<String> {
    let text = reader.filled(node, name)?.value;
    let uri = written(text.trim(), reader.source().directory);
    if uri.is_none() {
        reader.error(node.place, format!("{name} must be a path, or a URI that begins with file://"));
    }
    uri
}

fn written(text: &str, directory: &Path) -> Option<String> {
    if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
        return Url::parse(text).ok().map(String::from);
    }
    if text.is_empty() || text.contains("://") || text.contains('\0') {
        return None;
    }
    let url = Url::from_file_path(directory.join(text)).ok()?;
    Url::parse(url.as_str()).ok().map(String::from) // without `..`
}
