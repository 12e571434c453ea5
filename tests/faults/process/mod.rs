//! Section F: the process, its signals, its machine.

mod drain;
mod groups;
mod machine;
mod network;
mod signals;
mod start;
