//! How a server is reached.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

/// How to reach a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// Over HTTP.
    Http(Http),
    /// As a child process that speaks over its standard input and output.
    Stdio(Stdio),
}

/// An HTTP server.
#[derive(Clone, PartialEq)]
pub struct Http {
    /// Its MCP endpoint (`http` or `https`).
    pub url: Uri,
    /// Sent with every request; values are marked sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Which HTTP transport to use.
    pub transport: HttpTransport,
    /// Certificates.
    pub tls: Tls,
}

impl Http {
    /// Where it is, fit for logs: a path or query may hold a secret, so there is only `https://host:port`. A user and
    /// password have long become a header.
    pub fn origin(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or_default();
        format!("{scheme}://{}", self.url.authority().map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Http({}, {} headers)", self.origin(), self.headers.len())
    }
}

/// Which HTTP transport a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpTransport {
    /// Streamable HTTP first, the older HTTP+SSE where that is refused.
    Infer,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// Certificates towards a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// A PEM file of certificate authorities to trust besides the machine's own.
    pub ca: Option<PathBuf>,
    /// Our own certificate chain, PEM.
    pub cert: Option<PathBuf>,
    /// Our own key, PEM.
    pub key: Option<PathBuf>,
    /// Trusts any certificate. For trials only.
    pub insecure: bool,
    /// Of what the files held, so that other certificates are another connection.
    pub digest: u64,
}

/// A child process.
#[derive(Clone, PartialEq, Eq)]
pub struct Stdio {
    /// The program; `self` in the file has become our own executable.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set beside the few that are passed on.
    pub env: Vec<(String, String)>,
    /// Its working directory; ours by default.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for Stdio {
    /// Any of them may hold a secret, so only counts are told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stdio({} args, {} variables)", self.args.len(), self.env.len())
    }
}
