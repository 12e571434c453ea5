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

/// What prompts are there?
pub const PROMPTS_LIST: &str = "prompts/list";
/// Fills a prompt in.
pub const PROMPTS_GET: &str = "prompts/get";
/// The list of prompts is another one now.
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
/// What resources are there?
pub const RESOURCES_LIST: &str = "resources/list";
/// What families of resources are there?
pub const TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Tell me when this resource changes.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// No longer tell me.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// The list of resources is another one now.
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// A resource that the client subscribed to is another one now.
pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
/// What could this argument of a prompt or template be?
pub const COMPLETE: &str = "completion/complete";
/// From which level on the client wants log messages.
pub const SET_LEVEL: &str = "logging/setLevel";
/// How a task is doing (2025-11-25).
pub const TASKS_GET: &str = "tasks/get";
/// What came of a task; waits for it (2025-11-25).
pub const TASKS_RESULT: &str = "tasks/result";
/// What tasks are there (2025-11-25)?
pub const TASKS_LIST: &str = "tasks/list";
/// Ends a task (2025-11-25).
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// A task is in another state now (2025-11-25).
pub const TASKS_STATUS: &str = "notifications/tasks/status";
/// A server asks the client's model.
pub const SAMPLING: &str = "sampling/createMessage";
/// A server asks the client's user.
pub const ELICITATION: &str = "elicitation/create";
/// What the user was asked to do elsewhere is done (2025-11-25).
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// A server asks where it may work.
pub const ROOTS_LIST: &str = "roots/list";
/// The client's roots are others now.
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";

/// What can a server do (from 2026-07-28 on)?
pub const DISCOVER: &str = "server/discover";
/// Opens a stream of what changes (from 2026-07-28 on).
pub const LISTEN: &str = "subscriptions/listen";
/// What of a listen request its stream will tell: the first message on it.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Answers what a task asks (extension `io.modelcontextprotocol/tasks`).
pub const TASKS_UPDATE: &str = "tasks/update";
/// How a task is doing now (extension `io.modelcontextprotocol/tasks`).
pub const TASKS_TOLD: &str = "notifications/tasks";
