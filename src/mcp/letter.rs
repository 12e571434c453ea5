//! A message on its way to a server, with what HTTP repeats of it.

use bytes::Bytes;

use super::IDENTITY;
use super::envelope::{envelope_members, enveloped_params};
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
    /// Whoever sends it takes a long result in pieces.
    pub in_pieces: bool,
}

impl Letter {
    /// A message without such headers.
    pub fn plain(text: impl Into<Bytes>) -> Self {
        Self { text: text.into(), mirror: Mirror::default(), in_pieces: false }
    }

    /// A request of our own, for nobody in particular, in the words of `revision`; `params` is a raw object without
    /// `_meta`.
    pub fn ours(revision: Revision, id: u64, method: &str, params: &str) -> Self {
        if !revision.is_modern() {
            return Self::plain(request(id, method, params));
        }
        let members = envelope_members(revision, "{}", IDENTITY, None);
        let mirror = Mirror::of(revision, method, None, &[], None);
        Self { text: request(id, method, &enveloped_params(params, &members)), mirror, in_pieces: false }
    }
}

impl From<Bytes> for Letter {
    fn from(text: Bytes) -> Self {
        Self::plain(text)
    }
}
