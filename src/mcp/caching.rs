//! How long a result may be kept, and for whom (specification of 2026-07-28, `server/utilities/caching`).

use crate::wire::{Text, members};

/// Who may be given a result that was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Anyone.
    Public,
    /// Those with the same authorization.
    #[default]
    Private,
}

/// What a result says of being kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caching {
    /// For how many milliseconds it may be taken for fresh.
    pub ttl_ms: u64,
    /// Who may be given it.
    pub scope: Scope,
}

impl Scope {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

impl Caching {
    /// Not to be kept at all.
    pub const NEVER: Self = Self { ttl_ms: 0, scope: Scope::Private };

    /// What the raw `result` says; what it does not say, or says wrongly, is taken for the most careful.
    pub fn read(result: &str) -> Self {
        let Ok([ttl, scope]) = members(result, ["ttlMs", "cacheScope"]) else { return Self::NEVER };
        let raw = |at: Option<_>| at.and_then(|at| result.get(at)).unwrap_or_default();
        let scope = match Text::of(raw(scope)).as_deref() {
            Some("public") => Scope::Public,
            _ => Scope::Private,
        };
        Self { ttl_ms: raw(ttl).parse().unwrap_or(0), scope }
    }

    /// What may be said of a result that holds both this and that.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl_ms: self.ttl_ms.min(other.ttl_ms), scope: self.scope.max(other.scope) }
    }

    /// As members of a result.
    pub fn write(self) -> String {
        format!(r#""ttlMs":{},"cacheScope":"{}""#, self.ttl_ms, self.scope.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_not_kept() {
        let public = |ttl_ms| Caching { ttl_ms, scope: Scope::Public };
        for (text, caching) in [
            (r#"{"ttlMs":5,"cacheScope":"public"}"#, public(5)),
            (r#"{"ttlMs":-5,"cacheScope":"public"}"#, public(0)),
            (r#"{"ttlMs":1.5,"cacheScope":"Public"}"#, Caching::NEVER),
            (r#"{"ttlMs":7}"#, Caching { ttl_ms: 7, scope: Scope::Private }),
            ("{}", Caching::NEVER),
            ("null", Caching::NEVER),
        ] {
            assert_eq!(Caching::read(text), caching, "{text}");
            assert_eq!(Caching::read(&format!("{{{}}}", caching.write())), caching);
        }
        assert_eq!(public(5).and(public(3)), public(3));
        assert_eq!(public(5).and(Caching { ttl_ms: 9, scope: Scope::Private }).scope, Scope::Private);
    }
}
