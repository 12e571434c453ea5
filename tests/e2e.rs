//! The real program against fake servers and clients of raw bytes. One binary for all of it: linking takes longer than
//! running.
//!
//! `TRUNKLINE_LONG=1` runs the counts of issue 2 in full.

#[cfg(test)]
#[path = "support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other tests need more of it")]
mod support;

#[cfg(test)]
mod e2e {
    mod audience;
    mod batches;
    mod bridge;
    mod bytes;
    mod cache;
    mod cancellation;
    mod churn;
    mod crossing;
    mod dead;
    mod eras_up;
    mod exit;
    mod features;
    mod held;
    mod hostile;
    mod keys;
    mod keys_auth;
    mod keys_links;
    mod killed;
    mod leaks;
    mod legs;
    mod long;
    mod modern;
    mod older;
    mod outage;
    mod own;
    mod protocol;
    mod resume;
    mod tasks;
    mod tasks_across;
    mod unasked;
    mod upstream;
    mod views;
}
