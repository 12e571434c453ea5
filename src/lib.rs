//! trunkline joins many MCP servers into one streamable-HTTP endpoint.

pub mod config;
pub mod names;
pub mod transport;
pub mod wire;
