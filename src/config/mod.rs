//! The configuration file's model: as written → checked [`Config`], every problem at once with its place; and the
//! [`Change`] between two.
//!
//! Nothing here watches files or knows that time passes. [`parse`] reads what a text refers to through a [`World`], so a
//! test needs neither files nor variables.

mod auth;
mod care;
mod change;
mod env_file;
mod exposed;
mod keys;
mod limits;
mod model;
mod near;
mod node;
mod personal;
mod placeholder;
mod problem;
mod reach;
mod reader;
mod roots;
mod schema;
mod server;
mod session_keys;
mod source;
mod text;
mod top;
mod unique;
mod units;
mod views;
mod way;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use auth::{ApiKey, Auth, KeyChange, KeyHash};
pub use care::{Breaker, Care, Retry};
pub use change::Change;
pub use limits::Limits;
pub use model::{
    Config, EdgeTls, Http, HttpTransport, Instructions, Protocol, Reach, Scope, Server, Stdio, Tls, Tools,
    UriMode,
};
pub use personal::{Blank, Lacking, Personal, Values};
pub use problem::{Problem, Severity};
pub use roots::Root;
pub use schema::schema;
pub use source::{Machine, Source, World};
pub use views::ViewRules;

use reader::Reader;

/// What runs where there is no file: one server, our own demo.
pub const DEMO: &str = include_str!("../../config/trunkline.yaml");

/// A text that can be used.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What it says.
    pub config: Config,
    /// Warnings and notes, in the order of the text.
    pub notes: Vec<Problem>,
    /// Every file the text refers to (`${file:…}`, `envFile`, certificates): when one changes, parse again.
    pub files: Vec<PathBuf>,
}

/// Reads YAML or JSON. Where anything is wrong, everything that is wrong is told, in the order of the text, warnings and
/// notes among it.
pub fn parse(text: &str, source: &Source<'_>) -> Result<Parsed, Vec<Problem>> {
    let mut reader = Reader::new(source);
    let mut faults = vec![];
    let root = node::read(text, &mut faults);
    reader.faults(faults);
    let config = match root {
        Ok(root) => top::read(&mut reader, &root),
        Err((place, message)) => {
            reader.error(place, message);
            None
        }
    };
    let (notes, files) = reader.finish()?;
    config.map(|config| Parsed { config, notes: notes.clone(), files }).ok_or(notes)
}

/// Where a text says to listen, `listen` and `admin.listen`, whatever else is wrong with it; the defaults where even that
/// cannot be read. For those who only want to reach what already runs.
pub fn addresses(text: &str, source: &Source<'_>) -> (SocketAddr, SocketAddr) {
    let mut reader = Reader::new(source);
    match readable_part(text) {
        Some(root) => top::addresses(&mut reader, &root),
        None => (Config::default().listen, Config::default().admin),
    }
}

/// The text up to the line that makes it unreadable, or a few before.
fn readable_part(text: &str) -> Option<node::Node> {
    const TRIES: usize = 64;
    let mut end = match node::read(text, &mut vec![]) {
        Ok(root) => return Some(root),
        Err((place, _)) => place.line,
    };
    for _ in 0..TRIES {
        end = end.checked_sub(1)?;
        let part: String = text.split_inclusive('\n').take(end).collect();
        if let Ok(root) = node::read(&part, &mut vec![]) {
            return Some(root);
        }
    }
    None
}
