//! What a checked configuration says: typed values only, every placeholder already replaced, every default already in.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use indexmap::IndexMap;

use super::auth::Auth;
use super::care::Care;
use super::personal::Personal;
use super::roots::Root;
use super::views::ViewRules;
use crate::names::{Naming, ServerName};

/// The whole file, checked. Two of them are compared by [`Change::between`](super::Change::between).
#[derive(Clone, PartialEq)]
pub struct Config {
    /// Where the MCP endpoint listens.
    pub listen: SocketAddr,
    /// Where metrics, probes and the status listen.
    pub admin: SocketAddr,
    /// Lets `listen` be a public address although nobody is authenticated.
    pub insecure: bool,
    /// Who may call; where absent, everybody who can reach us.
    pub auth: Option<Auth>,
    /// `Host` values accepted beside the loopback forms (lower case, without port).
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted beside the loopback forms (lower case, as browsers send them).
    pub allowed_origins: Vec<String>,
    /// How the aggregating view names things.
    pub naming: Naming,
    /// Whether a server's `title` is put before its tools' and prompts' descriptions in aggregating views.
    pub describe_origin: bool,
    /// Items on a page of our lists; everything is on one where absent.
    pub page_size: Option<usize>,
    /// More paths with their own selection, `/mcp/<name>`, by name.
    pub views: IndexMap<Arc<str>, ViewRules>,
    /// Keys for what clients carry for us: the first seals, all of them open. Without one they are made at random.
    pub session_keys: Vec<[u8; 32]>,
    /// TLS of the MCP endpoint, if it speaks it.
    pub tls: Option<EdgeTls>,
    /// Where the last known lists are kept, and a key for sessions where `session_keys` has none.
    pub catalog_cache: Option<PathBuf>,
    /// Sizes, counts and times that hold for the whole process.
    pub limits: Limits,
    /// The headers of callers that servers get (`{{header.NAME}}`).
    pub handed: Vec<HeaderName>,
    /// The servers in the order of the file: the order of every list.
    pub servers: IndexMap<ServerName, Arc<Server>>,
}

impl Default for Config {
    /// No server at all; the other values are those of an otherwise empty file.
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8931).into(),
            admin: (Ipv4Addr::LOCALHOST, 8932).into(),
            insecure: false,
            auth: None,
            allowed_hosts: vec![],
            allowed_origins: vec![],
            naming: Naming::default(),
            describe_origin: true,
            page_size: None,
            views: IndexMap::new(),
            session_keys: vec![],
            tls: None,
            catalog_cache: None,
            limits: Limits::default(),
            handed: vec![],
            servers: IndexMap::new(),
        }
    }
}

impl fmt::Debug for Config {
    /// Short: any text may have come by a placeholder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.servers.values().collect();
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("admin", &self.admin)
            .field("servers", &servers)
            .finish_non_exhaustive()
    }
}

/// What the MCP endpoint shows and asks for in TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeTls {
    /// Our certificate chain, PEM.
    pub cert: PathBuf,
    /// Our key, PEM.
    pub key: PathBuf,
    /// Authorities for clients' certificates, PEM; without it clients need none.
    pub client_ca: Option<PathBuf>,
}

/// Limits of the whole process; the reasons stand beside the defaults in [`Limits::default`].
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Largest request body from a client, in bytes.
    pub request_body: usize,
    /// Largest message from a server, in bytes (an HTTP body, one SSE event or one stdio line).
    pub upstream_message: usize,
    /// Deepest nesting of a JSON message, either way.
    pub json_depth: usize,
    /// Sessions held at once.
    pub sessions: usize,
    /// How long an idle session is held in memory.
    pub session_idle: Duration,
    /// Calls in flight per session, or per connection of clients without one.
    pub calls_per_session: usize,
    /// Calls in flight of all clients.
    pub calls: usize,
    /// Streams that clients hold open for what they did not ask for.
    pub streams: usize,
    /// Connections of clients.
    pub client_connections: usize,
    /// Bytes of large requests and of unread answers; where absent it goes by how much memory there is.
    pub buffers: Option<usize>,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send the body of a request.
    pub body_timeout: Duration,
    /// How long a client may leave unread what it is sent.
    pub write_timeout: Duration,
    /// Calls in flight per server; more are told at once that it is busy.
    pub calls_per_server: usize,
    /// Connections of single sessions per server; where absent as many as its kind can bear.
    pub connections: Option<usize>,
    /// How long a connection of a single session may be without calls.
    pub connection_idle: Duration,
    /// Calls at once whose clients have no session and were asked something; one server may have half of them.
    pub holds: usize,
    /// How long such a call waits for its client to come back with the answers.
    pub hold_time: Duration,
    /// How long the first list after a start waits for servers that have none yet.
    pub first_list_wait: Duration,
    /// The shortest time between two attempts to connect to one server.
    pub reconnect_interval: Duration,
    /// How often a listing is fetched again where the server cannot tell us of changes.
    pub refresh_interval: Duration,
    /// For how long clients may keep lists of servers that tell of changes and do not say for how long.
    pub list_ttl: Duration,
    /// How long readiness fails before the listener closes, at the end.
    pub drain_delay: Duration,
    /// How long calls in flight may run on, at the end.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_body: 4 << 20,                      // what the official SDK servers accept
            upstream_message: 16 << 20,                 // screenshots and files as base64 fit
            json_depth: 128,  // serde_json's own limit: deeper breaks the next parser
            sessions: 10_000, // as the Python SDK
            session_idle: Duration::from_secs(30 * 60), // as the Python SDK
            calls_per_session: 64,
            calls: 1000,                // a few MiB each at worst, and more than two cores can do
            streams: 5000,              // 16 KiB each
            client_connections: 10_000, // half of the usual 20,000 file descriptors
            buffers: None,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30), // above any pause of a network that recovers
            calls_per_server: 256, // a server that takes a second a call, at more than most can do
            connections: None,
            connection_idle: Duration::from_secs(15 * 60), // a child each: long enough to think, not for ever
            holds: 1024, // each has a request under way at its server, and over stdio perhaps a child
            hold_time: Duration::from_secs(10 * 60), // people are asked
            first_list_wait: Duration::from_secs(5), // npx needs a few seconds to start a server
            reconnect_interval: Duration::from_secs(10), // LibreChat's own figure
            refresh_interval: Duration::from_secs(60),
            list_ttl: Duration::from_secs(60), // a client that misses a change is not wrong for longer
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30), // Kubernetes' default grace
        }
    }
}

