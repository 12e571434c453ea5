//! What one request shows.

use std::fmt;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName};

use super::keys::{Denied, identify};
use super::principal::Principal;
use crate::config::{Blank, Config, KeyHash, Lacking, Personal, Values};

/// Who sends a request, and what of its headers is handed on.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// Who it is.
    pub principal: Principal,
    /// Of the key that says so, where one is needed.
    pub key: Option<KeyHash>,
    /// The headers that a server wants to have; none where no server does.
    pub handed: Option<Arc<Handed>>,
}

/// Headers of a request that servers get, as the configuration has it (`{{header.NAME}}`).
#[derive(Clone, PartialEq, Eq)]
pub struct Handed(Vec<(HeaderName, String)>);

impl Visitor {
    /// Somebody who need not prove anything, and of whom nothing is handed on.
    pub fn anonymous() -> Self {
        Self { principal: Principal::ANONYMOUS, key: None, handed: None }
    }

    /// Who sends `headers`, and what of them `config` hands on.
    ///
    /// # Errors
    /// Where the sender did not prove who he is.
    pub fn of(config: &Config, headers: &HeaderMap) -> Result<Self, Denied> {
        let (principal, key) = identify(config.auth.as_ref(), headers)?;
        let handed = if config.handed.is_empty() { None } else { Handed::of(&config.handed, headers) };
        Ok(Self { principal, key, handed: handed.map(Arc::new) })
    }
}

impl Handed {
    fn of(names: &[HeaderName], headers: &HeaderMap) -> Option<Self> {
        let found = names.iter().filter_map(|name| Some((name.clone(), only(headers, name)?.to_owned())));
        let found: Vec<_> = found.collect();
        (!found.is_empty()).then_some(Self(found))
    }

    fn get(&self, name: &HeaderName) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// The only value of a header: of two nobody knows which one is meant.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next().filter(|_| all.next().is_none())?;
    std::str::from_utf8(value.as_bytes()).ok()
}

/// What `principal`, whose request hands on `handed`, has for each blank of a server's settings.
///
/// # Errors
/// Where it lacks one.
pub fn values(
    personal: &Personal,
    principal: &Principal,
    handed: Option<&Handed>,
) -> Result<Values, Lacking> {
    personal.values(|blank| match blank {
        Blank::Header(name) => handed?.get(name),
        Blank::Subject => principal.subject().map(str::to_owned),
        // Whoever shows a key shows nothing else of himself.
        Blank::Email | Blank::Name | Blank::Claim(_) => None,
    })
}

impl fmt::Debug for Handed {
    /// Any of them may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handed({} headers)", self.0.len())
    }
}
