//! Schemas of results that may be no objects, for clients that only know objects.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::{Text, quoted};

/// Where the schema stands within the one around it.
const INNER: &str = "#/properties/result";
/// What stays at the outside: the dialect's name may stand nowhere else, and tools look for definitions there.
const HOISTED: [&str; 3] = ["$schema", "$defs", "definitions"];
/// Members that hold values of any kind, not schemas.
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// Members that hold schemas by names of the author's.
const NAMED: [&str; 5] = ["$defs", "definitions", "properties", "patternProperties", "dependentSchemas"];

/// The schema of an object whose `result` is what the raw `schema` says. References within it are led to its new place.
pub(super) fn wrapped(schema: &str) -> String {
    let (mut outer, mut inner) = (String::new(), String::new());
    match members(schema) {
        Some(all) if !has_id(&all) => {
            let (hoisted, own): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(key, _)| HOISTED.contains(&&**key));
            joined(&mut outer, &hoisted, member);
            inner.push('{');
            joined(&mut inner, &own, member);
            inner.push('}');
        }
        Some(_) | None => inner.push_str(schema),
    }
    if !outer.is_empty() {
        outer.push(',');
    }
    format!(r#"{{{outer}"type":"object","properties":{{"result":{inner}}},"required":["result"]}}"#)
}

type Member<'a> = (String, &'a str);

/// Puts a schema out, with its references moved.
fn put(out: &mut String, schema: &str) {
    match members(schema) {
        Some(all) if !has_id(&all) => object(out, &all, member),
        Some(_) => out.push_str(schema),
        None => match serde_json::from_str::<Vec<&RawValue>>(schema) {
            Ok(all) => {
                out.push('[');
                for (n, inner) in all.into_iter().enumerate() {
                    out.push_str(if n == 0 { "" } else { "," });
                    put(out, inner.get());
                }
                out.push(']');
            }
            Err(_) => out.push_str(schema),
        },
    }
}

fn member(out: &mut String, (key, value): &Member<'_>) {
    match (&**key, members(value)) {
        ("$ref" | "$dynamicRef", None) => match Text::of(value) {
            Some(target) => out.push_str(&quoted(&moved(&target))),
            None => out.push_str(value),
        },
        (key, _) if VALUES.contains(&key) => out.push_str(value),
        (key, Some(all)) if NAMED.contains(&key) => object(out, &all, |out, (_, schema)| put(out, schema)),
        _ => put(out, value),
    }
}

fn object(out: &mut String, all: &[Member<'_>], value: fn(&mut String, &Member<'_>)) {
    out.push('{');
    joined(out, all, value);
    out.push('}');
}

fn joined(out: &mut String, all: &[Member<'_>], value: fn(&mut String, &Member<'_>)) {
    for (n, member) in all.iter().enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        out.push_str(&quoted(&member.0));
        out.push(':');
        value(out, member);
    }
}

/// What a reference within the schema reads as from its new place: pointers are from the root, anchors are not.
fn moved(target: &str) -> String {
    match target.strip_prefix('#') {
        Some("") => INNER.into(),
        Some(path) if path.starts_with("/$defs/") || path.starts_with("/definitions/") => target.into(),
        Some(path) if path.starts_with('/') => format!("{INNER}{path}"),
        Some(_) | None => target.into(),
    }
}

/// Whether it has an address of its own: then it is the root of what is in it, wherever it stands.
fn has_id(all: &[Member<'_>]) -> bool {
    all.iter().any(|(key, value)| key == "$id" && value.starts_with('"'))
}

/// The members of the object that is `text`, in order; `None` where it is none.
fn members(text: &str) -> Option<Vec<Member<'_>>> {
    struct All<'a>(Vec<Member<'a>>);
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = All<'de>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<All<'de>, A::Error> {
            let mut all = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                all.push((key, value.get()));
            }
            Ok(All(all))
        }
    }
    impl<'de> Deserialize<'de> for All<'de> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Reader)
        }
    }
    text.starts_with('{').then(|| serde_json::from_str::<All<'_>>(text).ok())?.map(|All(all)| all)
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn what_is_within_finds_its_way() {
        let around = |outer: &str, inner: &str| {
            format!(r#"{{{outer}"type":"object","properties":{{"result":{inner}}},"required":["result"]}}"#)
        };
        for (schema, outer, inner) in [
            (r#"{"type":"array","maxItems":1e400}"#, "", r#"{"type":"array","maxItems":1e400}"#),
            ("true", "", "true"),
            (
                r##"{"$schema":"s","$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#"}},"$ref":{"$ref":"#/$defs/a"}}}"##,
                r##""$schema":"s","$defs":{"a":{"items":{"$ref":"#/properties/result"}},"$ref":{"$ref":"#/$defs/a"}},"##,
                r##"{"$ref":"#/$defs/a"}"##,
            ),
            (
                r##"{"anyOf":[{"$ref":"#/anyOf/1"},{"$ref":"#x"},{"$ref":"https://e/#/x"}],"default":{"$ref":"#"}}"##,
                "",
                r##"{"anyOf":[{"$ref":"#/properties/result/anyOf/1"},{"$ref":"#x"},{"$ref":"https://e/#/x"}],"default":{"$ref":"#"}}"##,
            ),
            (
                r##"{"properties":{"default":{"$ref":"#/x"},"const":{"const":{"$ref":"#/x"}}}}"##,
                "",
                r##"{"properties":{"default":{"$ref":"#/properties/result/x"},"const":{"const":{"$ref":"#/x"}}}}"##,
            ),
            (r##"{"$id":"i","$ref":"#/x"}"##, "", r##"{"$id":"i","$ref":"#/x"}"##),
            (r##"{"not":{"$id":"i","$ref":"#/x"}}"##, "", r##"{"not":{"$id":"i","$ref":"#/x"}}"##),
        ] {
            assert_eq!(wrapped(schema), around(outer, inner), "{schema}");
            assert!(serde_json::from_str::<&serde_json::value::RawValue>(&wrapped(schema)).is_ok());
        }
    }
}
