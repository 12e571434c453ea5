//! JSON-RPC error codes.

/// The codes that we give ourselves (specification, `basic` page of each revision). Codes of servers pass as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Not JSON.
    Parse,
    /// JSON, but no JSON-RPC message.
    InvalidRequest,
    /// A method that is unknown or not offered.
    MethodNotFound,
    /// Unknown tool, prompt or resource; a bad cursor, level or argument.
    InvalidParams,
    /// We or the server failed.
    Internal,
    /// A resource that nobody has (revisions up to 2025-11-25).
    ResourceNotFound,
    /// A header of a modern request that is missing or says something else than the body (from 2026-07-28 on).
    HeaderMismatch,
    /// The request needs something that its client did not declare (from 2026-07-28 on).
    MissingCapability,
    /// A revision that we do not speak (from 2026-07-28 on).
    UnsupportedRevision,
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::ResourceNotFound => -32002,
            Self::HeaderMismatch => -32020,
            Self::MissingCapability => -32021,
            Self::UnsupportedRevision => -32022,
        }
    }
}
