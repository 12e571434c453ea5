//! Names of methods and notifications.

/// Opens a session.
pub const INITIALIZE: &str = "initialize";
/// The client has read the answer to `initialize`.
pub const INITIALIZED: &str = "notifications/initialized";
/// Are you there?
pub const PING: &str = "ping";
/// What tools are there?
pub const TOOLS_LIST: &str = "tools/list";
/// Runs a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// The list of tools is another one now.
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// How far a request has come.
pub const PROGRESS: &str = "notifications/progress";
/// The sender of a request no longer wants its answer.
pub const CANCELLED: &str = "notifications/cancelled";
/// A line of a server's log.
pub const MESSAGE: &str = "notifications/message";
