//! What the programs of the benchmark share: `upstream` (a fast MCP server), `pass` (the floor: a proxy that only
//! passes bytes on), `floor` (the same before a child's pipe), `load` (the load generator) and `crowd` (many that do
//! little). `tests/bench/run` puts them together.
//!
//! Nothing here is used by trunkline itself, so that the meter cannot share a fault with what it measures.
#![forbid(unsafe_code)]

pub mod answer;
pub mod client;
pub mod mcp;
pub mod net;
pub mod older;
pub mod pieces;
pub mod process;
pub mod server;
pub mod session;
pub mod stdio;
pub mod tally;

/// The MCP revisions with an `initialize` handshake, oldest first. The last is what a server offers to a client
/// that asks for one it does not know (specification, 2025-11-25, basic/lifecycle).
pub const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST];

/// The newest revision with a handshake.
pub const NEWEST: &str = "2025-11-25";

/// The revision without a handshake.
pub const MODERN: &str = "2026-07-28";
