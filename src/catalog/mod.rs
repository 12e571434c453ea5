//! Everything that all servers offer, at one moment: routes by exposed name and lists rendered in advance.
//!
//! Immutable: a change builds a new [`Catalog`]. No sockets, no clocks, no tasks.

mod build;
mod filter;
mod listing;
mod part;

pub use build::{Catalog, Route, View};
pub use listing::{Budget, Item, Listing, Pages, Turn};
pub use part::Part;

#[cfg(test)]
mod tests;
