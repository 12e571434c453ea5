//! The configuration file, read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::{self, DEMO, Machine, Parsed, Problem, Source, World as _};

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
    Unreadable(PathBuf, std::io::Error),
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
        let Some(path) = self.file() else { return read(DEMO, "the built-in configuration", Path::new(".")) };
        let text = Machine.read(path).map_err(|error| LoadError::Unreadable(path.into(), error))?;
        let whole = std::path::absolute(path).map_err(|error| LoadError::Unreadable(path.into(), error))?;
        let directory = whole.parent().unwrap_or(Path::new("/"));
        read(&text, &path.display().to_string(), directory)
    }
}

fn read(text: &str, name: &str, directory: &Path) -> Result<Parsed, LoadError> {
    config::parse(text, &Source { name, directory, world: &Machine }).map_err(LoadError::Wrong)
}
