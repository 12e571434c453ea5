//! Section E: the configuration and its reload.
