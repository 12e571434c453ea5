//! How loud a log message is.

/// Levels of log messages (RFC 5424; specification, `server/utilities/logging`), quietest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// For those who look for a fault.
    Debug = 1,
    /// What goes on.
    Info,
    /// Worth a note.
    Notice,
    /// Not right yet not wrong.
    Warning,
    /// Wrong.
    Error,
    /// A part is broken.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Of no use any more.
    Emergency,
}

impl Level {
    /// All, quietest first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The level with that number, as `level as u8` gives it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|level| *level as u8 == number)
    }

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn names_and_numbers_lead_back() {
        for level in Level::ALL {
            assert_eq!(Level::of(level.as_str()), Some(level));
            assert_eq!(Level::from_number(level as u8), Some(level));
        }
        assert!(
            Level::of("loud").is_none() && Level::from_number(0).is_none() && Level::Debug < Level::Emergency
        );
    }
}
