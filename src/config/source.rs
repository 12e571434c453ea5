//! Where a text comes from, and what it may look up.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file a text was read from, and the world it may look into.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The file's name, for messages.
    pub name: &'a str,
    /// The file's directory, absolute: `envFile`, `${file:…}`, certificates and roots are relative to it.
    pub directory: &'a Path,
    /// Variables and files.
    pub world: &'a dyn World,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.name)
    }
}

/// What a configuration may look up outside of its own text.
pub trait World {
    /// An environment variable, if it is set.
    fn variable(&self, name: &str) -> Option<String>;
    /// A small file's text.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Our own executable: what `command: self` means.
    fn executable(&self) -> io::Result<PathBuf>;
}

/// The process's own environment and the machine's files.
#[derive(Debug, Clone, Copy)]
pub struct Machine;

impl World for Machine {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        const LARGEST: u64 = 1 << 20; // a Kubernetes secret's own limit
        // A pipe or a device could make us wait for ever.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut text = String::new();
        std::fs::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
        if text.len() as u64 > LARGEST {
            return Err(io::Error::other("larger than 1 MiB"));
        }
        Ok(text)
    }

    fn executable(&self) -> io::Result<PathBuf> {
        std::env::current_exe()
    }
}
