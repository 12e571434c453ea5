//! What a client can do for servers.

use crate::wire::{Message, Text, members};

use super::{Revision, method};

/// What a client declared in `initialize` that decides whether a server's request can be brought to it (specification,
/// `client/sampling`, `client/elicitation`, `client/roots`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol")]
pub struct Abilities {
    /// It has roots.
    pub roots: bool,
    /// It samples.
    pub sampling: bool,
    /// Its sampling takes tools (2025-11-25).
    pub sampling_tools: bool,
    /// It asks its user by forms.
    pub form: bool,
    /// It sends its user to a page (2025-11-25).
    pub url: bool,
    /// It runs what servers ask of it as tasks (2025-11-25).
    pub tasks: bool,
}

/// Why a server's request cannot be brought to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this client did not declare {0}")]
pub struct Unable(pub &'static str);

impl Abilities {
    /// Reads a raw capabilities object. What cannot be read counts as not declared.
    pub fn parse(capabilities: &str) -> Self {
        let keys = ["roots", "sampling", "elicitation", "tasks"];
        let Ok([roots, sampling, elicitation, tasks]) = members(capabilities, keys) else {
            return Self::default();
        };
        let within = |span: Option<crate::wire::Span>| {
            span.and_then(|span| capabilities.get(span)).filter(|raw| raw.starts_with('{'))
        };
        let has = |raw: Option<&str>, key: &str| {
            raw.and_then(|raw| members(raw, [key]).ok()).is_some_and(|[found]| found.is_some())
        };
        let (sampling, elicitation) = (within(sampling), within(elicitation));
        let url = has(elicitation, "url");
        Self {
            roots: within(roots).is_some(),
            sampling: sampling.is_some(),
            sampling_tools: has(sampling, "tools"),
            // `{}` means forms, as it did before there was anything else.
            form: elicitation.is_some() && (has(elicitation, "form") || !url),
            url,
            tasks: within(tasks).is_some(),
        }
    }

    /// Whether it can be asked anything in the middle of a request.
    pub fn any(&self) -> bool {
        self.roots || self.sampling || self.form || self.url
    }

    /// Whether the server's `request` can be brought to this client.
    ///
    /// # Errors
    /// What it lacks.
    pub fn allow(&self, request: &Message) -> Result<(), Unable> {
        let params = request.params().unwrap_or("{}");
        match request.method() {
            method::ROOTS_LIST if self.roots => Ok(()),
            method::ROOTS_LIST => Err(Unable("roots")),
            method::SAMPLING if !self.sampling => Err(Unable("sampling")),
            method::SAMPLING => match members(params, ["tools"]) {
                Ok([Some(_)]) if !self.sampling_tools => Err(Unable("sampling.tools")),
                Ok(_) | Err(_) => Ok(()),
            },
            method::ELICITATION => {
                let mode = members(params, ["mode"]).ok().and_then(|[mode]| params.get(mode?));
                match mode.and_then(Text::of).as_deref() {
                    Some("url") if self.url => Ok(()),
                    Some("url") => Err(Unable("elicitation.url")),
                    _ if self.form => Ok(()),
                    _ => Err(Unable("elicitation")),
                }
            }
            // How a task is doing that the client made of an earlier request.
            method::TASKS_GET | method::TASKS_RESULT | method::TASKS_LIST | method::TASKS_CANCEL
                if self.tasks =>
            {
                Ok(())
            }
            _ => Err(Unable("such requests")),
        }
    }
}

/// Whether servers send requests of this `name` to clients, besides `ping`.
pub fn is_leg(name: &str) -> bool {
    const OF_TASKS: [&str; 4] =
        [method::TASKS_GET, method::TASKS_RESULT, method::TASKS_LIST, method::TASKS_CANCEL];
    [method::SAMPLING, method::ELICITATION, method::ROOTS_LIST].contains(&name) || OF_TASKS.contains(&name)
}

/// The capabilities that we declare where any client may be behind us: all that can be brought to one, in the form of
/// `revision`. A client that has no tasks is bound to overlook that a request would like to be one.
pub fn all_abilities(revision: Revision) -> &'static str {
    match revision {
        Revision::V2024_11_05 | Revision::V2025_03_26 => r#"{"roots":{"listChanged":true},"sampling":{}}"#,
        Revision::V2025_06_18 => r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#,
        Revision::V2026_07_28 => {
            r#"{"roots":{},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}"#
        }
        Revision::V2025_11_25 => {
            r#"{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}"#
        }
    }
}

