//! API keys: `Authorization: Bearer KEY` or `X-Api-Key: KEY`.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::principal::Principal;
use crate::config::{Auth, KeyHash};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Of whom keys are.
const ISSUER: &str = "keys";

/// Why somebody is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was shown.
    #[error("a key is needed: send it as `Authorization: Bearer KEY` or as `X-Api-Key: KEY`")]
    Missing,
    /// What was shown is no key of anybody's.
    #[error(
        "this key is not known; send one of those that the configuration of trunkline names under `auth`"
    )]
    Unknown,
}

/// Who sends these headers, and the key's hash that says so. Without `auth` that is nobody in particular, whatever they say.
pub(super) fn identify(
    auth: Option<&Auth>,
    headers: &HeaderMap,
) -> Result<(Principal, Option<KeyHash>), Denied> {
    let Some(auth) = auth else { return Ok((Principal::ANONYMOUS, None)) };
    let shown = shown(headers)?;
    let hash = KeyHash::of(shown);
    // All are looked at, so the time says nothing of who it is, nor of how near a guess came.
    let mut found = None;
    for key in &auth.keys {
        if verify_slices_are_equal(key.hash.bytes(), hash.bytes()).is_ok() {
            found = Some(key);
        }
    }
    found.map(|key| (Principal::new(ISSUER, &key.name), Some(key.hash))).ok_or(Denied::Unknown)
}

/// Whether the principal of that text is still one of those who may call, by the key that was shown for it.
pub fn admits(auth: Option<&Auth>, principal: Option<&Arc<str>>, key: Option<KeyHash>) -> bool {
    let Some(auth) = auth else { return principal.is_none() };
    let (Some(principal), Some(hash)) = (principal, key) else { return false };
    let subject = principal.strip_prefix(ISSUER).and_then(|rest| rest.strip_prefix(' '));
    subject.is_some_and(|subject| auth.keys.iter().any(|key| *key.name == *subject && key.hash == hash))
}

/// The key that is shown. `X-Api-Key` is never anything else, so that goes first: beside it `Authorization` may be meant for
/// a server.
fn shown(headers: &HeaderMap) -> Result<&[u8], Denied> {
    if headers.contains_key(API_KEY) {
        return only(headers, &API_KEY).map(HeaderValue::as_bytes).ok_or(Denied::Unknown);
    }
    if !headers.contains_key(AUTHORIZATION) {
        return Err(Denied::Missing);
    }
    only(headers, &AUTHORIZATION).and_then(|value| bearer(value.as_bytes())).ok_or(Denied::Unknown)
}

/// The only value of a header: of two nobody knows which one counts.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut all = headers.get_all(name).iter();
    all.next().filter(|_| all.next().is_none())
}

/// What follows the scheme, whose name may be written in any case (RFC 9110 §11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApiKey;

    fn who(headers: &[(&'static str, &'static str)]) -> Result<Option<String>, Denied> {
        let key = |name: &str, key: &str| ApiKey { name: name.into(), hash: KeyHash::of(key.as_bytes()) };
        let auth = Auth { keys: vec![key("alice", "a-key"), key("bob", "b-key")] };
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(identify(None, &all), Ok((Principal::ANONYMOUS, None)));
        identify(Some(&auth), &all).map(|(who, _)| who.subject().map(str::to_owned))
    }

    #[test]
    fn a_key_tells_who_it_is() {
        let (alice, bob) = (Ok(Some("alice".to_owned())), Ok(Some("bob".to_owned())));
        assert_eq!(who(&[("authorization", "Bearer a-key")]), alice);
        assert_eq!(who(&[("authorization", "bEARER  b-key ")]), bob);
        assert_eq!(who(&[("x-api-key", "b-key")]), bob);
        // A token of a server's beside it.
        assert_eq!(who(&[("authorization", "Bearer other"), ("x-api-key", "a-key")]), alice);
    }

    #[test]
    fn whoever_lost_his_key_is_no_longer_let_in() {
        let [first, second, third] = [&b"a-key"[..], b"b-key", b"c-key"].map(KeyHash::of);
        let key = |name: &str, hash| ApiKey { name: name.into(), hash };
        let auth = Auth { keys: vec![key("alice", first), key("a b", second)] };
        for (subject, hash, let_in) in [
            ("alice", first, true),
            ("a b", second, true),
            ("alice", second, false),
            ("alice", third, false),
            ("alic", first, false),
            ("", first, false),
            ("b", second, false),
        ] {
            let principal = Principal::new(ISSUER, subject);
            assert_eq!(admits(Some(&auth), principal.text(), Some(hash)), let_in, "{subject:?}");
            assert!(!admits(Some(&auth), principal.text(), None));
            assert!(!admits(None, principal.text(), Some(hash)), "nobody has a name any more");
        }
        assert!(admits(None, None, None) && !admits(Some(&auth), None, None));
        let other = Principal::new("https://other", "alice");
        assert!(!admits(Some(&auth), other.text(), Some(first)));
    }

    #[test]
    fn nothing_else_does() {
        assert_eq!(who(&[]), Err(Denied::Missing));
        for headers in [
            &[("authorization", "Bearer")][..],
            &[("authorization", "Bearer ")],
            &[("authorization", "")],
            &[("authorization", "a-key")],
            &[("authorization", "Basic a-key")],
            &[("authorization", "Bearer a-ke")],
            &[("authorization", "Bearer a-key a-key")],
            &[("authorization", "Bearer a-key"), ("authorization", "Bearer a-key")],
            &[("authorization", "Bearer a-key"), ("x-api-key", "")],
            &[("x-api-key", "a-key"), ("x-api-key", "b-key")],
            &[("x-api-key", "A-KEY")],
            &[("x-api-key", "alice")],
        ] {
            assert_eq!(who(headers), Err(Denied::Unknown), "{headers:?}");
        }
    }
}
