//! The two messages of the legacy handshake.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::offers::Offers;
use super::revision::Revision;
use crate::wire::quoted;

/// What a client asked for in `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked<'a> {
    /// The revision it would like.
    #[serde(default)]
    pub protocol_version: String,
    /// What it can do, raw.
    #[serde(borrow)]
    pub capabilities: Option<&'a RawValue>,
    /// Who it is.
    pub client_info: Option<Implementation>,
}

impl<'a> Asked<'a> {
    /// Reads the `params` of `initialize`.
    ///
    /// # Errors
    /// What is wrong with them, for the client.
    pub fn parse(params: &'a str) -> Result<Self, String> {
        serde_json::from_str(params).map_err(|error| format!("bad `initialize` params: {error}"))
    }
}

/// Who speaks.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Implementation {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
}

/// What a server answered to `initialize`.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The revision that both speak.
    pub revision: Revision,
    /// Who it is.
    pub server: Implementation,
    /// What it has.
    pub offers: Offers,
    /// Its capabilities as it wrote them.
    pub capabilities: Box<str>,
    /// What it wants models to know.
    pub instructions: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered<'a> {
    protocol_version: String,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(default)]
    server_info: Implementation,
    #[serde(default)]
    instructions: Option<Box<str>>,
}

impl Hello {
    /// Reads the result of `initialize`.
    ///
    /// # Errors
    /// Where it is no such result, or names a revision that we did not offer.
    pub fn parse(result: &str) -> Result<Self, String> {
        let bad = |error: serde_json::Error| format!("bad answer to `initialize`: {error}");
        let answered: Answered<'_> = serde_json::from_str(result).map_err(bad)?;
        let revision = Revision::legacy(&answered.protocol_version).ok_or_else(|| {
            format!("speaks revision {} only, which we do not", quoted(&answered.protocol_version))
        })?;
        let capabilities = answered.capabilities.map_or("{}", RawValue::get);
        Ok(Self {
            revision,
            server: answered.server_info,
            offers: Offers::parse(capabilities).map_err(bad)?,
            capabilities: capabilities.into(),
            instructions: answered.instructions.filter(|text| !text.is_empty()),
        })
    }
}

/// Who we are, a raw `Implementation`.
pub const IDENTITY: &str = concat!(r#"{"name":"trunkline","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// The `params` with which we ask a server for `revision`; `capabilities` is a raw object.
pub fn initialize_params(revision: Revision, capabilities: &str) -> String {
    format!(r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{IDENTITY}}}"#)
}

/// The result with which we answer a client; `capabilities` is a raw object, `instructions` may be empty.
pub fn initialize_result(revision: Revision, capabilities: &str, instructions: &str) -> String {
    let instructions = match instructions {
        "" => String::new(),
        text => format!(r#","instructions":{}"#, quoted(text)),
    };
    format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"serverInfo":{IDENTITY}{instructions}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_servers_answer() {
        let hello = Hello::parse(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"x":1},"serverInfo":{"name":"a","version":"1","title":"A"}}"#,
        );
        let hello = hello.unwrap();
        assert!(hello.offers.tools_changed && hello.revision == Revision::V2025_06_18);
        assert!(hello.capabilities.contains("\"x\":1"));
        assert!(!Hello::parse(r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#).unwrap().offers.tools);
        assert!(Hello::parse(r#"{"protocolVersion":"2099-01-01","capabilities":{}}"#).is_err());
        assert!(Hello::parse("{}").is_err());
    }

    #[test]
    fn what_we_write_reads_back() {
        let asked = initialize_params(Revision::LATEST_LEGACY, "{}");
        assert_eq!(Asked::parse(&asked).unwrap().protocol_version, "2025-11-25");
        let answered = initialize_result(Revision::V2025_03_26, "{}", "Say \"hi\"");
        assert_eq!(Hello::parse(&answered).unwrap().server.name, "trunkline");
    }
}
