//! Wires everything together and gives it to people: the subcommands.

pub mod demo;
