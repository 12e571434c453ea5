//! Everything that all servers offer, at one moment: routes by exposed name and lists rendered in advance.
//!
//! Immutable: a change builds a new [`Catalog`]. No sockets, no clocks, no tasks.
//!
//! A server's [`Listing`] has [`Item`]s, read once. Under the server's settings it is a [`Part`], made anew when one of the
//! two changes. Each [`View`] has a menu: the parts of its servers under its rules, one list for each kind, made anew when
//! one of those changes. All four kinds and all views go the same way.

mod audience;
mod build;
mod filter;
mod item;
mod keeping;
mod list;
mod listing;
mod manner;
mod menu;
mod part;
mod stored;
mod wrap;

pub use audience::Audience;
pub use build::{Catalog, Route, View};
pub use item::Item;
pub use keeping::Keeping;
pub use list::{BadCursor, Start};
pub use listing::{Budget, Dropped, Listing, Pages, Turn};
pub use part::{Fault, Part};

#[cfg(test)]
mod tests;
