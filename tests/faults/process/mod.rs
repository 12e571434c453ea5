//! Section F: the process, its signals, its machine.

mod drain;
mod groups;
mod machine;
mod network;
mod pod;
mod signals;
mod start;
