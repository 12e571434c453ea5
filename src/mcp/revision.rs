//! The revisions of the legacy era.

use std::fmt;

/// A revision with a handshake and sessions (specification, `basic/lifecycle` page of each).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// HTTP+SSE; no version header.
    V2024_11_05,
    /// Streamable HTTP; batches.
    V2025_03_26,
    /// No batches; the version header is required; elicitation.
    V2025_06_18,
    /// Stream polling, URL elicitation, tasks.
    V2025_11_25,
}

impl Revision {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];
    /// The newest.
    pub const LATEST: Self = Self::V2025_11_25;

    /// The revision with that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// What a server answers to a client that asked for `name`: the same if we know it, else our newest.
    pub fn negotiate(name: &str) -> Self {
        Self::of(name).unwrap_or(Self::LATEST)
    }

    /// Whether messages may come as arrays. Only this one revision knows them.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether streams begin with an event without a message, which clients of older revisions may choke on.
    pub fn has_priming(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Revision;

    #[test]
    fn negotiates_what_both_know() {
        for revision in Revision::ALL {
            assert_eq!(Revision::negotiate(revision.as_str()), revision);
        }
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate(""), Revision::V2025_11_25);
    }
}
