//! Whole texts in, configurations or problems out.

mod change;
mod fixtures;
mod hostile;
mod personal;
mod schema;
mod secrets;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{Parsed, Problem, Source, World, parse};

/// Variables and files that exist nowhere but here.
struct Fake {
    variables: HashMap<&'static str, String>,
    files: HashMap<PathBuf, String>,
}

const DIRECTORY: &str = "/etc/trunkline";

impl Fake {
    fn new() -> Self {
        let variables = [
            ("TOKEN", "s3cret-token"),
            ("BREAKS", "s3cret\r\nX-Injected: 1"),
            ("EMPTY", ""),
            ("HOST", "a"),
            ("BRACES", "${TOKEN} {{header.X}}"),
        ];
        let files = [
            ("/run/token", "s3cret-file\r\n\n"),
            ("/etc/trunkline/good.env", "A=s3cret-a\nB=s3cret-b\n"),
            ("/etc/trunkline/good.pem", "-----BEGIN"),
            (
                "/etc/trunkline/good.keys",
                "# old ones last\n\n0101010101010101010101010101010101010101010101010101010101010101\r\n fFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfFfF\n",
            ),
            (
                "/etc/trunkline/bad.keys",
                "s3cret\n# none\n\nc4nary0101010101010101010101010101010101010101010101010101010101\n",
            ),
            ("/etc/trunkline/no.keys", "# none\n"),
            ("/etc/trunkline/bad.env", "A=1\nnothing\n\n=s3cret\n"),
        ];
        Self {
            variables: variables.map(|(name, value)| (name, value.to_owned())).into(),
            files: files.map(|(path, text)| (path.into(), text.to_owned())).into(),
        }
    }

    fn parse(&self, name: &str, text: &str) -> Result<Parsed, Vec<Problem>> {
        parse(text, &Source { name, directory: Path::new(DIRECTORY), world: self })
    }
}

impl World for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn executable(&self) -> io::Result<PathBuf> {
        Ok("/usr/bin/trunkline".into())
    }
}

/// A folder's files with one of these endings, in order.
fn folder(path: &str, endings: &[&str]) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let is_wanted = |path: &PathBuf| {
        path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted))
    };
    let files = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(is_wanted).collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// As `check` shows them.
fn lines(problems: &[Problem]) -> String {
    let line = |problem: &Problem| format!("{problem} [{}]\n", problem.severity);
    problems.iter().map(line).collect::<Vec<_>>().concat()
}
