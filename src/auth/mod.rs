//! Who calls: what a request shows → a [`Principal`], and what of it the configuration hands on to servers.
//!
//! Knows keys so far. No sockets, no tasks; sessions know a principal as text.

mod keys;
mod principal;
mod visitor;

pub use keys::{Denied, admits};
pub use principal::Principal;
pub use visitor::{Handed, Visitor, values};
