//! `server/discover`: what a modern server says of itself (specification of 2026-07-28, `server/discover`).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::caching::Caching;
use super::hello::{Hello, IDENTITY, Implementation};
use super::meta::SERVER_INFO;
use super::offers::Offers;
use super::revision::Revision;
use crate::wire::{members, quoted};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered<'a> {
    supported_versions: Vec<String>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(default)]
    instructions: Option<Box<str>>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

impl Hello {
    /// Reads the result of `server/discover`: with the newest modern revision that the server and we speak. Of what it
    /// declares, tasks in the manner of 2025-11-25 do not count.
    ///
    /// # Errors
    /// Where it is none, or there is no modern revision that both speak.
    pub fn discovered(result: &str) -> Result<Self, String> {
        let bad = |error: serde_json::Error| format!("bad result of `server/discover`: {error}");
        let found: Discovered<'_> = serde_json::from_str(result).map_err(bad)?;
        let revision =
            newest_modern(found.supported_versions.iter().map(String::as_str)).ok_or_else(|| {
                format!(
                    "the server speaks {} only",
                    found.supported_versions.join(", ").replace(char::is_control, " ")
                )
            })?;
        let capabilities = found.capabilities.map_or("{}", RawValue::get);
        let offers = Offers::parse(capabilities).map_err(bad)?;
        Ok(Self {
            revision,
            server: found.meta.and_then(|meta| implementation(meta.get())).unwrap_or_default(),
            offers: Offers { tasks: false, tasks_list: false, tasks_cancel: false, ..offers },
            capabilities: capabilities.into(),
            instructions: found.instructions.filter(|text| !text.is_empty()),
        })
    }
}

/// Who a server says it is in the raw `_meta` of a result.
fn implementation(meta: &str) -> Option<Implementation> {
    let [info] = members(meta, [SERVER_INFO]).ok()?;
    serde_json::from_str(meta.get(info?)?).ok()
}

/// The newest of `versions` that is modern and that we speak.
pub fn newest_modern<'a>(versions: impl Iterator<Item = &'a str>) -> Option<Revision> {
    versions.filter_map(Revision::modern).max()
}

/// What a refusal for its revision (-32022) says that the server speaks; `error` is the raw error object.
pub fn supported_versions(error: &str) -> Vec<String> {
    let data = members(error, ["data"]).ok().and_then(|[data]| error.get(data?));
    let supported = data.and_then(|data| data.get(members(data, ["supported"]).ok()?[0].clone()?));
    supported.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
}

/// The `data` of our refusal of a revision (-32022).
pub fn unsupported_data(requested: &str) -> String {
    let supported: Vec<_> = Revision::MODERN.iter().map(|revision| format!(r#""{revision}""#)).collect();
    format!(r#"{{"supported":[{}],"requested":{}}}"#, supported.join(","), quoted(requested))
}

/// The result with which we answer a client; `capabilities` is a raw object, `instructions` may be empty.
pub fn discover_result(capabilities: &str, instructions: &str, caching: Caching) -> String {
    let supported: Vec<_> = Revision::MODERN.iter().map(|revision| format!(r#""{revision}""#)).collect();
    let instructions = match instructions {
        "" => String::new(),
        text => format!(r#","instructions":{}"#, quoted(text)),
    };
    format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{capabilities}{instructions},{},"_meta":{{"{SERVER_INFO}":{IDENTITY}}}}}"#,
        supported.join(","),
        caching.write()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Scope;

    #[test]
    fn reads_what_servers_say() {
        let hello = Hello::discovered(
            r#"{"resultType":"complete","supportedVersions":["2025-11-25","2026-07-28","2099-01-01"],"capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}},"extensions":{"a/b":{}}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a","version":"1"}},"ttlMs":0}"#,
        )
        .unwrap();
        assert_eq!((hello.revision, &*hello.server.name), (Revision::LATEST, "a"));
        assert!(hello.offers.tools && !hello.offers.tasks && hello.capabilities.contains("a/b"));
        let anonymous =
            Hello::discovered(r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#).unwrap();
        assert_eq!(&*anonymous.server.name, "");
        for bad in [
            "{}",
            "null",
            r#"{"supportedVersions":["2025-11-25"],"capabilities":{}}"#,
            r#"{"supportedVersions":[]}"#,
        ] {
            assert!(Hello::discovered(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_we_write_reads_back() {
        let caching = Caching { ttl_ms: 60_000, scope: Scope::Public };
        let text = discover_result(r#"{"tools":{}}"#, "Say \"hi\"", caching);
        let hello = Hello::discovered(&text).unwrap();
        assert_eq!((&*hello.server.name, hello.instructions.as_deref()), ("trunkline", Some("Say \"hi\"")));
        assert_eq!(Caching::read(&text), caching);
        let error = format!(r#"{{"code":-32022,"message":"","data":{}}}"#, unsupported_data("v\""));
        assert_eq!(supported_versions(&error), ["2026-07-28"]);
        assert_eq!(supported_versions("{}"), Vec::<String>::new());
    }
}
