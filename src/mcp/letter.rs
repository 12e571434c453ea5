//! A message on its way to a server, with what HTTP repeats of it.

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};

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
