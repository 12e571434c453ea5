//! Changes to a text: other words for some of its places.

use super::member::{Malformed, Span, Text};
use super::scan::{DEEPEST, Scan};

/// Other text for a place; none cuts it.
pub type Edit = (Span, String);

/// A member of an object, as places in the text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Where the key stands, with its quotes.
    pub key: Span,
    /// Where the value stands.
    pub value: Span,
}

impl Member {
    /// What the key says; `text` is what was read.
    pub fn name<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        text.get(self.key.clone()).and_then(Text::of).unwrap_or_default()
    }
}

/// All members of the object that is `text`, also those that stand there twice, in order.
///
/// # Errors
/// Where `text` is not JSON or no object.
pub fn every_member(text: &str) -> Result<Vec<Member>, Malformed> {
    let mut found = Vec::new();
    Scan::new(text.as_bytes(), DEEPEST).object(|key, value| {
        found.push(Member { key, value });
        Ok(())
    })?;
    Ok(found)
}

/// As [`every_member`], of the object at `at` in `text`: places in `text`. None where there is no object.
pub fn members_of(text: &str, at: Span) -> Vec<Member> {
    let start = at.start;
    let mut found = text.get(at).map_or(Ok(vec![]), every_member).unwrap_or_default();
    for Member { key, value } in &mut found {
        *key = key.start + start..key.end + start;
        *value = value.start + start..value.end + start;
    }
    found
}

/// What to cut so that of `members`, which are all of one object, those are gone that `is_gone` says, and no comma is
/// left over. Each run of members makes one cut.
pub fn cuts(members: &[Member], is_gone: impl Fn(&Member) -> bool) -> Vec<Span> {
    let mut cuts: Vec<Span> = Vec::new();
    let mut last_kept: Option<usize> = None; // where its value ends
    let mut run: Option<Span> = None;
    for member in members {
        if is_gone(member) {
            let start = run.map_or_else(|| last_kept.unwrap_or(member.key.start), |run| run.start);
            run = Some(start..member.value.end);
        } else {
            if let Some(run) = run.take() {
                // At the start of an object the comma after the run goes with it, else the one before it.
                cuts.push(if last_kept.is_some() { run } else { run.start..member.key.start });
            }
            last_kept = Some(member.value.end);
        }
    }
    cuts.extend(run);
    cuts
}

/// `text` with `edits`, whose places must not overlap.
pub fn edited(text: &str, edits: &mut [Edit]) -> String {
    edits.sort_by_key(|(at, _)| (at.start, at.end));
    let mut out = String::with_capacity(text.len() + edits.iter().map(|(_, with)| with.len()).sum::<usize>());
    let mut from = 0;
    for (at, with) in edits.iter() {
        out.push_str(text.get(from..at.start).unwrap_or_default());
        out.push_str(with);
        from = at.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn without(text: &str, gone: &[&str]) -> String {
        let members = every_member(text).unwrap();
        let cuts = cuts(&members, |member| gone.contains(&&*member.name(text)));
        edited(text, &mut cuts.into_iter().map(|at| (at, String::new())).collect::<Vec<_>>())
    }

    #[test]
    fn members_go_with_their_commas() {
        for (text, left) in [
            ("{}", "{}"),
            (r#"{ "a" : 1 }"#, "{  }"),
            (r#"{"a":1,"x":2}"#, r#"{"x":2}"#),
            (r#"{"x":2 , "a":1}"#, r#"{"x":2}"#),
            (r#"{"x":2,"a":1,"y":[],"b":3}"#, r#"{"x":2,"y":[]}"#),
            (r#"{"a":1,"b":2,"x":0,"a":{},"b":3,"y":0}"#, r#"{"x":0,"y":0}"#),
            (r#"{"\u0061":1}"#, "{}"),
        ] {
            assert_eq!(without(text, &["a", "b"]), left, "{text}");
        }
        assert!(every_member("[]").is_err() && every_member("{").is_err());
        assert_eq!(members_of(r#"[{"a":1}]"#, 1..8), [Member { key: 2..5, value: 6..7 }]);
        assert_eq!(members_of("[1]", 1..2), []);
    }

    #[test]
    fn edits_may_meet_but_not_overlap() {
        let mut edits = [(2..3, "C".to_owned()), (1..1, "+".to_owned()), (1..2, String::new())];
        assert_eq!(edited("abcd", &mut edits), "a+Cd");
    }

    proptest! {
        #[test]
        fn what_is_left_is_json(keys in prop::collection::vec("[abxy]", 0..7), gone in prop::collection::vec("[ab]", 0..3)) {
            let text = format!("{{ {} }}", keys.iter().map(|k| format!("\"{k}\" : [1]")).collect::<Vec<_>>().join(" , "));
            let gone: Vec<_> = gone.iter().map(String::as_str).collect();
            let left = without(&text, &gone);
            let names: Vec<_> = every_member(&left).unwrap().iter().map(|m| m.name(&left).into_owned()).collect();
            let kept: Vec<_> = keys.iter().filter(|key| !gone.contains(&key.as_str())).cloned().collect();
            prop_assert_eq!(names, kept);
        }
    }
}
