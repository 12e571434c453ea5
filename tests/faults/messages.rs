//! Section B: what clients say, as JSON-RPC and MCP.
