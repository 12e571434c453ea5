//! One list of a view, and how it reads to whom.

use std::borrow::Cow;
use std::sync::OnceLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::audience::Audience;
use crate::mcp::Feature;

/// A cursor that is none of ours, or of another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such cursor; start again without one")]
pub struct BadCursor;

/// From where on a list is wanted, and by whom: a cursor is good for those only to whom it was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start<'a> {
    /// What the client brought.
    pub cursor: Option<&'a str>,
    /// Its principal's text, if it has one.
    pub principal: Option<&'a str>,
}

/// Everything of one kind in a view: who is who, and the results that list it.
#[derive(Debug)]
pub(super) struct List {
    feature: Feature,
    /// The items by their exposed names, in order.
    items: IndexMap<Box<str>, Place, RandomState>,
    /// What of an audience makes a difference here.
    varies: Audience,
    /// By [`slot`]. Made when first asked for: most views have one kind of readers, or none.
    texts: [OnceLock<Rendered>; SLOTS],
}

/// Where an item comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the server in the view.
    pub(super) share: usize,
    /// The number of the item in the server's part.
    pub(super) item: usize,
}

/// The result object that some audience gets.
#[derive(Debug)]
pub(super) struct Rendered {
    text: Bytes,
    rows: Vec<Row>,
}

/// An item in a result.
#[derive(Debug)]
struct Row {
    /// Its number among all.
    item: usize,
    /// Where it ends in the text.
    end: usize,
}

/// Kinds of audiences.
const SLOTS: usize = 4;

fn slot(audience: Audience) -> usize {
    usize::from(audience.modern) | usize::from(audience.ui) << 1
}

impl List {
    pub(super) fn new(feature: Feature) -> Self {
        Self { feature, items: IndexMap::default(), varies: Audience::default(), texts: Default::default() }
    }

    /// Whether the name is free.
    pub(super) fn is_free(&self, name: &str) -> bool {
        !self.items.contains_key(name)
    }

    /// Adds an item under a free name. Its text, or whether it is shown, `varies` so with the audience.
    pub(super) fn add(&mut self, name: Box<str>, place: Place, varies: Audience) {
        self.items.insert(name, place);
        self.varies.modern |= varies.modern;
        self.varies.ui |= varies.ui;
    }

    /// Where the item called `name` comes from.
    pub(super) fn find(&self, name: &str) -> Option<Place> {
        self.items.get(name).copied()
    }

    /// The items in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, Place)> {
        self.items.iter().map(|(name, place)| (&**name, *place))
    }

    /// What `audience` gets, if that is made already.
    pub(super) fn rendered(&self, audience: Audience) -> Option<&Rendered> {
        self.text(audience).get()
    }

    /// Makes what `audience` gets; `write` puts the JSON of an item, or says that there is none for this audience.
    pub(super) fn render(
        &self,
        audience: Audience,
        write: impl Fn(&str, Place, &mut BytesMut) -> bool,
    ) -> &Rendered {
        self.text(audience).get_or_init(|| self.written(write))
    }

    /// One for all audiences that read the same.
    fn text(&self, audience: Audience) -> &OnceLock<Rendered> {
        let [first, ..] = &self.texts;
        let modern = audience.modern & self.varies.modern;
        self.texts.get(slot(Audience { modern, ui: audience.ui & self.varies.ui })).unwrap_or(first)
    }

    /// The audiences for which there is a text.
    pub(super) fn readers(&self) -> impl Iterator<Item = Audience> {
        let both = [false, true];
        let all = both.into_iter().flat_map(move |ui| both.map(|modern| Audience { modern, ui }));
        all.filter(|audience| self.texts.get(slot(*audience)).is_some_and(|text| text.get().is_some()))
    }

    fn written(&self, write: impl Fn(&str, Place, &mut BytesMut) -> bool) -> Rendered {
        let mut text = BytesMut::from(open(self.feature).as_bytes());
        let mut rows = Vec::with_capacity(self.items.len());
        for (item, (name, place)) in self.items.iter().enumerate() {
            let before = text.len();
            if !rows.is_empty() {
                text.put_u8(b',');
            }
            if write(name, *place, &mut text) {
                rows.push(Row { item, end: text.len() });
            } else {
                text.truncate(before);
            }
        }
        text.put_slice(CLOSE);
        Rendered { text: text.freeze(), rows }
    }

    /// The result of `all` that has at most `size` items from there on.
    pub(super) fn page(&self, all: &Rendered, start: Start<'_>, size: usize) -> Result<Bytes, BadCursor> {
        let whose = start.principal;
        let next = start.cursor.map_or(Ok(0), |cursor| self.after(cursor, whose))?;
        let from = all.rows.partition_point(|row| row.item < next);
        let to = all.rows.len().min(from.saturating_add(size));
        if from == 0 && to == all.rows.len() {
            return Ok(all.text.clone());
        }
        let end = |row: usize| all.rows.get(row).map(|row| row.end);
        let start = from.checked_sub(1).map_or(Some(open(self.feature).len()), |last| Some(end(last)? + 1));
        let last = to.checked_sub(1).and_then(|last| all.rows.get(last));
        let items = start.zip(last).and_then(|(start, last)| all.text.get(start..last.end));
        let mut page = BytesMut::from(open(self.feature).as_bytes());
        page.put_slice(items.unwrap_or_default());
        match last.filter(|_| to < all.rows.len()) {
            Some(last) => {
                page.put_slice(br#"],"nextCursor":""#);
                page.put_slice(self.cursor(last.item, whose).as_bytes());
                page.put_slice(br#""}"#);
            }
            None => page.put_slice(CLOSE),
        }
        Ok(page.freeze())
    }

    /// What asks for the items after the one at `index`: its name, so that a page follows the last one though the list has
    /// changed in between, and its number for when it is no longer there itself.
    fn cursor(&self, index: usize, whose: Option<&str>) -> String {
        let name = self.items.get_index(index).map_or("", |(name, _)| name);
        BASE64_URL_SAFE_NO_PAD.encode(format!("{}|{}|{index}|{name}", version(whose), self.feature.member()))
    }

    /// The number of the first item after `cursor`.
    fn after(&self, cursor: &str, whose: Option<&str>) -> Result<usize, BadCursor> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| BadCursor)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| BadCursor)?;
        let mut parts = text.splitn(4, '|');
        let (version, kind) = (parts.next(), parts.next());
        if version != Some(&*self::version(whose)) || kind != Some(self.feature.member()) {
            return Err(BadCursor);
        }
        let index: usize = parts.next().and_then(|index| index.parse().ok()).ok_or(BadCursor)?;
        let name = parts.next().ok_or(BadCursor)?;
        // Without it, what followed it has moved up into its place.
        let next = self.items.get_index_of(name).map_or(index, |at| at + 1);
        Ok(next.min(self.items.len()))
    }
}

/// What cursors begin with: their form, and for whom they are.
fn version(whose: Option<&str>) -> Cow<'static, str> {
    let Some(whose) = whose else { return Cow::Borrowed("v1") };
    let hash = digest(&SHA256, whose.as_bytes());
    Cow::Owned(format!("v1.{}", BASE64_URL_SAFE_NO_PAD.encode(hash.as_ref().get(..9).unwrap_or_default())))
}

impl Rendered {
    /// The whole result.
    pub(super) fn text(&self) -> &Bytes {
        &self.text
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
    [open(feature).as_bytes(), CLOSE].concat().into()
}
