//! A message on its way to a server, with what HTTP repeats of it.

use bytes::Bytes;

use super::mirror::Mirror;

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
}

impl From<Bytes> for Letter {
    fn from(text: Bytes) -> Self {
        Self::plain(text)
    }
}
