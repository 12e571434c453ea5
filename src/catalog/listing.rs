//! What one server says it has.

use std::collections::HashSet;

use bytes::Bytes;

use super::item::Item;
use super::keeping::Keeping;
use crate::mcp::Feature;
use crate::wire::{Malformed, Span, elements, members};

/// What one server has, as it gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    lists: [Vec<Item>; 4],
    keeping: [Keeping; 4],
    /// Calls of its tools repeat arguments in headers, as tools ask for it: one that asks in a wrong way is of no use.
    pub mirrors: bool,
    lacking: [Lacking; 4],
}

/// What is not in one kind's list although the server has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lacking {
    cut: Option<&'static str>,
    dropped: Dropped,
}

impl Listing {
    /// All of one kind, in the server's own order, without twins.
    pub fn of(&self, feature: Feature) -> &[Item] {
        self.lists.get(feature.index()).map_or(&[], Vec::as_slice)
    }

    /// For how long, and for whom, all of one kind may be kept.
    pub fn keeping(&self, feature: Feature) -> Keeping {
        self.keeping.get(feature.index()).copied().unwrap_or_default()
    }

    /// Why not everything the server has is here, if so.
    pub fn cut(&self) -> Option<&'static str> {
        self.lacking.iter().find_map(|lacking| lacking.cut)
    }

    /// Why not everything of one kind is here, if so.
    pub(super) fn cut_of(&self, feature: Feature) -> Option<&'static str> {
        self.lacking.get(feature.index())?.cut
    }

    /// Not everything of one kind is here.
    pub(super) fn note_cut(&mut self, feature: Feature, why: &'static str) {
        if let Some(lacking) = self.lacking.get_mut(feature.index()) {
            lacking.cut = Some(why);
        }
    }

    /// What is left out.
    pub fn dropped(&self) -> Dropped {
        let all = self.lacking.iter().map(|lacking| lacking.dropped);
        all.fold(Dropped::default(), |sum, one| Dropped {
            bad: sum.bad + one.bad,
            twins: sum.twins + one.twins,
        })
    }

    /// Takes all of one kind from `other`, and what is lacking there.
    pub fn take(&mut self, feature: Feature, mut other: Self) {
        let at = feature.index();
        if let (Some(ours), Some(theirs)) = (self.lists.get_mut(at), other.lists.get_mut(at)) {
            *ours = std::mem::take(theirs);
        }
        if let (Some(ours), Some(theirs)) = (self.keeping.get_mut(at), other.keeping.get(at)) {
            *ours = *theirs;
        }
        if let (Some(ours), Some(theirs)) = (self.lacking.get_mut(at), other.lacking.get(at)) {
            *ours = *theirs;
        }
    }
}

/// What of a listing is left out since it would be of no use, or break the whole list for strict clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Items without a name, or with a schema that is no object.
    pub bad: usize,
    /// Items with the name of another.
    pub twins: usize,
}

impl Dropped {
    /// All of them.
    pub fn count(self) -> usize {
        self.bad + self.twins
    }
}

/// How much one server may list; beyond it the listing is cut, and says so.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Pages.
    pub pages: usize,
    /// Items of a kind.
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
#[derive(Debug)]
pub struct Pages {
    feature: Feature,
    listing: Listing,
    names: HashSet<Box<str>>,
    cursors: HashSet<String>,
    seen: usize,
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
    /// For lists of this kind.
    pub fn new(feature: Feature) -> Self {
        Self {
            feature,
            listing: Listing::default(),
            names: HashSet::new(),
            cursors: HashSet::new(),
            seen: 0,
            bytes: 0,
        }
    }

    /// Takes the result of one list request in.
    ///
    /// # Errors
    /// Where the result is no list. A single bad item is passed over.
    pub fn add(&mut self, result: &Bytes, budget: Budget) -> Result<Turn, Malformed> {
        let text = std::str::from_utf8(result).map_err(|e| Malformed::NotJson(e.to_string()))?;
        let keys = [self.feature.member(), "nextCursor", "ttlMs", "cacheScope"];
        let [list, cursor, ttl, scope] = members(text, keys)?;
        let raw = |span: Option<Span>| text.get(span?);
        let lacking = || Malformed::NotRpc(format!("the result has no `{}`", self.feature.member()).into());
        let list = list.ok_or_else(lacking)?;
        self.seen += 1;
        self.note(Keeping::parse(raw(ttl), raw(scope)));
        for span in elements(text.get(list.clone()).unwrap_or_default())? {
            let item = result.slice(span.start + list.start..span.end + list.start);
            if self.names.len() >= budget.items {
                self.cut("more items than the limit");
                return Ok(Turn::Done);
            }
            self.bytes += item.len();
            if self.bytes > budget.bytes {
                self.cut("more bytes than the limit");
                return Ok(Turn::Done);
            }
            match Item::parse(&item, self.feature).filter(Item::is_sound) {
                Some(item) if self.names.insert(item.name.clone()) => self.items().push(item),
                Some(_) => self.lack(|lacking| lacking.dropped.twins += 1),
                None => self.lack(|lacking| lacking.dropped.bad += 1),
            }
        }
        Ok(self.turn(raw(cursor), budget))
    }

    /// What was gathered until there was no more time.
    pub fn out_of_time(mut self) -> Listing {
        self.cut("more pages than came in time");
        self.listing
    }

    /// What was gathered.
    pub fn finish(self) -> Listing {
        self.listing
    }

    fn cut(&mut self, why: &'static str) {
        self.lack(|lacking| lacking.cut = Some(why));
    }

    fn lack(&mut self, note: impl FnOnce(&mut Lacking)) {
        if let Some(lacking) = self.listing.lacking.get_mut(self.feature.index()) {
            note(lacking);
        }
    }

    /// What a page says of its keeping holds for all of them.
    fn note(&mut self, page: Keeping) {
        if let Some(keeping) = self.listing.keeping.get_mut(self.feature.index()) {
            *keeping = keeping.and(page);
        }
    }

    fn items(&mut self) -> &mut Vec<Item> {
        let [tools, prompts, resources, templates] = &mut self.listing.lists;
        match self.feature {
            Feature::Tool => tools,
            Feature::Prompt => prompts,
            Feature::Resource => resources,
            Feature::Template => templates,
        }
    }

    fn turn(&mut self, cursor: Option<&str>, budget: Budget) -> Turn {
        let Some(cursor) = cursor.filter(|raw| *raw != "null") else { return Turn::Done };
        if !self.cursors.insert(cursor.to_owned()) {
            self.cut("the server repeats a cursor");
            return Turn::Done;
        }
        if self.seen >= budget.pages {
            self.cut("more pages than the limit");
            return Turn::Done;
        }
        Turn::Next(cursor.to_owned())
    }
}
