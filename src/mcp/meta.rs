//! Keys of `_meta`, and how they get in and out of a text.

use crate::wire::{Edit, Member, Span, cuts, members_of};

/// Which revision a request speaks (specification of 2026-07-28, `basic/index`, as the next four).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// From which level on the client wants this request's log messages.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is, in results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the listen request whose stream a message belongs to (2026-07-28, `basic/patterns/subscriptions`).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25, `basic/utilities/tasks`).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Which of the servers behind us a result comes from: ours.
pub const VIA: &str = "trunkline/server";
/// What the keys begin with that are the protocol's own.
pub const RESERVED: &str = "io.modelcontextprotocol/";

/// What becomes of an object that may have a `_meta`.
#[derive(Default)]
pub(super) struct Rewrite<'a> {
    /// The members of it that go.
    pub(super) drop: &'a [&'a str],
    /// The members to put in, raw.
    pub(super) put: String,
    /// The members of its `_meta` that go.
    pub(super) drop_meta: Option<&'a dyn Fn(&str) -> bool>,
    /// The members to put into its `_meta`, raw.
    pub(super) put_meta: String,
    /// Whether a `_meta` that is empty then goes as well.
    pub(super) drop_empty: bool,
}

impl Rewrite<'_> {
    /// The edits for the object at `at` in `text`; none where there is no object. What stands there twice goes twice.
    pub(super) fn edits(&self, text: &str, at: Span) -> Vec<Edit> {
        let inside = at.start + 1;
        if text.get(at.clone()).is_none_or(|object| !object.starts_with('{')) {
            return vec![];
        }
        let members = members_of(text, at);
        let (mut edits, mut gone) = (Vec::new(), Vec::new());
        let mut put_meta = self.put_meta.as_str();
        for (n, member) in members.iter().enumerate() {
            let name = member.name(text);
            if self.drop.contains(&&*name) {
                gone.push(n);
            } else if name == "_meta" {
                match self.meta(text, &member.value, put_meta) {
                    Some(inner) => edits.extend(inner),
                    None => gone.push(n),
                }
                put_meta = "";
            }
        }
        let mut put = self.put.clone();
        if !put_meta.is_empty() {
            put = joined(&put, &format!(r#""_meta":{{{put_meta}}}"#));
        }
        if !put.is_empty() {
            let comma = if gone.len() < members.len() { "," } else { "" };
            edits.push((inside..inside, put + comma));
        }
        let is_gone = |member: &Member| gone.iter().any(|n| members.get(*n) == Some(member));
        edits.extend(cuts(&members, is_gone).into_iter().map(|at| (at, String::new())));
        edits
    }

    /// The edits for the `_meta` at `at`; `None` where it goes.
    fn meta(&self, text: &str, at: &Span, put: &str) -> Option<Vec<Edit>> {
        let is_object = text.get(at.clone()).is_some_and(|raw| raw.starts_with('{'));
        if !is_object {
            return Some(if put.is_empty() { vec![] } else { vec![(at.clone(), format!("{{{put}}}"))] });
        }
        let members = members_of(text, at.clone());
        let is_gone = |member: &Member| self.drop_meta.is_some_and(|drop| drop(&member.name(text)));
        let kept = members.iter().any(|member| !is_gone(member));
        if self.drop_empty && !kept && !members.is_empty() && put.is_empty() {
            return None;
        }
        let mut edits = Vec::new();
        if !put.is_empty() {
            let comma = if kept { "," } else { "" };
            edits.push((at.start + 1..at.start + 1, format!("{put}{comma}")));
        }
        edits.extend(cuts(&members, is_gone).into_iter().map(|at| (at, String::new())));
        Some(edits)
    }
}

/// Raw members, one after the other.
pub(super) fn joined(one: &str, other: &str) -> String {
    let comma = if one.is_empty() || other.is_empty() { "" } else { "," };
    format!("{one}{comma}{other}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::edited;

    #[test]
    fn members_go_and_come_on_both_levels() {
        let drop_meta = |key: &str| key.starts_with('x');
        let rewrite = |put: &str, put_meta: &str, drop_empty| Rewrite {
            drop: &["a"],
            put: put.into(),
            drop_meta: Some(&drop_meta),
            put_meta: put_meta.into(),
            drop_empty,
        };
        for (put, put_meta, text, left) in [
            ("", "", r#"{"a":1,"b":2}"#, r#"{"b":2}"#),
            ("", "", r#"{"a":1,"_meta":{"x":1},"b":2}"#, r#"{"b":2}"#),
            ("", "", r#"{"_meta":{"x":1,"y":2},"a":1}"#, r#"{"_meta":{"y":2}}"#),
            ("", "", r#"{"_meta":{}}"#, r#"{"_meta":{}}"#),
            (r#""n":0"#, "", "{}", r#"{"n":0}"#),
            (r#""n":0"#, "", r#"{"a":1}"#, r#"{"n":0}"#),
            (r#""n":0"#, r#""m":0"#, r#"{"a":1,"b":2}"#, r#"{"n":0,"_meta":{"m":0},"b":2}"#),
            ("", r#""m":0"#, r#"{"_meta":null}"#, r#"{"_meta":{"m":0}}"#),
            ("", r#""m":0"#, r#"{"_meta":{"x":1}}"#, r#"{"_meta":{"m":0}}"#),
            (
                "",
                r#""m":0"#,
                r#"{"_meta":{"x":1,"y":2},"_meta":{"x":3,"z":4}}"#,
                r#"{"_meta":{"m":0,"y":2},"_meta":{"z":4}}"#,
            ),
        ] {
            let mut edits = rewrite(put, put_meta, true).edits(text, 0..text.len());
            assert_eq!(edited(text, &mut edits), left, "{text}");
        }
        let text = r#"[{"_meta":{"x":1}}]"#;
        assert_eq!(edited(text, &mut rewrite("", "", false).edits(text, 1..18)), r#"[{"_meta":{}}]"#);
        assert_eq!(rewrite("", r#""m":0"#, true).edits("null", 0..4), []);
    }
}
