//! `subscriptions/listen`: a stream of what changes (specification of 2026-07-28, `basic/patterns/subscriptions`).

use bytes::Bytes;

use super::feature::Feature;
use super::meta::{Rewrite, SUBSCRIPTION_ID};
use super::method;
use crate::wire::{Message, Text, edited, elements, members, notification, quoted, response};

/// What a listen request wants to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// That the list of tools has changed.
    pub tools: bool,
    /// That the list of prompts has.
    pub prompts: bool,
    /// That the list of resources has.
    pub resources: bool,
    /// That these resources have.
    pub uris: Vec<Box<str>>,
    /// How these tasks are doing (extension `io.modelcontextprotocol/tasks`).
    pub tasks: Vec<Box<str>>,
}

impl Filter {
    /// Reads the `params` of a listen request, or of its acknowledgement. Kinds that we do not know do not matter.
    ///
    /// # Errors
    /// What is wrong with them, for the client (-32602).
    pub fn parse(params: &str) -> Result<Self, String> {
        let [filter] = members(params, ["notifications"]).map_err(|why| format!("`params`: {why}"))?;
        let filter = filter.and_then(|at| params.get(at)).ok_or("`notifications` is missing")?;
        let keys = [
            "toolsListChanged",
            "promptsListChanged",
            "resourcesListChanged",
            "resourceSubscriptions",
            "taskIds",
        ];
        let found = members(filter, keys).map_err(|why| format!("`notifications`: {why}"))?;
        let [tools, prompts, resources, uris, tasks] = found.map(|at| at.and_then(|at| filter.get(at)));
        Ok(Self {
            tools: flag(tools, "toolsListChanged")?,
            prompts: flag(prompts, "promptsListChanged")?,
            resources: flag(resources, "resourcesListChanged")?,
            uris: strings(uris, "resourceSubscriptions")?,
            tasks: strings(tasks, "taskIds")?,
        })
    }

    /// As a raw object, which has only what is wanted.
    pub fn write(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let flags = [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ];
        parts.extend(flags.into_iter().filter(|(_, on)| *on).map(|(key, _)| format!(r#""{key}":true"#)));
        for (key, texts) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.tasks)] {
            if !texts.is_empty() {
                let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                parts.push(format!(r#""{key}":[{}]"#, texts.join(",")));
            }
        }
        format!("{{{}}}", parts.join(","))
    }

    /// Whether it wants to hear that the list of `feature` has changed.
    pub fn wants(&self, feature: Feature) -> bool {
        match feature {
            Feature::Tool => self.tools,
            Feature::Prompt => self.prompts,
            Feature::Resource | Feature::Template => self.resources,
        }
    }

    /// Whether it wants nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Clients that always write a member mean by `null` that it is not there.
fn given(raw: Option<&str>) -> Option<&str> {
    raw.filter(|raw| *raw != "null")
}

fn flag(raw: Option<&str>, key: &str) -> Result<bool, String> {
    match given(raw) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(format!("`{key}` is no boolean")),
    }
}

fn strings(raw: Option<&str>, key: &str) -> Result<Vec<Box<str>>, String> {
    let Some(raw) = given(raw) else { return Ok(vec![]) };
    let bad = || format!("`{key}` is no array of strings");
    let places = elements(raw).map_err(|_| bad())?;
    let text = |at| raw.get(at).and_then(Text::of).map(Into::into).ok_or_else(bad);
    places.into_iter().map(text).collect()
}

/// The first message on a stream: what of the request it will tell. `id` is the request's, raw.
pub fn acknowledged(filter: &Filter, id: &[u8]) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let params = format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID}":{id}}},"notifications":{}}}"#, filter.write());
    notification(method::ACKNOWLEDGED, &params)
}

/// `notification` for the stream of the listen request with the raw `id`.
pub fn tagged(notification: &Message, id: &[u8]) -> Bytes {
    let Ok(text) = std::str::from_utf8(notification.text()) else { return notification.text().clone() };
    let put = format!(r#""{SUBSCRIPTION_ID}":{}"#, String::from_utf8_lossy(id));
    let mut edits = if let Some(at) = notification.params_span() {
        let drop = |key: &str| key == SUBSCRIPTION_ID;
        Rewrite { drop_meta: Some(&drop), put_meta: put, ..Rewrite::default() }.edits(text, at)
    } else {
        super::envelope::with_params(text, &put)
    };
    edited(text, &mut edits).into()
}

/// The answer to the listen request with the raw `id`: its stream ends as it should.
pub fn ended(id: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(id);
    let result = format!(r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION_ID}":{text}}}}}"#);
    response(id, result.as_bytes())
}

/// The id of the listen request whose stream `message` belongs to, raw.
pub fn subscription(message: &Message) -> Option<&str> {
    let object = message.params_span().or_else(|| message.body_span())?;
    let [meta] = message.members_at(object, ["_meta"]).ok()?;
    let [id] = message.members_at(meta?, [SUBSCRIPTION_ID]).ok()?;
    message.slice(id?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: impl Into<Bytes>) -> Message {
        Message::parse(text.into(), 128).unwrap()
    }

    #[test]
    fn reads_and_writes_filters() {
        let text = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":null,"resourceSubscriptions":["a://\u0062","c"],"taskIds":[],"else":1}}"#;
        let filter = Filter::parse(text).unwrap();
        assert_eq!(filter.write(), r#"{"toolsListChanged":true,"resourceSubscriptions":["a://b","c"]}"#);
        assert!(filter.wants(Feature::Tool) && !filter.wants(Feature::Template) && !filter.is_empty());
        assert!(Filter::parse(r#"{"notifications":{}}"#).unwrap().is_empty());
        for bad in [
            "{}",
            r#"{"notifications":null}"#,
            r#"{"notifications":{"toolsListChanged":1}}"#,
            r#"{"notifications":{"resourceSubscriptions":"a"}}"#,
            r#"{"notifications":{"taskIds":[1]}}"#,
            r#"{"notifications":{"taskIds":[],"taskIds":[]}}"#,
        ] {
            assert!(Filter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_message_of_a_stream_names_its_request() {
        for id in ["1", r#""1""#, r#""é\"""#] {
            let filter = Filter { prompts: true, tasks: vec!["t".into()], ..Filter::default() };
            let first = parse(acknowledged(&filter, id.as_bytes()));
            assert_eq!((first.method(), subscription(&first)), (method::ACKNOWLEDGED, Some(id)));
            assert_eq!(Filter::parse(first.params().unwrap()).unwrap(), filter);
            let last = parse(ended(id.as_bytes()));
            assert_eq!(
                (last.id().unwrap(), subscription(&last)),
                (Bytes::copy_from_slice(id.as_bytes()), Some(id))
            );
            for params in [
                "",
                r#","params":null"#,
                r#","params":{}"#,
                r#","params":{"uri":"a"}"#,
                r#","params":{"_meta":{"a/b":1,"io.modelcontextprotocol/subscriptionId":9}}"#,
            ] {
                let told = parse(format!(r#" {{"jsonrpc":"2.0","method":"n"{params}}}"#));
                assert_eq!(subscription(&parse(tagged(&told, id.as_bytes()))), Some(id), "{params}");
            }
        }
        assert_eq!(subscription(&parse(r#"{"jsonrpc":"2.0","method":"n"}"#)), None);
    }
}
