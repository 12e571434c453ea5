//! Arguments of tools that headers repeat (specification of 2026-07-28, `server/tools`, "x-mcp-header", and
//! `basic/transports/streamable-http`, "Custom Headers from Tool Parameters").

use std::borrow::Cow;
use std::fmt;

use hyper::HeaderMap;
use hyper::header::HeaderName;

use super::header;
use super::mirror::decode_header;
use super::number::{integer, same_number};
use crate::wire::{Member, Span, Text, cuts, members, members_of};

/// The member of a schema that asks for a header.
const ANNOTATION: &str = "x-mcp-header";

/// An argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The whole name.
    name: HeaderName,
    /// The keys that lead to the argument.
    path: Box<[Box<str>]>,
}

/// An annotation that makes its tool of no use to clients over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`x-mcp-header` at {place}: {why}")]
pub struct BadAnnotation {
    /// Which one, as a path into the schema.
    pub place: String,
    /// What is wrong.
    pub why: &'static str,
    /// What to cut of the schema so that it is gone.
    pub cut: Span,
}

impl ParamHeader {
    /// All that a tool's raw `inputSchema` asks for.
    ///
    /// # Errors
    /// The first annotation that breaks a rule: the tool must not be offered to clients over HTTP.
    pub fn all(input_schema: &str) -> Result<Vec<Self>, BadAnnotation> {
        // Nearly no schema has one. With an escape in it nobody knows without reading.
        if !input_schema.contains(ANNOTATION) && !input_schema.contains("\\u") {
            return Ok(vec![]);
        }
        let mut walk = Walk { text: input_schema, path: vec![], found: vec![] };
        walk.schema(0..input_schema.len(), Way::Properties)?;
        Ok(walk.found)
    }

    /// The header.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    /// What the header says where a call has the raw `arguments`, before it is encoded. `None` where there is no such
    /// argument, or nothing that a header can say.
    pub fn value<'a>(&self, arguments: &'a str) -> Option<Cow<'a, str>> {
        let raw = self.raw(arguments)?;
        match raw.bytes().next()? {
            b'"' => Text::of(raw),
            b'{' | b'[' => None,
            _ => Some(integer(raw).map_or(Cow::Borrowed(raw), Cow::Owned)),
        }
    }

    /// The argument itself; `null` is none.
    fn raw<'a>(&self, arguments: &'a str) -> Option<&'a str> {
        let mut at = arguments;
        for key in &self.path {
            let [found] = members(at, [&**key]).ok()?;
            at = at.get(found?)?;
        }
        (at != "null").then_some(at)
    }

    /// Whether a header's decoded value says what stands in the raw `arguments`.
    fn agrees(&self, said: &str, arguments: &str) -> bool {
        let Some(raw) = self.raw(arguments) else { return false };
        // A string begins with a quote, so it is no number.
        self.value(arguments).is_some_and(|value| value == said) || same_number(raw, said)
    }
}

/// What is read of a schema.
struct Walk<'t> {
    text: &'t str,
    /// The keys of `properties` that led here.
    path: Vec<&'t str>,
    found: Vec<ParamHeader>,
}

/// How a schema was reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the root through `properties` alone.
    Properties,
    /// Through anything else: which argument it speaks of depends on the arguments.
    Other,
}

