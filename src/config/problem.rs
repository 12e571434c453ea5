//! What is wrong with a file, and where.

use std::fmt;
use std::sync::Arc;

/// Something to tell about a place in the file. `Display` is `file:line:column: message`, which editors can jump to.
///
/// The message never holds a value that came by a placeholder, nor one of a header, an argument or a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file's name as the caller gave it.
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong and what to do, in one line.
    pub message: String,
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Probably not what was meant.
    Warning,
    /// The file cannot be used.
    Error,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A place in the text: line and column from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// A key or word of the file fit for a message: one line, not long.
pub(super) fn shown(word: &str) -> String {
    const LONGEST: usize = 60;
    let mut short: String = word.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if word.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}

/// Several of them: `` `a`, `b` and 3 more ``.
pub(super) fn shown_all<'a>(words: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 12;
    let more = words.len().saturating_sub(MOST);
    let list = words.take(MOST).map(shown).collect::<Vec<_>>().join(", ");
    if more == 0 { list } else { format!("{list} and {more} more") }
}
