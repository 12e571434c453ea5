//! The protocol's own facts: revisions, headers, methods, and the handshake's messages as text.
//!
//! Pure functions over text; nothing here knows sockets, clocks or tasks.

mod client;
mod feature;
pub mod header;
mod hello;
mod letter;
mod level;
pub mod method;
mod offers;
mod revision;
mod task_support;

pub use client::{Abilities, Unable, abilities_for, all_abilities, is_leg};
pub use feature::{Feature, Features};
pub use hello::{Asked, Hello, initialize_params, initialize_result};
pub use letter::{Letter, Mirror};
pub use level::Level;
pub use offers::Offers;
pub use revision::Revision;
pub use task_support::TaskSupport;
mod stub;
pub use stub::*;