/// The capabilities that we declare for one client, from its own. With roots in any case where we have some to tell (`with_roots`).
pub fn abilities_for(capabilities: &str, with_roots: bool) -> String {
    let keys = ["roots", "sampling", "elicitation", "tasks", "experimental", "extensions"];
    let found = members(capabilities, keys).unwrap_or_default();
    let raw = |span: Option<crate::wire::Span>| span.and_then(|span| capabilities.get(span));
    let mut parts = Vec::new();
    for (key, span) in keys.into_iter().zip(found) {
        match raw(span).filter(|raw| raw.starts_with('{')) {
            Some(raw) => parts.push(format!(r#""{key}":{raw}"#)),
            None if key == "roots" && with_roots => parts.push(r#""roots":{"listChanged":true}"#.into()),
            None => {}
        }
    }
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_clients_declare() {
        let none = Abilities::default();
        for (text, abilities) in [
            ("{}", none),
            ("nope", none),
            (r#"{"sampling":null}"#, none),
            (r#"{"elicitation":{}}"#, Abilities { form: true, ..none }),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, Abilities { form: true, url: true, ..none }),
            (r#"{"elicitation":{"url":{}}}"#, Abilities { url: true, ..none }),
            (
                r#"{"roots":{"listChanged":true},"sampling":{"tools":{}}}"#,
                Abilities { roots: true, sampling: true, sampling_tools: true, ..none },
            ),
        ] {
            assert_eq!(Abilities::parse(text), abilities, "{text}");
        }
    }

    #[test]
    fn what_we_declare_is_what_we_can_carry() {
        let every = Abilities {
            roots: true,
            sampling: true,
            sampling_tools: true,
            form: true,
            url: true,
            tasks: true,
        };
        assert_eq!(Abilities::parse(all_abilities(Revision::V2025_11_25)), every);
        let older = Abilities { sampling_tools: false, url: false, tasks: false, ..every };
        assert_eq!(Abilities::parse(all_abilities(Revision::V2025_06_18)), older);
        assert!(!Abilities::parse(all_abilities(Revision::V2024_11_05)).form);
        let client =
            r#"{"tasks":{"list":{}},"elicitation":{"url":{}},"extensions":{"x/y":1},"sampling":null}"#;
        assert_eq!(
            abilities_for(client, false),
            r#"{"elicitation":{"url":{}},"tasks":{"list":{}},"extensions":{"x/y":1}}"#
        );
        assert_eq!(abilities_for("nope", true), r#"{"roots":{"listChanged":true}}"#);
        let own = r#"{"roots":{"listChanged":false}}"#;
        assert_eq!(abilities_for(own, true), own);
    }

    #[test]
    fn tells_what_is_lacking() {
        let request = |method: &str, params: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            Message::parse(text.into(), 9).unwrap()
        };
        let client = Abilities::parse(r#"{"sampling":{},"elicitation":{"form":{}}}"#);
        assert_eq!(client.allow(&request(method::SAMPLING, "{}")), Ok(()));
        assert_eq!(
            client.allow(&request(method::SAMPLING, r#"{"tools":[]}"#)),
            Err(Unable("sampling.tools"))
        );
        assert_eq!(client.allow(&request(method::ELICITATION, r#"{"mode":"form"}"#)), Ok(()));
        assert_eq!(
            client.allow(&request(method::ELICITATION, r#"{"mode":"url"}"#)),
            Err(Unable("elicitation.url"))
        );
        assert_eq!(client.allow(&request(method::ROOTS_LIST, "{}")), Err(Unable("roots")));
        assert!(client.allow(&request("x/y", "{}")).is_err());
    }
}
