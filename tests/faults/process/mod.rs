//! Section F: the process, its signals, its machine.

mod drain;
mod signals;
