//! How to reach one server: over HTTP or as a child process. Gives a [`Link`].
//!
//! A link carries messages; it knows what belongs to which call and nothing of what is said. It never connects again by
//! itself, never retries, and knows no other link.

mod batch;
mod dialer;
mod failure;
mod http;
mod link;
mod stdio;
mod tally;
#[cfg(test)]
mod testing;
mod text;
mod tls;

pub use dialer::{Dialer, Sizes};
pub use failure::Failure;
pub use link::{Inbound, Link, Reply};
pub use tally::Counts;
