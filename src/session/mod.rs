//! One legacy client's stay: what was agreed at `initialize`, the calls in flight, what waits for its open stream; and
//! the registry of all stays, whose ids are sealed so that a restart or a replica with the same key takes them over.
//!
//! Knows no servers and no HTTP. A session proves nothing about who calls: that is checked with every request.

mod keyring;
mod legs;
mod outbox;
mod registry;
mod stay;
#[cfg(test)]
mod tests;
mod ticket;
mod tombstones;

pub use keyring::Keyring;
pub use legs::{Leg, TooManyLegs};
pub use outbox::Outgoing;
pub use registry::{Full, Sessions};
pub use stay::{BeginError, CallGuard, Session};
pub use ticket::Agreed;
