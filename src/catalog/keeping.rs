//! For how long, and for whom, a server lets its lists be kept.

use crate::wire::Text;

/// What a server said of a list of its (specification of 2026-07-28, `server/utilities/caching`). How old the list is by
/// now others know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keeping {
    /// For how many milliseconds from its receipt on; `None` where the server did not say, as no server with a handshake
    /// does.
    pub ttl_ms: Option<u64>,
    /// Nobody else's client may see what was listed for one.
    pub private: bool,
}

impl Keeping {
    /// Reads the raw `ttlMs` and `cacheScope` of a result. What is no such number counts as 0 where it stands there, and
    /// an unknown scope as the narrower one.
    pub fn parse(ttl: Option<&str>, scope: Option<&str>) -> Self {
        let scope = scope.map(Text::of);
        Self {
            ttl_ms: ttl.map(millis),
            private: scope.is_some_and(|scope| scope.as_deref() != Some("public")),
        }
    }

    /// What holds for two together: the shorter time, and the narrower scope. A time that is not known is the other's.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let ttl_ms = match (self.ttl_ms, other.ttl_ms) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self { ttl_ms, private: self.private || other.private }
    }
}

/// A number of milliseconds; 0 for what is below, or none.
fn millis(raw: &str) -> u64 {
    raw.parse().unwrap_or_else(|_| {
        let most = 1e15; // beyond any life
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        raw.parse::<f64>().ok().filter(|ms| ms.is_finite()).map_or(0, |ms| ms.clamp(0.0, most) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_servers_say() {
        let told = |ttl, scope| {
            let keeping = Keeping::parse(ttl, scope);
            (keeping.ttl_ms, keeping.private)
        };
        assert_eq!(told(None, None), (None, false));
        assert_eq!(told(Some("60000"), Some(r#""public""#)), (Some(60_000), false));
        assert_eq!(told(Some("6e4"), Some(r#""private""#)), (Some(60_000), true));
        assert_eq!(told(Some("-1"), Some(r#""else""#)), (Some(0), true));
        assert_eq!(told(Some(r#""1""#), Some("7")), (Some(0), true));
        assert_eq!(told(Some("1e999"), None), (Some(0), false));
    }

    #[test]
    fn together_the_stricter_holds() {
        let of = |ttl_ms, private| Keeping { ttl_ms, private };
        assert_eq!(of(Some(5), false).and(of(Some(3), true)), of(Some(3), true));
        assert_eq!(of(None, true).and(of(Some(3), false)), of(Some(3), true));
        assert_eq!(Keeping::default().and(Keeping::default()), Keeping::default());
    }
}
