//! One list of a view, rendered.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::mcp::Feature;

/// A cursor that is none of ours, or of another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such cursor; start again without one")]
pub struct BadCursor;

/// Everything of one kind in a view: the whole result, rendered, and who is who in it.
#[derive(Debug)]
pub(super) struct List {
    feature: Feature,
    /// The result object with all items.
    text: Bytes,
    /// The items by their exposed names, in order.
    items: IndexMap<Box<str>, Listed, RandomState>,
}

/// An item of a list.
#[derive(Debug)]
struct Listed {
    place: Place,
    /// Where it ends in the text.
    end: usize,
}

/// Where an item comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the server in the view.
    pub(super) share: usize,
    /// The number of the item in the server's part.
    pub(super) item: usize,
}

/// Puts a list together.
#[derive(Debug)]
pub(super) struct Writer {
    list: List,
    text: BytesMut,
}

impl Writer {
    pub(super) fn new(feature: Feature) -> Self {
        let text = BytesMut::from(open(feature).as_bytes());
        Self { list: List { feature, text: Bytes::new(), items: IndexMap::default() }, text }
    }

    /// Whether the name is free.
    pub(super) fn is_free(&self, name: &str) -> bool {
        !self.list.items.contains_key(name)
    }

    /// Adds an item under a free name; `write` puts its JSON.
    pub(super) fn add(&mut self, name: Box<str>, place: Place, write: impl FnOnce(&mut BytesMut)) {
        if !self.list.items.is_empty() {
            self.text.put_u8(b',');
        }
        write(&mut self.text);
        self.list.items.insert(name, Listed { place, end: self.text.len() });
    }

    pub(super) fn finish(mut self) -> List {
        self.text.put_slice(CLOSE);
        self.list.text = self.text.freeze();
        self.list
    }
}

impl List {
    /// Where the item called `name` comes from.
    pub(super) fn find(&self, name: &str) -> Option<Place> {
        self.items.get(name).map(|listed| listed.place)
    }

    /// The items in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, Place)> {
        self.items.iter().map(|(name, listed)| (&**name, listed.place))
    }

    /// The whole result.
    pub(super) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The result that has at most `size` items from where `cursor` says.
    pub(super) fn page(&self, cursor: Option<&str>, size: usize) -> Result<Bytes, BadCursor> {
        let from = cursor.map_or(Ok(0), |cursor| self.after(cursor))?;
        let to = self.items.len().min(from.saturating_add(size));
        if from == 0 && to == self.items.len() {
            return Ok(self.text.clone());
        }
        let start =
            from.checked_sub(1).map_or(Some(open(self.feature).len()), |last| Some(self.end(last)? + 1));
        let end = to.checked_sub(1).and_then(|last| self.end(last));
        let items = start.zip(end).and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default();
        let mut page = BytesMut::from(open(self.feature).as_bytes());
        page.put_slice(items);
        if to < self.items.len() {
            page.put_slice(br#"],"nextCursor":""#);
            page.put_slice(self.cursor(to - 1).as_bytes());
            page.put_slice(br#""}"#);
        } else {
            page.put_slice(CLOSE);
        }
        Ok(page.freeze())
    }

    fn end(&self, index: usize) -> Option<usize> {
        Some(self.items.get_index(index)?.1.end)
    }

    /// What asks for the items after the one at `index`: its name, so that a page follows the last one though the list has
    /// changed in between, and its number for when it is no longer there itself.
    fn cursor(&self, index: usize) -> String {
        let name = self.items.get_index(index).map_or("", |(name, _)| name);
        BASE64_URL_SAFE_NO_PAD.encode(format!("v1|{}|{index}|{name}", self.feature.member()))
    }

    /// The number of the first item after `cursor`.
    fn after(&self, cursor: &str) -> Result<usize, BadCursor> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| BadCursor)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| BadCursor)?;
        let mut parts = text.splitn(4, '|');
        let (version, kind) = (parts.next(), parts.next());
        if version != Some("v1") || kind != Some(self.feature.member()) {
            return Err(BadCursor);
        }
        let index: usize = parts.next().and_then(|index| index.parse().ok()).ok_or(BadCursor)?;
        let name = parts.next().ok_or(BadCursor)?;
        // Without it, what followed it has moved up into its place.
        let next = self.items.get_index_of(name).map_or(index, |at| at + 1);
        Ok(next.min(self.items.len()))
    }
}

fn open(feature: Feature) -> &'static str {
    match feature {
        Feature::Tool => r#"{"tools":["#,
        Feature::Prompt => r#"{"prompts":["#,
        Feature::Resource => r#"{"resources":["#,
        Feature::Template => r#"{"resourceTemplates":["#,
    }
}

const CLOSE: &[u8] = b"]}";

/// The result of a list without items.
pub(super) fn empty(feature: Feature) -> Bytes {
    Writer::new(feature).finish().text
}
