//! trunkline joins many MCP servers into one streamable-HTTP endpoint.

pub mod app;
pub mod catalog;
pub mod config;
pub mod fleet;
pub mod front;
pub mod mcp;
pub mod metrics;
pub mod names;
pub mod relay;
pub mod session;
pub mod transport;
pub mod upstream;
pub mod wire;
