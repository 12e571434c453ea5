//! One legacy client's stay: what was agreed at `initialize`, the calls in flight, what waits for its open stream; and
//! the registry of all stays, whose ids are sealed so that a restart or a replica with the same key takes them over.
//!
//! Knows no servers and no HTTP. A session proves nothing about who calls: that is checked with every request.

mod event_id;
mod follower;
mod keyring;
mod legs;
mod load;
mod registry;
mod ring;
mod spool;
mod stay;
mod streams;
#[cfg(test)]
mod tests;
mod ticket;
mod tombstones;

pub use follower::{Feed, Follower};
pub use keyring::Keyring;
pub use legs::{Leg, TooManyLegs};
pub use registry::{Full, Sessions};
pub use spool::Told;
pub use stay::{BeginError, CallGuard, Session};
pub use streams::{Resumed, lone_id};
pub use ticket::{Agreed, Whose};
