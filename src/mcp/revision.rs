//! Revisions of the protocol, by their dates.

use std::fmt;

/// A revision of the protocol (specification, `basic/lifecycle` of each, `basic/versioning` of the newest).
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
    /// Stateless: no handshake and no sessions; every request says who asks and what it can do.
    V2026_07_28,
}

impl Revision {
    /// Those with a handshake and sessions, oldest first.
    pub const LEGACY: [Self; 4] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];
    /// Those without, oldest first.
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];
    /// The newest with a handshake.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest.
    pub const LATEST: Self = Self::V2026_07_28;

    /// The revision with that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::LEGACY.into_iter().chain(Self::MODERN).find(|revision| revision.as_str() == name)
    }

    /// The revision with that name, if a handshake can agree on it.
    pub fn legacy(name: &str) -> Option<Self> {
        Self::of(name).filter(|revision| !revision.is_modern())
    }

    /// The revision with that name, if requests can name it by themselves.
    pub fn modern(name: &str) -> Option<Self> {
        Self::of(name).filter(|revision| revision.is_modern())
    }

    /// What `initialize` is answered where a client asked for `name`: the same if a handshake can agree on it, else the
    /// newest that can be.
    pub fn negotiate(name: &str) -> Self {
        Self::legacy(name).unwrap_or(Self::LATEST_LEGACY)
    }

    /// Whether it has neither handshake nor sessions.
    pub fn is_modern(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether messages may come as arrays. Only this one revision knows them.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether streams begin with an event without a message, which clients of older revisions may choke on. The newest
    /// has no events with ids.
    pub fn has_priming(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
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
    fn a_handshake_agrees_on_what_both_know() {
        for revision in Revision::LEGACY {
            assert_eq!(Revision::negotiate(revision.as_str()), revision);
        }
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate(""), Revision::V2025_11_25);
        assert_eq!(Revision::of("2026-07-28"), Some(Revision::LATEST));
        assert!(Revision::legacy("2026-07-28").is_none() && Revision::modern("2025-11-25").is_none());
    }
}
