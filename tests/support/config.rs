//! Configuration files and the folder they lie in.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::fake::socket;

/// A file of these limits and servers.
pub(crate) fn file(limits: &str, servers: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: {{listen: 127.0.0.1:0}}\nlimits: {{{limits}}}\nmcpServers:\n{servers}"
    )
}

/// Servers by name.
pub(crate) fn entries(servers: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, entry) in servers {
        writeln!(text, "  {name}: {entry}").unwrap();
    }
    if text.is_empty() { "  {}".into() } else { text }
}

/// An entry whose port is ours and refuses connections for as long as the socket lives.
pub(crate) fn refused_port() -> (TcpSocket, String) {
    let socket = socket(([127, 0, 0, 1], 0).into());
    let entry = format!(r#"{{"url": "http://{}/mcp"}}"#, socket.local_addr().unwrap());
    (socket, entry)
}

/// A folder with a configuration file that changes as editors and Kubernetes change it.
#[derive(Debug)]
pub(crate) struct Mount {
    folder: TempDir,
    swaps: usize,
}

impl Mount {
    /// A folder whose file says `text`.
    pub(crate) fn new(text: &str) -> Self {
        let mount = Self { folder: tempfile::tempdir().unwrap(), swaps: 0 };
        mount.save(text);
        mount
    }

    /// A mounted `ConfigMap` whose file says `text`.
    pub(crate) fn swapped(text: &str) -> Self {
        Self::swapped_in(&std::env::temp_dir(), text)
    }

    /// As [`swapped`](Self::swapped), a folder inside of `parent`.
    pub(crate) fn swapped_in(parent: &Path, text: &str) -> Self {
        let mut mount = Self { folder: tempfile::tempdir_in(parent).unwrap(), swaps: 0 };
        mount.swap(text);
        symlink("..data/config.yaml", mount.file()).unwrap();
        mount
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("config.yaml")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Saves as editors do: another file, renamed over the old one.
    pub(crate) fn save(&self, text: &str) {
        let draft = self.path().join(".config.yaml.swp");
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, self.file()).unwrap();
    }

    /// As the kubelet does it: a new folder, a link to it renamed over the old link, the old folder removed.
    pub(crate) fn swap(&mut self, text: &str) {
        let folder = self.path().join(format!("..{}", self.swaps));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("config.yaml"), text).unwrap();
        symlink(&folder, self.path().join("..data_tmp")).unwrap();
        fs::rename(self.path().join("..data_tmp"), self.path().join("..data")).unwrap();
        if self.swaps > 0 {
            fs::remove_dir_all(self.path().join(format!("..{}", self.swaps - 1))).unwrap();
        }
        self.swaps += 1;
    }
}