/// Members of a schema that hold one.
const ONE: [&str; 12] = [
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Members that hold several, in an array.
const ARRAY: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];
/// Members that hold several, in an object.
const OBJECT: [&str; 5] = ["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];

impl Walk<'_> {
    fn schema(&mut self, at: Span, way: Way) -> Result<(), BadAnnotation> {
        let members = members_of(self.text, at.clone());
        for member in &members {
            let name = member.name(self.text);
            let value = member.value.clone();
            match &*name {
                ANNOTATION => self.annotation(&members, value, way)?,
                "properties" => self.properties(value, way)?,
                // Draft 7 has arrays of schemas here.
                one if ONE.contains(&one) => {
                    self.schema(value.clone(), Way::Other)?;
                    self.array(value)?;
                }
                several if ARRAY.contains(&several) => self.array(value)?,
                several if OBJECT.contains(&several) => {
                    for member in members_of(self.text, value) {
                        self.schema(member.value, Way::Other)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn array(&mut self, at: Span) -> Result<(), BadAnnotation> {
        let raw = self.text.get(at.clone()).unwrap_or_default();
        for element in crate::wire::elements(raw).unwrap_or_default() {
            self.schema(element.start + at.start..element.end + at.start, Way::Other)?;
        }
        Ok(())
    }

    fn properties(&mut self, at: Span, way: Way) -> Result<(), BadAnnotation> {
        for Member { key, value } in members_of(self.text, at) {
            self.path.push(self.text.get(key).unwrap_or_default());
            self.schema(value, way)?;
            self.path.pop();
        }
        Ok(())
    }

    fn annotation(&mut self, members: &[Member], value: Span, way: Way) -> Result<(), BadAnnotation> {
        let bad = |why| self.bad(why, cuts(members, |member| member.value == value));
        if way != Way::Properties || self.path.is_empty() {
            return bad("it stands where no single argument is meant");
        }
        let raw = |at: Span| self.text.get(at).unwrap_or_default();
        let Some(suffix) = Text::of(raw(value.clone())) else { return bad("it is no string") };
        let kind = members.iter().find(|member| member.name(self.text) == "type");
        let kind = kind.and_then(|member| Text::of(raw(member.value.clone())));
        if !matches!(kind.as_deref(), Some("integer" | "string" | "boolean")) {
            return bad("the argument's type is none of integer, string and boolean");
        }
        if suffix.is_empty() {
            return bad("it is empty");
        }
        let Ok(name) = HeaderName::try_from(format!("{}{suffix}", header::PARAM)) else {
            return bad("it cannot stand in a header's name");
        };
        if self.found.iter().any(|other| other.name == name) {
            return bad("there is another one of that name");
        }
        let path = self.path.iter().map(|key| Text::of(key).unwrap_or_default().into()).collect();
        self.found.push(ParamHeader { name, path });
        Ok(())
    }

    fn bad<T>(&self, why: &'static str, cuts: Vec<Span>) -> Result<T, BadAnnotation> {
        let keys: Vec<_> = self.path.iter().filter_map(|key| Text::of(key)).collect();
        let (place, cut) = (format!("/{}", keys.join("/")), cuts.into_iter().next().unwrap_or_default());
        Err(BadAnnotation { place, why, cut })
    }
}

/// The headers of a request that repeat arguments, as they came.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Shown(Box<[(HeaderName, Box<[u8]>)]>);

impl Shown {
    /// Those among `headers`.
    pub fn of(headers: &HeaderMap) -> Self {
        let shown = headers.iter().filter(|(name, _)| name.as_str().starts_with(header::PARAM));
        Self(shown.map(|(name, value)| (name.clone(), value.as_bytes().into())).collect())
    }

    /// Whether they say what stands in a call's raw `arguments`: each argument that `headers` names and that is there has
    /// its header, and there is none for one that is not. Others do not matter.
    ///
    /// # Errors
    /// What does not agree, for the client (-32020).
    pub fn check(&self, headers: &[ParamHeader], arguments: Option<&str>) -> Result<(), String> {
        let arguments = arguments.unwrap_or("{}");
        headers.iter().try_for_each(|wanted| self.check_one(wanted, arguments))
    }

    fn check_one(&self, wanted: &ParamHeader, arguments: &str) -> Result<(), String> {
        let name = Name(&wanted.name);
        let mut given = self.0.iter().filter(|(name, _)| *name == wanted.name).map(|(_, value)| value);
        let has_value = wanted.value(arguments).is_some();
        let Some(value) = given.next() else {
            return if has_value { Err(format!("`{name}` is missing")) } else { Ok(()) };
        };
        if given.next().is_some() {
            return Err(format!("`{name}` is there more than once"));
        }
        let said = decode_header(value).map_err(|why| format!("`{name}`: {why}"))?;
        if wanted.agrees(&said, arguments) {
            Ok(())
        } else if has_value {
            Err(format!("`{name}` says something else than the argument"))
        } else {
            Err(format!("`{name}` repeats an argument that is not there"))
        }
    }
}

/// Counts: arguments may be secret.
impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shown({} headers)", self.0.len())
    }
}

/// A header's name as people write it.
struct Name<'a>(&'a HeaderName);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mcp-Param-{}", self.0.as_str().trim_start_matches(header::PARAM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{Mirror, Revision, method};

    fn all(properties: &str) -> Result<Vec<ParamHeader>, BadAnnotation> {
        ParamHeader::all(&format!(r#"{{"type":"object","properties":{properties}}}"#))
    }

    #[test]
    fn finds_what_a_schema_asks_for() {
        let schema = r#"{"a":{"type":"string","x-mcp-header":"A"},"o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Method"}}},"x-mcp-header":{"type":"boolean","default":{"x-mcp-header":1}}}"#;
        let found = all(schema).unwrap();
        let names: Vec<_> = found.iter().map(|header| header.name().as_str()).collect();
        assert_eq!(names, ["mcp-param-a", "mcp-param-method"]);
        assert_eq!(all("{}").unwrap(), []);
        assert_eq!(ParamHeader::all("nope").unwrap(), []);
        assert_eq!(all(r#"{"a":{"type":"string","\u0078-mcp-header":"A"}}"#).unwrap().len(), 1);
    }

    #[test]
    fn refuses_what_breaks_a_rule() {
        let bad = |properties: &str| all(properties).unwrap_err();
        for properties in [
            r#"{"a":{"type":"string","x-mcp-header":""}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a\r\nb"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"é"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a:"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":1}}"#,
            r#"{"a":{"type":"number","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"object","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"null","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":["string","null"],"x-mcp-header":"A"}}"#,
            r#"{"a":{"x-mcp-header":"A"}}"#,
            r#"{"b":{"type":"string","x-mcp-header":"A"},"a":{"type":"string","x-mcp-header":"a"}}"#,
        ] {
            assert_eq!(bad(properties).place, "/a", "{properties}");
        }
        let inner = r#"{"type":"string","x-mcp-header":"A"}"#;
        for around in [
            r#"{"items":X}"#,
            r#"{"items":[X]}"#,
            r#"{"prefixItems":[X]}"#,
            r#"{"oneOf":[X]}"#,
            r#"{"anyOf":[{},X]}"#,
            r#"{"allOf":[{"properties":{"b":X}}]}"#,
            r#"{"not":X}"#,
            r#"{"if":X}"#,
            r#"{"else":X}"#,
            r#"{"additionalProperties":X}"#,
            r#"{"patternProperties":{"x":X}}"#,
            r#"{"$defs":{"x":X}}"#,
        ] {
            let schema = format!(r#"{{"a":{}}}"#, around.replace('X', inner));
            assert!(bad(&schema).to_string().contains("/a"), "{schema}");
        }
        assert!(ParamHeader::all(r#"{"type":"string","x-mcp-header":"A"}"#).is_err());
    }

    fn shown(headers: &[(&str, &[u8])]) -> Shown {
        let headers = headers.iter().map(|(suffix, value)| {
            let name: HeaderName = format!("Mcp-Param-{suffix}").parse().unwrap();
            (name, hyper::header::HeaderValue::from_bytes(value).unwrap())
        });
        let mut map = HeaderMap::new();
        headers.for_each(|(name, value)| {
            map.append(name, value);
        });
        map.append("other", "x".parse().unwrap());
        Shown::of(&map)
    }

    type Headers<'a> = &'a [(&'a str, &'a [u8])];

    #[test]
    fn headers_say_what_the_arguments_say() {
        let wanted = all(r#"{"s":{"type":"string","x-mcp-header":"S"},"o":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"b":{"type":"boolean","x-mcp-header":"B"}}"#).unwrap();
        let cases: &[(&str, Headers<'_>, bool)] = &[
            ("{}", &[], true),
            (r#"{"s":null,"o":null}"#, &[], true),
            (r#"{"s":"a"}"#, &[("S", b"a")], true),
            (r#"{"s":"a"}"#, &[("s", b" =?base64?YQ==?=")], true),
            (r#"{"s":"a"}"#, &[("s", b"a"), ("else", b"\xff")], true),
            (r#"{"s":""}"#, &[("S", b"")], true),
            (r#"{"o":{"n":42}}"#, &[("N", b"42.0")], true),
            (r#"{"o":{"n":4.2e1}}"#, &[("N", b"42")], true),
            (r#"{"b":true}"#, &[("B", b"true")], true),
            (r#"{"s":"a"}"#, &[], false),
            (r#"{"s":""}"#, &[], false),
            (r#"{"s":"a"}"#, &[("S", b"A")], false),
            (r#"{"s":"a"}"#, &[("S", b"a"), ("S", b"a")], false),
            (r#"{"s":"a"}"#, &[("S", b"=?base64?YQ?=")], false),
            (r#"{"s":"\u00e9"}"#, &[("S", "é".as_bytes())], false),
            (r#"{"s":"42"}"#, &[("S", b"42.0")], false),
            (r#"{"o":{"n":42}}"#, &[("N", b"43")], false),
            (r#"{"b":true}"#, &[("B", b"True")], false),
            ("{}", &[("S", b"a")], false),
            (r#"{"s":null}"#, &[("S", b"null")], false),
        ];
        for (arguments, headers, agree) in cases {
            let checked = shown(headers).check(&wanted, Some(arguments));
            assert_eq!(checked.is_ok(), *agree, "{arguments} {headers:?} {checked:?}");
        }
        assert!(shown(&[]).check(&wanted, None).is_ok());
        assert_eq!(format!("{:?}", shown(&[("S", b"secret")])), "Shown(1 headers)");
    }

    #[test]
    fn what_we_write_agrees() {
        let wanted = all(r#"{"s":{"type":"string","x-mcp-header":"S"},"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"},"o":{"type":"string","x-mcp-header":"O"}}"#).unwrap();
        for arguments in [
            r#"{"s":"a\r\nX: y","n":-7,"b":false}"#,
            r#"{"s":" é ","n":42.0,"o":null}"#,
            r#"{"s":"","n":9007199254740993}"#,
            r#"{"o":{"not":"a string"}}"#,
        ] {
            let mirror =
                Mirror::of(Revision::LATEST, method::TOOLS_CALL, Some("t"), &wanted, Some(arguments));
            let headers: HeaderMap = mirror.iter().cloned().collect();
            assert_eq!(Shown::of(&headers).check(&wanted, Some(arguments)), Ok(()), "{arguments}");
        }
        let mirror = Mirror::of(
            Revision::LATEST,
            method::TOOLS_CALL,
            Some("t"),
            &wanted,
            Some(r#"{"n":42.0,"b":true}"#),
        );
        let shown: Vec<_> = mirror.iter().skip(2).map(|(_, value)| value.to_str().unwrap()).collect();
        assert_eq!(shown, ["42", "true"]);
    }
}
