//! What a client can do for servers.

use crate::wire::{Message, Text, members};

use super::method;

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
}

/// Why a server's request cannot be brought to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this client did not declare {0}")]
pub struct Unable(pub &'static str);

impl Abilities {
    /// Reads a raw capabilities object. What cannot be read counts as not declared.
    pub fn parse(capabilities: &str) -> Self {
        let Ok([roots, sampling, elicitation]) = members(capabilities, ["roots", "sampling", "elicitation"])
        else {
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
        }
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
            _ => Err(Unable("such requests")),
        }
    }
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
