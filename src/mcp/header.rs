//! HTTP headers of the protocol.

use hyper::header::HeaderName;

/// A client's stay, named by the server (revisions 2025-03-26 to 2025-11-25).
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The negotiated revision, sent by the client from 2025-06-18 on.
pub static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The last event that a client has of a stream which it wants to go on (revisions 2025-03-26 to 2025-11-25).
pub static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A modern request's method (from 2026-07-28 on, `basic/transports/streamable-http`, as the next two).
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What a modern request names: see [`named_by`](super::named_by).
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What the headers begin with that repeat single arguments of a tool's call.
pub const PARAM: &str = "mcp-param-";
