//! The protocol's own facts: revisions, headers, methods, and the handshake's messages as text.
//!
//! Pure functions over text; nothing here knows sockets, clocks or tasks.

pub mod header;
mod hello;
pub mod method;
mod revision;

pub use hello::{Asked, Hello, initialize_params, initialize_result};
pub use revision::Revision;
