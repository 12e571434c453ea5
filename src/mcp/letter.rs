//! A message on its way to a server, with what HTTP repeats of it.

use bytes::Bytes;
use hyper::header::HeaderValue;

use super::envelope::{envelope_members, enveloped_params};
use super::header;
use super::hello::IDENTITY;
use super::mirror::Mirror;
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
        let enveloped = enveloped_params(params, &envelope_members(revision, "{}", IDENTITY, None));
        let version = HeaderValue::from_static(revision.as_str());
        let mirror = Mirror::of(revision, method, None, &[], None);
        let mirror = mirror.iter().cloned().chain([(header::PROTOCOL_VERSION.clone(), version)]).collect();
        Self { text: request(id, method, &enveloped), mirror }
    }
}

impl From<Bytes> for Letter {
    fn from(text: Bytes) -> Self {
        Self::plain(text)
    }
}
