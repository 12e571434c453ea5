//! trunkline joins many MCP servers into one streamable-HTTP endpoint.

pub mod catalog;
pub mod config;
pub mod mcp;
pub mod metrics;
pub mod names;
pub mod transport;
pub mod upstream;
pub mod wire;
