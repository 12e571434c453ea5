//! A message on its way to a server, with what HTTP repeats of it.

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};

use super::header;
use super::revision::Revision;
use crate::wire::request;

/// A message on its way to a server.
#[derive(Debug, Clone, Default)]
pub struct Letter {
    /// The message.
    pub text: Bytes,
    /// What its HTTP headers say of it; nothing where a legacy server is to get it.
    pub mirror: Mirror,
}

/// What the headers of a modern request repeat of its body (specification, `basic/transports`, "standard headers"), so
/// that whoever passes it on need not read it. Values are encoded already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror(Vec<(HeaderName, HeaderValue)>);

impl Letter {
    /// A message without such headers.
    pub fn plain(text: impl Into<Bytes>) -> Self {
        Self { text: text.into(), mirror: Mirror::default() }
    }

    /// A request of our own, for nobody in particular, in the words of `revision`; `params` is a raw object without
    /// `_meta`. The headers say the revision as well: before a handshake nobody else does.
    pub fn ours(revision: Revision, id: u64, method: &str, params: &str) -> Self {
        if !revision.is_modern() {
            return Self::plain(request(id, method, params));
        }
        let rest = params.strip_prefix('{').unwrap_or("}");
        let comma = if rest == "}" { "" } else { "," };
        let enveloped = format!(
            r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"trunkline","version":"{}"}}}}{comma}{rest}"#,
            env!("CARGO_PKG_VERSION")
        );
        let value = |text: &str| HeaderValue::from_str(text).ok();
        let headers = [
            (header::PROTOCOL_VERSION.clone(), value(revision.as_str())),
            (HeaderName::from_static("mcp-method"), value(method)),
        ];
        let mirror = headers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Self { text: request(id, method, &enveloped), mirror }
    }
}

impl From<Bytes> for Letter {
    fn from(text: Bytes) -> Self {
        Self::plain(text)
    }
}

impl Mirror {
    /// The headers.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Mirror {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}
