//! Starting a child.

use std::ffi::OsString;
use std::io;
use std::process::Stdio as Pipe;

use tokio::process::{Child, Command};

use crate::config::Stdio;
use crate::transport::Failure;

/// Variables of ours that a child gets: what programs need to find themselves, their user and their language, and what
/// `npx` or `uvx` need to fetch packages from behind a proxy. Nothing else: ours may hold the secrets of other servers,
/// and `LD_PRELOAD` and its like have no place there.
const PASSED: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "LANG",
    "TZ",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

fn is_passed(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| PASSED.contains(&name) || name.starts_with("LC_"))
}

/// Starts the child: no shell, a process group of its own, its three streams piped to us.
pub(super) fn spawn(stdio: &Stdio) -> Result<Child, Failure> {
    let mut command = Command::new(&stdio.command);
    command
        .args(&stdio.args)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_passed(name)))
        .envs(stdio.env.iter().map(|(name, value)| (name, value)))
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .stderr(Pipe::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &stdio.cwd {
        if !cwd.is_dir() {
            return Err(Failure::Unreachable(format!(
                "its working directory {} does not exist",
                cwd.display()
            )));
        }
        command.current_dir(cwd);
    }
    command.spawn().map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let why = if missing { "no such program".to_owned() } else { error.to_string() };
        Failure::Unreachable(format!("cannot start `{}`: {why}", stdio.command.display()))
    })
}
