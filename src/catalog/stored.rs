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
            let cut = if self.cut_of(feature).is_some() { r#","cut":true"# } else { "" };
            out.put_slice(format!("]{ttl}{scope}{cut}}}").as_bytes());
        }
        out.put_slice(format!(r#"],"mirrors":{}}}"#, self.mirrors).as_bytes());
        out.freeze()
    }

    /// What [`write`](Self::write) wrote; `None` where it did not.
    pub fn read(text: &Bytes) -> Option<Self> {
        let whole = std::str::from_utf8(text).ok()?;
        let [lists, mirrors] = members(whole, ["lists", "mirrors"]).ok()?;
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
            let [cut] = members(std::str::from_utf8(&page).ok()?, ["cut"]).ok()?;
            if cut.is_some() {
                listing.note_cut(feature, CUT);
            }
        }
        listing.mirrors = whole.get(mirrors?)?.parse().ok()?;
        Some(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut listing = Listing::read(&Listing::default().write()).unwrap();
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
        listing.note_cut(Feature::Prompt, "some other reason");
        let read = Listing::read(&listing.write()).unwrap();
        assert_eq!(Feature::ALL.map(|kind| read.cut_of(kind).is_some()), [false, true, false, false]);
        assert_eq!(Listing::read(&Listing::default().write()), Some(Listing::default()));
        let text = listing.write();
        for end in 0..text.len() {
            assert_eq!(Listing::read(&text.slice(..end)), None, "{end}");
        }
    }
}
