//! How to reach one server: over HTTP or as a child process. Gives a [`Link`].
//!
//! A link carries messages; it knows what belongs to which call and nothing of what is said. It never connects again by
//! itself, never retries, and knows no other link.

mod dialer;
mod failure;
mod link;

pub use dialer::{Dialer, Sizes};
pub use failure::Failure;
pub use link::{Counts, Inbound, Link, Reply};
