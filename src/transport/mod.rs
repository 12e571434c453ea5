//! How to reach one server: over one of the two HTTP transports, or as a child process. Gives a [`Link`].
//!
//! A link carries messages; it knows what belongs to which call and nothing of what is said. It never connects again by
//! itself, never retries, and knows no other link.

mod allowance;
mod batch;
mod dialer;
mod failure;
mod http;
mod inbox;
mod link;
mod stdio;
mod table;
mod tally;
#[cfg(test)]
mod testing;
mod text;
mod tls;
#[cfg(test)]
mod tls_tests;
mod web;

pub use dialer::{Dialer, Sizes};
pub use failure::Failure;
pub use link::{Inbound, Link, Reply};
pub use stdio::{Line, Lines};
pub use tally::Counts;
