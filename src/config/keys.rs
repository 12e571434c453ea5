//! Every key that a file may hold: the parser checks against these tables and the JSON Schema is made from them, so the
//! two cannot drift.

/// One key of a mapping.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) fate: Fate,
    /// One sentence for editors.
    pub(super) says: &'static str,
}

/// What may stand behind a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Flag,
    Whole,
    Duration,
    Size,
    Time,
    Choice(&'static [&'static str]),
    Texts,
    /// Names of anything → texts.
    Map,
    Fields(&'static [Key]),
    /// Names of anything → servers.
    Servers,
    /// Names of anything → views.
    Views,
    /// Texts, or mappings of these keys.
    Roots,
    /// `true`, `false` or a text.
    FlagOrText,
    /// `false`, or a mapping of these keys.
    FieldsOrFalse(&'static [Key]),
    Anything,
}

impl Kind {
    /// What it must be at least, in the words of `Node::kind`.
    pub(super) fn shape(self) -> &'static str {
        match self {
            Texts | Roots => "a list",
            Map | Fields(_) | FieldsOrFalse(_) | Servers | Views => "a mapping",
            Text | Flag | FlagOrText | Whole | Duration | Size | Time | Choice(_) | Anything => {
                "a single value"
            }
        }
    }
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is read.
    Read,
    /// Another word for the key of this name.
    Same(&'static str),
    /// Concerns another program's own affairs: one note.
    Chat,
    /// Not supported yet, and safe to ignore: one warning.
    Later,
    /// Not supported yet, and unsafe to ignore: an error.
    Refused,
}

use Fate::{Chat, Later, Read, Refused, Same};
use Kind::{
    Anything, Choice, Duration, Fields, FieldsOrFalse, Flag, FlagOrText, Map, Roots, Servers, Size, Text,
    Texts, Time, Views, Whole,
};

const fn key(name: &'static str, kind: Kind, fate: Fate, says: &'static str) -> Key {
    Key { name, kind, fate, says }
}

pub(super) const STYLES: &[&str] = &["suffix", "prefix", "plain"];

/// Our own keys at the top. Whatever else stands there is another program's.
pub(super) const TOP: &[Key] = &[
    key("$schema", Text, Read, "Where editors find this schema."),
    key("listen", Text, Read, "Address and port of the MCP endpoint (127.0.0.1:8931)."),
    key("admin", Fields(ADMIN), Read, "Metrics, probes and the status."),
    key("insecure", Flag, Read, "Lets `listen` be a public address although nobody is authenticated."),
    key("auth", Fields(AUTH), Read, "Who may call; everybody who can reach us where it is not given."),
    key("allowedHosts", Texts, Read, "`Host` names accepted beside the loopback forms."),
    key("allowedOrigins", Texts, Read, "`Origin` values accepted beside the loopback forms."),
    key("naming", Choice(STYLES), Read, "Where a tool's name has its server: `search_mcp_github` (suffix)."),
    key("delimiter", Text, Read, "Between a tool's and a server's name (`_mcp_`)."),
    key("maxNameLength", Whole, Read, "Longest exposed name (64)."),
    key("describeOrigin", Flag, Read, "Puts a server's title before its tools' descriptions (true)."),
    key("limits", Fields(LIMITS), Read, "Sizes, counts and times of the whole process."),
    key("tls", Fields(EDGE_TLS), Read, "TLS of the MCP endpoint; the files are read again when they change."),
    key("mcpServers", Servers, Read, "The servers, as every MCP client writes them."),
    key("servers", Servers, Same("mcpServers"), "VS Code's word for `mcpServers`."),
    key("inputs", Anything, Read, "VS Code asks its user for these; refused unless empty."),
    key("pageSize", Whole, Read, "Items on a page of a list; everything is on one where it is not given."),
    key("views", Views, Read, "More paths, `/mcp/<name>`, with their own selection of servers."),
    key("sessionKeys", Text, Read, "A file of keys for what clients carry for us; replicas share it."),
    key(
        "catalogCache",
        Text,
        Read,
        "A directory for the last known lists, and a key for sessions beside them.",
    ),
    key("sessionStore", Anything, Later, "Where replicas keep what they share."),
    key("bareNames", Anything, Later, "Accepts a tool's own name where only one server has it."),
    key("expose", Anything, Later, "Hides the tools of a server that is down."),
    key("discovery", Anything, Later, "Lists a search tool in place of all tools."),
    key("pinned", Anything, Later, "Tools listed beside the search tool."),
    key("threshold", Anything, Later, "From how many tokens on the search tool is used."),
    key("callLog", Anything, Later, "A log of tool calls."),
    key("resultSpill", Anything, Later, "Keeps large results as resources."),
    key("tracing", Anything, Later, "OpenTelemetry."),
    key("apiKeys", Anything, Refused, "Who may call; ours is `auth.keys`."),
    key("rules", Anything, Refused, "Who may call what."),
    key("guard", Anything, Refused, "Checks of arguments and results."),
];

/// The keys of `auth`.
pub(super) const AUTH: &[Key] = &[key(
    "keys",
    Map,
    Read,
    "A caller's name → its key, best as `${VAR}` or `${file:/path}`, or `sha256:` and the key's hash.",
)];

pub(super) const ADMIN: &[Key] =
    &[key("listen", Text, Read, "Address and port of metrics, probes and the status (127.0.0.1:8932).")];

pub(super) const EDGE_TLS: &[Key] = &[
    key("cert", Text, Read, "The endpoint's certificate chain, a PEM file."),
    key("key", Text, Read, "Its key, a PEM file."),
    key("clientCa", Text, Read, "A PEM file of authorities; clients must show a certificate of theirs."),
];

pub(super) const LIMITS: &[Key] = &[
    key("requestBody", Size, Read, "Largest request body from a client (4MiB)."),
    key("upstreamMessage", Size, Read, "Largest message from a server (16MiB)."),
    key("jsonDepth", Whole, Read, "Deepest nesting of a JSON message (128)."),
    key("sessions", Whole, Read, "Sessions held at once (10000)."),
    key("sessionIdle", Duration, Read, "How long an idle session is held (30m)."),
    key(
        "callsPerSession",
        Whole,
        Read,
        "Calls in flight per client: a session, or a connection without one (64).",
    ),
    key(
        "calls",
        Whole,
        Read,
        "Calls in flight of all clients; beyond them they are told to come again (1000).",
    ),
    key("streams", Whole, Read, "Streams that clients hold open for what they did not ask for (5000)."),
    key("clientConnections", Whole, Read, "Connections of clients (10000)."),
    key(
        "buffers",
        Size,
        Read,
        "Bytes of large requests and unread answers held at once (a quarter of the memory limit, or 256MiB).",
    ),
    key("headerTimeout", Duration, Read, "How long a client may take to send the head of a request (10s)."),
    key(
        "bodyTimeout",
        Duration,
        Read,
        "How long a client may take to send the body, at 1 KiB/s at least (30s).",
    ),
    key("writeTimeout", Duration, Read, "How long a client may leave unread what it is sent (30s)."),
    key("callsPerServer", Whole, Read, "Calls in flight per server; more are told that it is busy (256)."),
    key(
        "connections",
        Whole,
        Read,
        "Connections of single sessions per server (64 child processes, 1000 over HTTP).",
    ),
    key("connectionIdle", Duration, Read, "How long a connection of a single session is held unused (15m)."),
    key(
        "holds",
        Whole,
        Read,
        "Calls that wait for what a client without a session is asked; one server may have half of them (1024).",
    ),
    key("holdTime", Duration, Read, "How long such a call waits for its client to come back (10m)."),
    key(
        "firstListWait",
        Duration,
        Read,
        "How long the first list waits for servers that have none yet (5s).",
    ),
    key(
        "reconnectInterval",
        Duration,
        Read,
        "Shortest time between two attempts to connect to a server (10s).",
    ),
    key(
        "refreshInterval",
        Duration,
        Read,
        "How often a list is fetched where a server cannot tell of changes (60s).",
    ),
    key(
        "listTtl",
        Duration,
        Read,
        "How long clients may keep lists of servers that tell of changes but not for how long (60s).",
    ),
    key(
        "drainDelay",
        Duration,
        Read,
        "How long readiness fails before the listener closes, at the end (0s).",
    ),
    key("drainTimeout", Duration, Read, "How long calls in flight may run on, at the end (30s)."),
];

pub(super) const TYPES: &[&str] =
    &["stdio", "http", "streamable-http", "streamableHttp", "streamable_http", "sse", "websocket", "ws"];

pub(super) const PROTOCOLS: &[&str] =
    &["auto", "modern", "legacy", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Whom a connection is for.
pub(super) const SCOPES: &[&str] = &["auto", "shared", "session", "principal", "request"];

/// The keys of a server's entry.
pub(super) const SERVER: &[Key] = &[
    key("url", Text, Read, "The server's MCP endpoint (http or https)."),
    key("serverUrl", Text, Same("url"), "Windsurf's word for `url`."),
    key("headers", Map, Read, "Sent with every request."),
    key("command", Text, Read, "The program of a stdio server; `self` is trunkline's own."),
    key("args", Texts, Read, "The program's arguments."),
    key("env", Map, Read, "The program's variables."),
    key("envFile", Text, Read, "A file of more variables, one NAME=value a line."),
    key("cwd", Text, Read, "The program's working directory."),
    key("type", Choice(TYPES), Read, "How to reach it; found out where it is not given."),
    key("transport", Choice(TYPES), Same("type"), "Another word for `type`."),
    key("protocol", Choice(PROTOCOLS), Read, "Which revisions to speak (auto)."),
    key("enabled", Flag, Read, "`false` leaves the server out."),
    key("disabled", Flag, Read, "`true` leaves the server out."),
    key("startup", Flag, Read, "`false` connects at the first call, not at start."),
    key("alias", Text, Read, "Exposed under this name in place of its key."),
    key("title", Text, Read, "A name for people."),
    key("description", Text, Read, "What it is for; for readers of this file."),
    key(
        "timeout",
        Duration,
        Read,
        "A call's time without any sign of life (60s; a bare number is milliseconds).",
    ),
    key("connectTimeout", Duration, Read, "Connect, handshake and listing together (30s)."),
    key("initTimeout", Duration, Same("connectTimeout"), "LibreChat's word for `connectTimeout`."),
    key("maxTotal", Duration, Read, "A call's time in all (30m)."),
    key("naming", Choice(STYLES), Read, "Where this server's tools have its name."),
    key("delimiter", Text, Read, "Between its tools' names and its own."),
    key("tools", Fields(TOOLS), Read, "Which tools are offered, and how."),
    key("disabledTools", Texts, Read, "Windsurf's list of tools that are not offered."),
    key("tls", Fields(TLS), Read, "Certificates."),
    key("updatedAt", Time, Read, "A time; a newer one than before replaces the connection."),
    key("requiresOAuth", Flag, Read, "LibreChat's hint that users must sign in; not supported yet."),
    key("customUserVars", Anything, Chat, "What LibreChat asks its users for."),
    key("sseReadTimeout", Anything, Chat, "LibreChat's own time limit for streams."),
    key("chatMenu", Anything, Chat, "Whether LibreChat's menu shows it."),
    key("iconPath", Anything, Chat, "LibreChat's picture for it."),
    key("autoApprove", Anything, Chat, "Tools that a client calls without asking."),
    key("alwaysAllow", Anything, Chat, "Tools that a client calls without asking."),
    key("gallery", Anything, Chat, "Where VS Code has it from."),
    key("version", Anything, Chat, "Its version, in VS Code's gallery."),
    key("dev", Anything, Chat, "How VS Code debugs it."),
    key("scope", Choice(SCOPES), Read, "For whom a connection is (auto)."),
    key("interactive", Flag, Read, "`true` gives every session a connection of its own."),
    key(
        "replay",
        Flag,
        Read,
        "`true` makes a call that asks a client without a session again, with the answers, rather than keep it waiting.",
    ),
    key("roots", Roots, Read, "Directories it is told of, in place of the client's own."),
    key(
        "instructions",
        FlagOrText,
        Read,
        "What models are told of it; `false` is nothing (what it says itself).",
    ),
    key("serverInstructions", FlagOrText, Same("instructions"), "LibreChat's word for `instructions`."),
    key(
        "uriMode",
        Choice(URI_MODES),
        Read,
        "`prefixed` puts its name into its URIs in views of several servers.",
    ),
    key("owns", Texts, Read, "Globs on URIs that are its own though it does not list them."),
    key("retry", Choice(RETRIES), Read, "Tools whose calls may be sent twice, by their annotations (never)."),
    key(
        "breaker",
        FieldsOrFalse(BREAKER),
        Read,
        "When it is given a rest after failed calls; `false` is never.",
    ),
    key("limits", Fields(SERVER_LIMITS), Read, "Its own limits."),
    key("expose", Anything, Later, "Hides its tools while it is down."),
    key("oauth", Anything, Later, "How clients sign in to it."),
    key("auth", Anything, Refused, "How trunkline signs in to it."),
    key("apiKey", Anything, Refused, "LibreChat's key for it; write it into `headers`."),
    key("guard", Anything, Refused, "Checks of its arguments and results."),
];

/// Which tools' calls may be sent twice.
pub(super) const RETRIES: &[&str] = &["never", "readOnly", "idempotent"];

pub(super) const BREAKER: &[Key] = &[
    key("failures", Whole, Read, "After how many failed rounds of calls in a row (3)."),
    key("window", Duration, Read, "Within which time (120s)."),
    key("open", Duration, Read, "For how long at first; doubled up to 5 minutes (30s)."),
];

/// Limits of one server.
pub(super) const SERVER_LIMITS: &[Key] = &[
    key("calls", Whole, Read, "Calls in flight, in place of `limits.callsPerServer`."),
    key(
        "message",
        Size,
        Read,
        "Largest message, in place of `limits.upstreamMessage`; from the next connection on.",
    ),
];

pub(super) const TOOLS: &[Key] = &[
    key("allow", Texts, Read, "Globs on the server's own tool names; empty allows all."),
    key("deny", Texts, Read, "Globs on the server's own tool names, denied even if allowed."),
    key("rename", Map, Read, "The server's own name → another."),
    key("describe", Map, Read, "The server's own name → a description in place of its own."),
    key("annotations", Anything, Later, "The server's own name → annotations in place of its own."),
];

/// The keys of a view.
pub(super) const VIEW: &[Key] = &[
    key("servers", Texts, Read, "Its servers, by key or alias, in the order of its lists; all by default."),
    key("tools", Fields(VIEW_TOOLS), Read, "Which of their tools it has."),
    key("naming", Choice(STYLES), Read, "Where a name has its server, in place of the servers' own."),
    key("delimiter", Text, Read, "Between a tool's and a server's name, in place of the servers' own."),
    key("describeOrigin", Flag, Read, "Puts a server's title before descriptions."),
];

pub(super) const VIEW_TOOLS: &[Key] = &[
    key("allow", Texts, Read, "Globs on the servers' own tool names; empty allows all."),
    key("deny", Texts, Read, "Globs on the servers' own tool names, denied even if allowed."),
];

/// The keys of a root that is more than a path.
pub(super) const ROOT: &[Key] =
    &[key("uri", Text, Read, "A path, or a file:// URI."), key("name", Text, Read, "A name for people.")];

pub(super) const URI_MODES: &[&str] = &["passthrough", "prefixed"];

pub(super) const TLS: &[Key] = &[
    key("ca", Text, Read, "A PEM file of authorities to trust beside the machine's own."),
    key("cert", Text, Read, "Our own certificate chain, a PEM file."),
    key("key", Text, Read, "Our own key, a PEM file."),
    key("insecure", Flag, Read, "Trusts any certificate; for trials only."),
];
