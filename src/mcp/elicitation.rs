//! Forms in the words of 2025-06-18 (`client/elicitation` of that revision): no defaults but those of booleans, choices
//! as `enum` with `enumNames`, and of each choice one.

use super::client::Unable;
use super::meta::Rewrite;
use super::project::{blocks, kind};
use crate::wire::{Edit, Span, Text, members, members_of};

/// Whether the raw `params` of an elicitation send the user to a page.
pub(super) fn url_mode(params: &str) -> bool {
    let mode = members(params, ["mode"]).ok().and_then(|[mode]| params.get(mode?));
    mode.and_then(Text::of).as_deref() == Some("url")
}

/// The edits that make the form in the raw `params` one of 2025-06-18.
pub(super) fn older_schema(params: &str) -> Result<Vec<Edit>, Unable> {
    let Some(schema) = found(params, 0..params.len(), "requestedSchema") else { return Ok(vec![]) };
    let dialect = Rewrite { drop: &["$schema"], ..Rewrite::default() };
    let mut edits = dialect.edits(params, schema.clone());
    let properties = found(params, schema, "properties");
    for property in properties.map_or(vec![], |at| members_of(params, at)) {
        edits.extend(older_property(params, property.value)?);
    }
    Ok(edits)
}

/// Where the member `key` of the object at `at` stands.
fn found(text: &str, at: Span, key: &str) -> Option<Span> {
    members_of(text, at).into_iter().find(|member| member.name(text) == key).map(|member| member.value)
}

fn older_property(params: &str, at: Span) -> Result<Vec<Edit>, Unable> {
    let kind = kind(params, &at);
    if kind == "array" {
        return Err(Unable("choices of several values"));
    }
    let mut drop: Vec<&str> = if kind == "boolean" { vec![] } else { vec!["default"] };
    let mut put = String::new();
    if let Some(choices) = found(params, at.clone(), "oneOf") {
        let of = |key| {
            let raw = |choice| params.get(found(params, choice, key)?);
            blocks(params, choices.clone()).into_iter().filter_map(raw).collect::<Vec<_>>().join(",")
        };
        put = format!(r#""enum":[{}],"enumNames":[{}]"#, of("const"), of("title"));
        drop.push("oneOf");
    }
    Ok(Rewrite { drop: &drop, put, ..Rewrite::default() }.edits(params, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::edited;

    #[test]
    fn forms_are_told_in_older_words() {
        let form = |properties: &str| {
            format!(r#"{{"requestedSchema":{{"type":"object","properties":{{{properties}}}}}}}"#)
        };
        for (property, older) in [
            (
                r#""a":{"type":"string","default":"x","minLength":1}"#,
                Some(r#""a":{"type":"string","minLength":1}"#),
            ),
            (r#""a":{"type":"boolean","default":true}"#, Some(r#""a":{"type":"boolean","default":true}"#)),
            (
                r#""a":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"r"},"b":{"type":"number"}"#,
                Some(
                    r#""a":{"enum":["r","g"],"enumNames":["Red","Green"],"type":"string"},"b":{"type":"number"}"#,
                ),
            ),
            (
                r#""a":{"type":"string","enum":["r"],"enumNames":["R"]}"#,
                Some(r#""a":{"type":"string","enum":["r"],"enumNames":["R"]}"#),
            ),
            (r#""a":{"type":"array","items":{"type":"string","enum":["r"]}}"#, None),
        ] {
            let params = form(property);
            let read = older_schema(&params).map(|mut edits| edited(&params, &mut edits));
            assert_eq!(read.ok(), older.map(form), "{property}");
        }
        assert_eq!(older_schema("{}"), Ok(vec![]));
        let dialect = r#"{"requestedSchema":{"$schema":"s","type":"object"}}"#;
        assert_eq!(
            edited(dialect, &mut older_schema(dialect).unwrap()),
            r#"{"requestedSchema":{"type":"object"}}"#
        );
    }
}
