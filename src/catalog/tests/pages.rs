//! Lists in pages.

use proptest::prelude::*;

use super::*;

/// A catalog of one server with these tools, in pages of `size`.
fn paged(names: &[String], size: usize) -> Catalog {
    let all: Vec<_> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
    let all = format!("[{}]", all.join(","));
    let (config, parts) = world(vec![(server("a"), &[(Feature::Tool, &all)])]);
    Catalog::build(&Config { page_size: Some(size), ..config }, parts, &Catalog::default())
}

/// The names on a page, and the cursor of the next.
fn page(catalog: &Catalog, cursor: Option<&str>) -> (Vec<String>, Option<String>) {
    let text = catalog.list(&one("a"), Feature::Tool, Audience::default(), start(cursor)).unwrap();
    let page: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let name = |tool: &serde_json::Value| tool["name"].as_str().unwrap().to_owned();
    let names = page["tools"].as_array().unwrap().iter().map(name).collect();
    (names, page.get("nextCursor").map(|cursor| cursor.as_str().unwrap().to_owned()))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

proptest! {
    #[test]
    fn pages_together_are_the_list(count in 0..30_usize, size in 1..12_usize) {
        let all: Vec<_> = (0..count).map(|n| format!("{}\u{e9}|{n}", n * 7 % 10)).collect();
        let catalog = paged(&all, size);
        let (mut seen, mut cursor, mut pages) = (vec![], None, 0);
        loop {
            let (names, next) = page(&catalog, cursor.as_deref());
            prop_assert!(names.len() == size || (names.len() < size && next.is_none()));
            seen.extend(names);
            pages += 1;
            match next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        prop_assert_eq!(seen, all);
        prop_assert_eq!(pages, count.div_ceil(size).max(1));
    }
}

#[test]
fn a_cursor_outlives_changes() {
    let (first, cursor) = page(&paged(&names(&["a", "b", "c", "d", "e"]), 2), None);
    assert_eq!(first, ["a", "b"]);
    let cursor = cursor.as_deref();
    for (now, next) in [
        (&["a", "b", "c", "d", "e"][..], &["c", "d"][..]),
        (&["x", "y", "a", "b", "z", "c"], &["z", "c"]),
        (&["b", "d"], &["d"]),
        (&["a", "c", "d", "e"], &["c", "d"]), // `b` itself is gone
        (&["c", "b"], &[]),
        (&[], &[]),
    ] {
        assert_eq!(page(&paged(&names(now), 2), cursor).0, next, "{now:?}");
    }
    assert_eq!(
        page(&paged(&names(&["a", "b", "c", "d"]), 9), cursor),
        (names(&["c", "d"]), None),
        "longer pages"
    );
}

#[test]
fn a_cursor_of_another_list_or_of_nobody_is_refused() {
    let catalog = paged(&names(&["a", "b"]), 1);
    let (_, cursor) = page(&catalog, None);
    let cursor = cursor.unwrap();
    assert!(catalog.list(&one("a"), Feature::Tool, Audience::default(), start(Some(&cursor))).is_ok());
    assert_eq!(
        catalog.list(&one("a"), Feature::Prompt, Audience::default(), start(Some(&cursor))),
        Err(BadCursor)
    );
    assert_eq!(
        catalog.list(&one("nobody"), Feature::Tool, Audience::default(), start(Some(&cursor))),
        Err(BadCursor)
    );
    for garbage in
        ["", "x", "djE", "djF8dG9vbHM", "djF8dG9vbHN8YXxi", cursor.get(1..).unwrap(), &"A".repeat(100_000)]
    {
        assert_eq!(
            catalog.list(&one("a"), Feature::Tool, Audience::default(), start(Some(garbage))),
            Err(BadCursor),
            "{garbage:.20}"
        );
    }
}

#[test]
fn without_a_page_size_a_list_is_one_page() {
    let (config, parts) = world(vec![(server("a"), &[(Feature::Tool, r#"[{"name":"a"},{"name":"b"}]"#)])]);
    let catalog = Catalog::build(&config, parts, &Catalog::default());
    assert_eq!(page(&catalog, None), (names(&["a", "b"]), None));
    let (_, cursor) = page(&paged(&names(&["a", "b"]), 1), None);
    assert_eq!(page(&catalog, cursor.as_deref()), (names(&["b"]), None), "one from before a reload");
}

#[test]
fn a_cursor_is_good_for_those_only_to_whom_it_was_given() {
    let catalog = paged(&names(&["a", "b"]), 1);
    let list = |cursor: Option<&str>, principal: Option<&str>| {
        catalog.list(&one("a"), Feature::Tool, Audience::default(), Start { cursor, principal })
    };
    let cursor = |principal: Option<&str>| {
        let page: serde_json::Value = serde_json::from_slice(&list(None, principal).unwrap()).unwrap();
        page["nextCursor"].as_str().unwrap().to_owned()
    };
    let all = [None, Some("keys alice"), Some("keys bob")];
    for (giver, taker) in all.into_iter().flat_map(|giver| all.map(|taker| (giver, taker))) {
        let taken = list(Some(&cursor(giver)), taker);
        assert_eq!(taken.is_ok(), giver == taker, "{giver:?} {taker:?}");
    }
}
