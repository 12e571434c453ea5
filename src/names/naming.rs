//! `<tool>_mcp_<server>` and its relatives.

use super::ServerName;

/// How a server's tools are named in a view of several servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// On which side of the tool's name the server's stands.
    pub style: Style,
    /// Between the two; `_mcp_` by default.
    pub delimiter: String,
    /// Longest exposed name, in characters. 64 is what model APIs accept.
    pub max_length: usize,
}

/// On which side of the tool's name the server's stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `search_mcp_github`
    Suffix,
    /// `github_mcp_search`
    Prefix,
    /// `search`
    Plain,
}

/// A name as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// The name.
    pub name: String,
    /// Whether the tool's own name was changed to fit: such a name ends in eight hex digits of its hash.
    pub altered: bool,
}

impl Default for Naming {
    fn default() -> Self {
        Self { style: Style::Suffix, delimiter: "_mcp_".into(), max_length: 64 }
    }
}

impl Naming {
    /// The exposed name of `tool` on `server`.
    pub fn expose(&self, tool: &str, server: &ServerName) -> Exposed {
        let beside = match self.style {
            Style::Suffix | Style::Prefix => self.delimiter.len() + server.as_str().len(),
            Style::Plain => 0,
        };
        let (part, altered) = fit(tool, self.max_length.saturating_sub(beside), self.style == Style::Prefix);
        let name = match self.style {
            Style::Suffix => format!("{part}{}{server}", self.delimiter),
            Style::Prefix => format!("{server}{}{part}", self.delimiter),
            Style::Plain => part,
        };
        Exposed { name, altered }
    }

    /// What an exposed name of `server` ends with, where this naming puts the server last.
    pub fn tail(&self, server: &ServerName) -> Option<String> {
        (self.style == Style::Suffix).then(|| format!("{}{server}", self.delimiter))
    }
}

/// `raw` made of plain characters, starting with a letter or `_`, at most `room` long.
fn fit(raw: &str, room: usize, follows: bool) -> (String, bool) {
    let starts_well = |c: char| follows || c.is_ascii_alphabetic() || c == '_';
    let plain = raw.chars().all(is_plain) && raw.chars().next().is_some_and(starts_well);
    if plain && raw.len() <= room {
        return (raw.to_owned(), false);
    }
    let mut head: String = raw.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if !head.chars().next().is_some_and(starts_well) {
        head.insert(0, '_');
    }
    head.truncate(room.saturating_sub(HASH + 1)); // ASCII by now, so any place is a boundary
    (format!("{head}_{}", hash8(raw)), true)
}

/// Hex digits of a hash in a name.
const HASH: usize = 8;

/// Eight hex digits of FNV-1a: stable across versions and machines, which `std`'s hashers do not promise.
pub(super) fn hash8(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

/// What may stand in an exposed name.
pub(super) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(tool: &str, server: &str) -> String {
        Naming::default().expose(tool, &ServerName::expose(server)).name
    }

    #[test]
    fn a_fitting_name_is_only_joined() {
        assert_eq!(exposed("search", "github"), "search_mcp_github");
        let prefix = Naming { style: Style::Prefix, ..Naming::default() };
        assert_eq!(prefix.expose("1st", &ServerName::expose("a")).name, "a_mcp_1st");
    }

    #[test]
    fn unlike_names_stay_unlike_within_64() {
        let raws = ["a.b", "a/b", "a b", "a_b", "1st", "_1st", "", &"x".repeat(99), &"x".repeat(98)];
        let names: std::collections::HashSet<_> = raws.iter().map(|raw| exposed(raw, "alpha")).collect();
        assert_eq!(names.len(), raws.len());
        assert!(names.iter().all(|name| name.len() <= 64 && name.ends_with("_mcp_alpha")), "{names:?}");
    }

    #[test]
    fn a_long_server_keeps_its_tail() {
        let server = "a-rather-long-server-name-of-40-characters-x";
        let name = exposed("list_all_the_pull_requests", server);
        assert!(name.len() <= 64 && name.ends_with(server), "{name}");
    }
}
