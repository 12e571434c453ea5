//! What fuzzers feed: every reader of what peers and operators write, and what must hold of what it read.
//!
//! `libfuzzer` beside this makes programs for cargo-fuzz of it, and `tests/fuzz/run` runs them. A finding that was mended
//! goes into the corpus as a file; the tests here feed every one of those.
#![forbid(unsafe_code)]

mod doors;
mod messages;
mod names;
mod script;

pub use script::{Random, play};

/// Reads an input and looks whether what must hold does. Tells what does not; what panics is a finding as well.
pub type Target = fn(&[u8]) -> Result<(), String>;

/// Every target, by the name of its corpus.
pub const TARGETS: [(&str, Target); 11] = [
    ("envelope", messages::envelope),
    ("passage", messages::passage),
    ("events", messages::events),
    ("stdio", doors::stdio),
    ("names", names::names),
    ("config", doors::config),
    ("headers", messages::headers),
    ("doors", doors::doors),
    ("seals", messages::seals),
    ("rounds", messages::rounds),
    ("script", play),
];

/// Feeds `input` to the target `name`, as libFuzzer wants it: a finding is a panic.
///
/// # Panics
/// Where something does not hold, or there is no such target.
pub fn feed(name: &str, input: &[u8]) {
    let found = look(name, input);
    assert!(found.is_ok(), "{name}: {found:?}");
}

fn look(name: &str, input: &[u8]) -> Result<(), String> {
    let target = TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| target);
    target.map_or_else(|| Err("there is no such target".into()), |target| target(input))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_was_found_once_is_not_found_again() {
        for (name, target) in TARGETS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
            let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(!files.is_empty(), "the corpus of {name} is empty");
            for file in files {
                assert_eq!(target(&fs::read(&file).unwrap()), Ok(()), "{}", file.display());
            }
        }
    }

    // Not by a panic: those of this process are counted while scripts run.
    #[test]
    fn a_target_that_is_not_there_is_no_pass() {
        assert!(look("nothing", b"").is_err());
        assert_eq!(look("envelope", b""), Ok(()));
    }
}
