//! Who a list is for.

use crate::mcp::{Revision, UI_EXTENSION, declares};

/// What of a client decides how lists read to it. Nothing else of it may: of one authorization lists do not vary by
/// connection (specification of 2026-07-28, `server/utilities/caching`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Audience {
    /// It speaks a revision without sessions.
    pub modern: bool,
    /// It shows pages of tools (the extension MCP Apps).
    pub ui: bool,
}

impl Audience {
    /// A client of the `revision` of that name with these raw `capabilities`. Those of a session and those of a request
    /// say the same in the same place.
    pub fn of(revision: &str, capabilities: &str) -> Self {
        Self { modern: Revision::modern(revision).is_some(), ui: declares(capabilities, UI_EXTENSION) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_from_revision_and_capabilities() {
        for (revision, capabilities, modern, ui) in [
            ("2025-11-25", "{}", false, false),
            ("2026-07-28", "nope", true, false),
            ("2026-07-28", r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":[]}}}"#, true, true),
            ("2025-06-18", r#"{"extensions":{"io.modelcontextprotocol\/ui":{}}}"#, false, true),
            ("2025-06-18", r#"{"extensions":{"io.modelcontextprotocol/ui":null}}"#, false, false),
            ("2025-06-18", r#"{"experimental":{"io.modelcontextprotocol/ui":{}}}"#, false, false),
            ("", r#"{"extensions":["io.modelcontextprotocol/ui"]}"#, false, false),
        ] {
            assert_eq!(Audience::of(revision, capabilities), Audience { modern, ui }, "{capabilities}");
        }
    }
}
