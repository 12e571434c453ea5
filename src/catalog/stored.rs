//! A listing as a text that outlives the process.

use bytes::{BufMut, Bytes, BytesMut};

use super::listing::{Budget, Listing, Pages};
use crate::mcp::Feature;
use crate::wire::{elements, members};

/// Why a listing that was kept is not whole: when it was kept it was not.
const CUT: &str = "it was cut already when it was kept";

impl Listing {
    /// As JSON: for each kind what its server would answer to list it on one page.
    pub fn write(&self) -> Bytes {
        let mut out = BytesMut::from(&br#"{"lists":["#[..]);
        for (number, feature) in Feature::ALL.into_iter().enumerate() {
            let keeping = self.keeping(feature);
            let comma = if number > 0 { "," } else { "" };
            out.put_slice(format!(r#"{comma}{{"{}":["#, feature.member()).as_bytes());
            for (number, item) in self.of(feature).iter().enumerate() {
                if number > 0 {
                    out.put_u8(b',');
                }
                item.write(&mut out, &mut []);
            }
            let ttl = keeping.ttl_ms.map(|ttl| format!(r#","ttlMs":{ttl}"#)).unwrap_or_default();
            let scope = if keeping.private { r#","cacheScope":"private""# } else { "" };
            out.put_slice(format!("]{ttl}{scope}}}").as_bytes());
        }
        out.put_slice(format!(r#"],"mirrors":{},"cut":{}}}"#, self.mirrors, self.cut().is_some()).as_bytes());
        out.freeze()
    }

    /// What [`write`](Self::write) wrote; `None` where it did not.
    pub fn read(text: &Bytes) -> Option<Self> {
        let whole = std::str::from_utf8(text).ok()?;
        let [lists, mirrors, cut] = members(whole, ["lists", "mirrors", "cut"]).ok()?;
        let lists = lists?;
        let places = elements(whole.get(lists.clone())?).ok()?;
        if places.len() != Feature::ALL.len() {
            return None;
        }
        let mut listing = Self::default();
        for (feature, at) in Feature::ALL.into_iter().zip(places) {
            let mut pages = Pages::new(feature);
            let page = text.slice(at.start + lists.start..at.end + lists.start);
            pages.add(&page, Budget::default()).ok()?;
            listing.take(feature, pages.finish());
        }
        let says = |at: Option<crate::wire::Span>| whole.get(at?)?.parse::<bool>().ok();
        listing.mirrors = says(mirrors)?;
        if says(cut)? {
            listing.note_cut(CUT);
        }
        Some(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut listing = Listing::default();
        listing.mirrors = true;
        for (feature, page) in [
            (
                Feature::Tool,
                "{\"tools\":[{\"name\":\"a\",\n \"x\":1.0},{\"name\":\"é\\u0000\",\"inputSchema\":{}}],\"ttlMs\":5}",
            ),
            (Feature::Prompt, r#"{"prompts":[]}"#),
            (Feature::Resource, r#"{"resources":[{"uri":"a:b","name":"n"}],"cacheScope":"private"}"#),
            (Feature::Template, r#"{"resourceTemplates":[{"uriTemplate":"a:{b}"}]}"#),
        ] {
            let mut pages = Pages::new(feature);
            pages.add(&page.into(), Budget::default()).unwrap();
            listing.take(feature, pages.finish());
        }
        assert_eq!(Listing::read(&listing.write()), Some(listing.clone()));
        listing.note_cut("some other reason");
        assert!(Listing::read(&listing.write()).unwrap().cut().is_some());
        assert_eq!(Listing::read(&Listing::default().write()), Some(Listing::default()));
        let text = listing.write();
        for end in 0..text.len() {
            assert_eq!(Listing::read(&text.slice(..end)), None, "{end}");
        }
    }
}
