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
        }
    }
}
