//! The test server that has all of MCP (`tests/fixtures/everything`), in either era or both.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

/// A running test server over HTTP; it ends with the test.
#[derive(Debug)]
pub(crate) struct Everything {
    child: Child,
    url: String,
}

impl Everything {
    /// Starts one on a free port, with more arguments.
    pub(crate) async fn http(more: &[&str]) -> Self {
        Self::at("127.0.0.1:0", more).await
    }

    /// Ends it, and starts another one at the same place.
    pub(crate) async fn replace(self, more: &[&str]) -> Self {
        let address = self.address().to_owned();
        self.end().await;
        Self::at(&address, more).await
    }

    /// Ends it.
    pub(crate) async fn end(mut self) {
        self.child.kill().await.unwrap();
    }

    async fn at(address: &str, more: &[&str]) -> Self {
        let mut child = Command::new(program().await)
            .args(["--http", address])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().expect("its URL");
        Self { child, url }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    /// Its entry in a configuration, with more keys.
    pub(crate) fn entry(&self, more: &str) -> String {
        format!(r#"{{"url": "{}"{more}}}"#, self.url)
    }
}

/// The entry of one that trunkline starts, with more arguments.
pub(crate) async fn everything(arguments: &[&str]) -> String {
    let arguments: Vec<_> = arguments.iter().map(|argument| format!(", \"{argument}\"")).collect();
    format!(r#"{{"command": "{}", "args": ["--stdio"{}]}}"#, program().await.display(), arguments.concat())
}

/// Builds it, if need be, beside the program that is tested.
async fn program() -> &'static Path {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    let build = async || {
        let folder = Path::new(env!("CARGO_BIN_EXE_trunkline")).parent().unwrap();
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--locked", "-p", "trunkline-everything", "--target-dir"])
            .arg(folder.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .await;
        assert!(built.unwrap().success(), "the test server cannot be built");
        folder.join("everything")
    };
    PROGRAM.get_or_init(build).await
}
