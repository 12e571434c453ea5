//! trunkline joins many MCP servers into one streamable-HTTP endpoint.

pub mod app;
pub mod config;
pub mod metrics;
pub mod names;
pub mod session;
pub mod wire;
