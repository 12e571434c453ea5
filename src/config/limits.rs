//! Sizes, counts and times that hold for the whole process.

use std::time::Duration;

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
