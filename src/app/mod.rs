//! Wires everything, watches the file, handles signals, drains; and the subcommands.
//!
//! Nobody else reads the configuration file.

mod banner;
mod check;
pub mod client;
mod client_error;
mod commands;
pub mod demo;
mod kept_key;
mod load;
pub mod log;
mod mount;
mod reload;
mod serve;
mod watch;

pub use check::check;
pub use commands::{call, healthcheck, probe, tools};
pub use load::{DEFAULT, LoadError, Origin};
pub use serve::{ServeError, serve};

/// How a subcommand ended: its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// It could not.
    Failed,
    /// The configuration or the command line is wrong.
    Misused,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
            Exit::Misused => Self::from(2),
        }
    }
}

/// Tells on standard output; a closed one is no reason to end.
fn say(text: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stdout().lock(), "{text}"));
}

/// Tells on standard error.
fn complain(text: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}
