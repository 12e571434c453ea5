//! The exposed form of a server's key.

use std::fmt;
use std::sync::Arc;

use super::naming::{hash8, is_plain};

/// A server's key as it appears in names and paths: `[A-Za-z0-9_-]` only. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// Turns every other character into `_` and, where that altered the key, appends eight hex digits of its hash:
    /// two keys in another script stay apart.
    pub fn expose(key: &str) -> Self {
        if !key.is_empty() && key.chars().all(is_plain) {
            return Self(key.into());
        }
        let head: String = key.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        Self(format!("{head}_{}", hash8(key)).into())
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::borrow::Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_keys_stay_and_others_are_told_apart() {
        assert_eq!(ServerName::expose("git-hub_2").as_str(), "git-hub_2");
        let (a, b) = (ServerName::expose("数据库"), ServerName::expose("数据表"));
        assert!(a.as_str().starts_with("____") && a != b, "{a} {b}");
        assert_eq!(ServerName::expose("my server").as_str().len(), "my_server_".len() + 8);
    }
}
