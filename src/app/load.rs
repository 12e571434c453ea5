//! The configuration file, read.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::{self, DEMO, Machine, Parsed, Problem, Source, World};

/// Where the file is when nobody says: beside the sources, or where the process runs.
pub const DEFAULT: &str = "config/trunkline.yaml";

/// Which file to read.
#[derive(Debug, Clone)]
pub struct Origin {
    path: PathBuf,
    /// Somebody named it, so its absence is an error.
    named: bool,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Unreadable(PathBuf, io::Error),
    /// The file says what cannot be.
    #[error("{}", lines(.0))]
    Wrong(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{}: {problem}", problem.severity)).collect::<Vec<_>>().join("\n")
}

impl Origin {
    /// The file that somebody named, or the default.
    pub fn new(named: Option<PathBuf>) -> Self {
        Self { named: named.is_some(), path: named.unwrap_or_else(|| DEFAULT.into()) }
    }

    /// The file, if it is one: not where the built-in text stands in for it.
    pub fn file(&self) -> Option<&Path> {
        (self.named || self.path.exists()).then_some(&self.path)
    }

    /// Where it says to listen, `listen` and `admin.listen`, even if the rest of it cannot be used: a running trunkline
    /// keeps what it read before.
    ///
    /// # Errors
    /// Where there is no such file: the usual addresses are those of another trunkline.
    pub fn addresses(&self) -> Result<(SocketAddr, SocketAddr), LoadError> {
        let text = match self.file() {
            Some(path) => Machine.read(path).map_err(|error| LoadError::Unreadable(path.into(), error))?,
            None => DEMO.to_owned(),
        };
        let source = Source { name: "", directory: Path::new("."), world: &Machine };
        Ok(config::addresses(&text, &source))
    }

    /// The file's name, for people.
    pub fn name(&self) -> String {
        self.file().map_or_else(|| "the built-in configuration".into(), |path| path.display().to_string())
    }

    /// Reads it.
    ///
    /// # Errors
    /// Where it cannot be read, or is wrong.
    pub fn load(&self) -> Result<Parsed, LoadError> {
        self.load_and_see().0
    }

    /// As [`load`](Self::load), with what it saw.
    pub(super) fn load_and_see(&self) -> (Result<Parsed, LoadError>, Seen) {
        let world = Watched::default();
        let loaded = self.load_from(&world);
        (loaded, Seen(world.0.into_inner()))
    }

    fn load_from(&self, world: &Watched) -> Result<Parsed, LoadError> {
        let read = |text: &str, name: &str, directory: &Path| {
            config::parse(text, &Source { name, directory, world }).map_err(LoadError::Wrong)
        };
        let Some(path) = self.file() else { return read(DEMO, "the built-in configuration", Path::new(".")) };
        let text = world.read(path).map_err(|error| LoadError::Unreadable(path.into(), error))?;
        let whole = std::path::absolute(path).map_err(|error| LoadError::Unreadable(path.into(), error))?;
        let directory = whole.parent().unwrap_or(Path::new("/"));
        read(&text, &path.display().to_string(), directory)
    }
}

/// The files that a load has read, and what they said: where they still say it, another load would find the same.
#[derive(Debug, Default)]
pub(super) struct Seen(Vec<(PathBuf, Option<u64>)>);

impl Seen {
    /// Whether something was read, and all of it still says the same. Costs less than a load: many things are written
    /// beside a configuration.
    pub(super) fn is_still_so(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(path, said)| digest(&Machine.read(path)) == *said)
    }
}

/// The machine; what is read of it is noted.
#[derive(Debug, Default)]
struct Watched(RefCell<Vec<(PathBuf, Option<u64>)>>);

impl World for Watched {
    fn variable(&self, name: &str) -> Option<String> {
        Machine.variable(name)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let text = Machine.read(path);
        self.0.borrow_mut().push((path.into(), digest(&text)));
        text
    }

    fn executable(&self) -> io::Result<PathBuf> {
        Machine.executable()
    }
}

/// Of a file's text, if it can be read.
fn digest(text: &io::Result<String>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    text.as_ref().ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_load_is_due_where_a_file_says_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let (file, secret) = (folder.path().join("c.yaml"), folder.path().join("key"));
        let servers = "mcpServers: {a: {url: 'http://127.0.0.1:1/', headers: {k: '${file:key}'}}}";
        std::fs::write(&file, servers).unwrap();
        let origin = Origin::new(Some(file.clone()));
        assert!(!Seen::default().is_still_so(), "nothing has been read");
        let (loaded, seen) = origin.load_and_see();
        assert!(loaded.is_err() && seen.is_still_so(), "what is not there still is not");
        std::fs::write(&secret, "one").unwrap();
        assert!(!seen.is_still_so());
        let (loaded, seen) = origin.load_and_see();
        assert!(loaded.is_ok() && seen.is_still_so());
        std::fs::write(folder.path().join("other"), "x").unwrap();
        assert!(seen.is_still_so());
        std::fs::write(&secret, "two").unwrap();
        assert!(!seen.is_still_so());
        let (_, seen) = origin.load_and_see();
        std::fs::write(&file, servers.replace('a', "b")).unwrap();
        assert!(!seen.is_still_so());
    }
}
