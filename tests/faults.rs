//! What trunkline must survive, row by row: the test of fault 69 is called `fault_069_…`, and `tests/faults/list` prints
//! which rows have one. Each runs the real program against peers that misbehave in one way, and looks at the rest as
//! well: whoever has nothing to do with the fault must not notice it.
//!
//! Where a row speaks of hours the intervals are scaled, never the counts that matter.

#[cfg(test)]
#[path = "support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other tests need more of it")]
mod support;

#[cfg(test)]
mod faults {
    mod config;
    mod edge;
    mod messages;
    mod process;
    mod servers;
}
