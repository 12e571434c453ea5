//! HTTP headers of the protocol.

use hyper::header::HeaderName;

/// A client's stay, named by the server (revisions 2025-03-26 to 2025-11-25).
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The negotiated revision, sent by the client from 2025-06-18 on.
pub static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The last event that a client has of a stream which it wants to go on (revisions 2025-03-26 to 2025-11-25).
pub static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// m
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// n
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// p
pub const PARAM: &str = "mcp-param-";
