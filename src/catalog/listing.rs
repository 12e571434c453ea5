//! What one server says it has.

use std::collections::HashSet;

use bytes::Bytes;

use crate::wire::{Malformed, Span, Text, elements, members};

/// One server's tools, as it gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the server's own order, without twins.
    pub tools: Vec<Item>,
    /// Why not everything the server has is here, if so.
    pub cut: Option<&'static str>,
}

/// One tool: the server's own JSON and where its name and description stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The server's own name.
    pub name: Box<str>,
    pub(super) text: Bytes,
    pub(super) name_at: Span,
    pub(super) description_at: Option<Span>,
}

/// How much one server may list; beyond it the listing is cut, and says so.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Pages.
    pub pages: usize,
    /// Tools.
    pub items: usize,
    /// Bytes of their JSON.
    pub bytes: usize,
}

impl Default for Budget {
    /// Far above what any model can use, far below what hurts us.
    fn default() -> Self {
        Self { pages: 100, items: 5_000, bytes: 16 << 20 }
    }
}

/// Gathers a listing page by page.
#[derive(Debug, Default)]
pub struct Pages {
    listing: Listing,
    names: HashSet<Box<str>>,
    cursors: HashSet<String>,
    pages: usize,
    bytes: usize,
}

/// What to do after a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// Ask for the page at this cursor, raw JSON.
    Next(String),
    /// That was all, or all that the budget takes.
    Done,
}

impl Pages {
    /// Takes the result of one list request in.
    ///
    /// # Errors
    /// Where the result is no list. A single bad item is passed over.
    pub fn add(&mut self, result: &Bytes, budget: Budget) -> Result<Turn, Malformed> {
        let text = std::str::from_utf8(result).map_err(|e| Malformed::NotJson(e.to_string()))?;
        let [tools, cursor] = members(text, ["tools", "nextCursor"])?;
        let tools = tools.ok_or(Malformed::NotRpc("the result has no `tools`".into()))?;
        self.pages += 1;
        for span in elements(text.get(tools.clone()).unwrap_or_default())? {
            let item = result.slice(span.start + tools.start..span.end + tools.start);
            if self.listing.tools.len() >= budget.items {
                self.listing.cut = Some("more tools than the limit");
                return Ok(Turn::Done);
            }
            self.bytes += item.len();
            if self.bytes > budget.bytes {
                self.listing.cut = Some("more bytes than the limit");
                return Ok(Turn::Done);
            }
            if let Some(item) = Item::parse(&item).filter(|item| self.names.insert(item.name.clone())) {
                self.listing.tools.push(item);
            }
        }
        Ok(self.turn(cursor.and_then(|span| text.get(span)), budget))
    }

    /// What was gathered.
    pub fn finish(self) -> Listing {
        self.listing
    }

    fn turn(&mut self, cursor: Option<&str>, budget: Budget) -> Turn {
        let Some(cursor) = cursor.filter(|raw| *raw != "null") else { return Turn::Done };
        if !self.cursors.insert(cursor.to_owned()) {
            self.listing.cut = Some("the server repeats a cursor");
            return Turn::Done;
        }
        if self.pages >= budget.pages {
            self.listing.cut = Some("more pages than the limit");
            return Turn::Done;
        }
        Turn::Next(cursor.to_owned())
    }
}

impl Item {
    fn parse(raw: &Bytes) -> Option<Self> {
        let text = std::str::from_utf8(raw).ok()?;
        let [name, description] = members(text, ["name", "description"]).ok()?;
        let name_at = name?;
        let name = Text::of(text.get(name_at.clone())?)?.into();
        // A copy of its own: a slice would keep the whole page alive.
        Some(Self { name, text: Bytes::copy_from_slice(raw), name_at, description_at: description })
    }
}
