//! Wires everything together and gives it to people: the subcommands.

pub mod client;
pub mod demo;