/// One configured server.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// The exposed form of its key.
    pub name: ServerName,
    /// The key as written in the file: what people call it.
    pub key: String,
    /// A name for people, if the file gives one.
    pub title: Option<String>,
    /// How to reach it.
    pub reach: Reach,
    /// Which revisions to speak with it.
    pub protocol: Protocol,
    /// Connect at start (`true`) or at the first call (`startup: false`).
    pub eager: bool,
    /// A call's time without any sign of life (progress counts as one).
    pub timeout: Duration,
    /// Connect, handshake and listing together.
    pub connect_timeout: Duration,
    /// A call's time in all, whatever its progress.
    pub max_total: Duration,
    /// How its names are exposed in aggregating views.
    pub naming: Naming,
    /// Which of its tools are offered, and under which names.
    pub tools: Tools,
    /// Whether aggregating views change its URIs so that they cannot meet those of another server.
    pub uri_mode: UriMode,
    /// Globs on URIs that are its own though it does not list them.
    pub owns: Vec<String>,
    /// For whom a connection is.
    pub scope: Scope,
    /// Each session has a connection of its own: the server asks its users.
    pub interactive: bool,
    /// A call that asked a client without a session is ended and made again with the answers, rather than kept waiting.
    pub replay: bool,
    /// How it is treated when it fails or is slow.
    pub care: Care,
    /// The directories it is told of, in place of the client's own; empty leaves that to the client.
    pub roots: Vec<Root>,
    /// What models are told of it.
    pub instructions: Instructions,
    /// The operator's stamp: strictly newer than before replaces the connection. Milliseconds since 1970.
    pub updated_at: Option<u64>,
    /// What the placeholders of its entry stood for: kept out of every text that is shown.
    pub secrets: Vec<String>,
    /// What of `reach` each caller fills in; then nothing can be sent before somebody calls.
    pub personal: Option<Arc<Personal>>,
}

impl Server {
    /// A server of which the file says nothing but its key and how to reach it.
    pub fn new(key: &str, reach: Reach) -> Self {
        Self {
            name: ServerName::expose(key),
            key: key.to_owned(),
            title: None,
            reach,
            protocol: Protocol::Auto,
            eager: true,
            timeout: Duration::from_secs(60),         // as the official SDKs
            connect_timeout: Duration::from_secs(30), // npx may have to download the server
            max_total: Duration::from_secs(30 * 60),
            naming: Naming::default(),
            tools: Tools::default(),
            uri_mode: UriMode::default(),
            owns: vec![],
            scope: Scope::default(),
            interactive: false,
            replay: false,
            care: Care::default(),
            roots: vec![],
            instructions: Instructions::default(),
            updated_at: None,
            secrets: vec![],
            personal: None,
        }
    }
}

impl fmt::Debug for Server {
    /// Any text may have come by a placeholder, so only the name and the way are told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({}, {:?})", self.name, self.reach)
    }
}

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

/// Which revisions to speak with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// Find out.
    Auto,
    /// `initialize` and sessions, revisions up to 2025-11-25.
    Legacy,
    /// Stateless, 2026-07-28 and later.
    Modern,
    /// Just this revision.
    Revision(String),
}

/// Which tools of a server are offered, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// Globs on the server's own names; empty allows all.
    pub allow: Vec<String>,
    /// Globs on the server's own names; denied even if allowed.
    pub deny: Vec<String>,
    /// The server's own name → the name before the suffix.
    pub rename: IndexMap<String, String>,
    /// The server's own name → a description in place of its own.
    pub describe: IndexMap<String, String>,
}

/// What aggregating views do with a server's URIs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UriMode {
    /// They stay as they are.
    #[default]
    Passthrough,
    /// They get the server's name, so that two servers may have the same.
    Prefixed,
}

/// For whom a connection is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// What a direct connection would give: shared as far as the server keeps nothing per session.
    #[default]
    Auto,
    /// For everybody.
    Shared,
    /// For one session.
    Session,
    /// For one principal.
    Principal,
    /// For one request: opened for it, and closed after it.
    Request,
}

/// What models are told of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Instructions {
    /// What it says itself.
    #[default]
    Own,
    /// This, in its place.
    Text(String),
    /// Nothing.
    None,
}
