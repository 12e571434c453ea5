//! What one request shows.

use std::sync::Arc;

use hyper::header::HeaderMap;

use super::keys::{Denied, identify};
use super::principal::Principal;
use crate::config::Config;

/// Who sends a request, and what of its headers is handed on.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// Who it is.
    pub principal: Principal,
    /// The headers that a server wants to have; none where no server does.
    pub handed: Option<Arc<Handed>>,
}

/// Headers of a request that servers get, as the configuration has it (`{{header.NAME}}`).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Handed;

impl Visitor {
    /// Somebody who need not prove anything, and of whom nothing is handed on.
    pub fn anonymous() -> Self {
        Self { principal: Principal::ANONYMOUS, handed: None }
    }

    /// Who sends `headers`, and what of them `config` hands on.
    ///
    /// # Errors
    /// Where the sender did not prove who he is.
    pub fn of(config: &Config, headers: &HeaderMap) -> Result<Self, Denied> {
        let principal = identify(config.auth.as_ref(), headers)?;
        Ok(Self { principal, handed: None })
    }
}
