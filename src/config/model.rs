//! What a checked configuration says: typed values only, every placeholder already replaced, every default already in.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use indexmap::IndexMap;

use super::auth::Auth;
use super::care::Care;
use super::limits::Limits;
use super::personal::Personal;
use super::roots::Root;
use super::views::ViewRules;
pub use super::way::{Http, HttpTransport, Reach, Stdio, Tls};
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
