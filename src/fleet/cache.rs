//! The last known lists on disk, so that after a restart the tools of a server that is away are listed all the same.
//!
//! One file for each server, replaced as a whole. A file says which format it has, what its server was, and the hash of the
//! rest: whatever does not fit is set aside and told, never used.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::Listing;
use crate::config::{Config, Reach, Server};
use crate::names::ServerName;

/// What the first line of a file begins with: its format. Another one is not read.
const FORMAT: &str = "trunkline-catalog-1";
/// Largest file that is read: four lists of 16 MiB and what is around them.
const LARGEST: u64 = 65 << 20;

/// The folder, and what is on its way into it.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// What the folder has, or will have.
    kept: Mutex<HashMap<ServerName, Arc<Listing>>>,
    /// The newest of each server that is still to be written.
    pending: Mutex<HashMap<ServerName, Pending>>,
    woken: Notify,
}

/// What a server's file is to say; nothing where it is to go.
type Pending = Option<(Arc<Server>, Arc<Listing>)>;

impl Cache {
    /// The folder that `config` names, with what it has of `config`'s servers. `None` where it names none, or it cannot be
    /// used: that is told.
    pub(super) async fn open(config: &Arc<Config>) -> Option<Arc<Self>> {
        let folder = config.catalog_cache.clone()?;
        let config = config.clone();
        let opening = tokio::task::spawn_blocking(move || {
            if let Err(error) = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
                tracing::warn!(folder = %folder.display(), "`catalogCache` cannot be used: {error}");
                return None;
            }
            let of = |server: &Arc<Server>| {
                let listing = Arc::new(read(&folder, server)?);
                Some((server.name.clone(), listing))
            };
            let shared = config.servers.values().filter(|server| server.personal.is_none());
            let kept = shared.filter_map(of).collect();
            Some((folder, kept))
        });
        let (folder, kept): (_, HashMap<_, _>) = opening.await.ok()??;
        let (pending, woken) = (Mutex::default(), Notify::new());
        Some(Arc::new(Self { folder, kept: Mutex::new(kept), pending, woken }))
    }

    /// What is known of a server from before.
    pub(super) fn recall(&self, server: &ServerName) -> Option<Arc<Listing>> {
        lock(&self.kept).get(server).cloned()
    }

    /// Keeps what `server` has, soon.
    pub(super) fn keep(&self, server: &Arc<Server>, listing: &Arc<Listing>) {
        let before = lock(&self.kept).insert(server.name.clone(), listing.clone());
        if server.personal.is_none() && before.is_none_or(|before| !Arc::ptr_eq(&before, listing)) {
            lock(&self.pending).insert(server.name.clone(), Some((server.clone(), listing.clone())));
            self.woken.notify_one();
        }
    }

    /// Forgets a server, soon.
    pub(super) fn forget(&self, server: &ServerName) {
        lock(&self.kept).remove(server);
        lock(&self.pending).insert(server.clone(), None);
        self.woken.notify_one();
    }

    /// Writes what is to be written until `stop`, and what is left then.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(self.woken.notified()).await.is_some() {
            self.write_all().await;
        }
        self.write_all().await;
    }

    async fn write_all(&self) {
        let pending = std::mem::take(&mut *lock(&self.pending));
        if pending.is_empty() {
            return;
        }
        let folder = self.folder.clone();
        let writing = tokio::task::spawn_blocking(move || {
            for (name, what) in pending {
                let done = match what {
                    Some((server, listing)) => write(&folder, &server, &listing),
                    None => remove(&file(&folder, &name)),
                };
                if let Err(error) = done {
                    tracing::warn!(server = %name, "its lists cannot be kept in `catalogCache`: {error}");
                }
            }
        });
        drop(writing.await);
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(folder: &Path, server: &ServerName) -> PathBuf {
    folder.join(format!("{server}.catalog"))
}

fn read(folder: &Path, server: &Server) -> Option<Listing> {
    let path = file(folder, &server.name);
    match whole(&path) {
        Ok(text) => match opened(&text, server) {
            Ok(listing) => listing,
            Err(why) => {
                let aside = path.with_extension("damaged");
                tracing::warn!(server = %server.name, "its kept lists are not used, and set aside as {}: {why}", aside.display());
                drop(fs::rename(&path, &aside)); // else it is overwritten
                None
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(server = %server.name, "its kept lists cannot be read: {error}");
            None
        }
    }
}

fn whole(path: &Path) -> io::Result<Bytes> {
    let mut text = vec![];
    let mut from = fs::File::open(path)?.take(LARGEST + 1);
    from.read_to_end(&mut text)?;
    Ok(text.into())
}

/// What a file says of `server`; nothing where it was another server then.
fn opened(text: &Bytes, server: &Server) -> Result<Option<Listing>, &'static str> {
    if text.len() as u64 > LARGEST {
        return Err("it is too large");
    }
    let end = text.iter().position(|b| *b == b'\n').ok_or("it is not whole")?;
    let first = text.get(..end).and_then(|line| std::str::from_utf8(line).ok()).ok_or("it is not a text")?;
    let [format, hash, what] = first.split(' ').collect::<Vec<_>>()[..] else {
        return Err("it is no such file");
    };
    let rest = text.slice(end + 1..);
    if format != FORMAT {
        return Err("it has another format");
    }
    if hash != hex(&rest) {
        return Err("its checksum does not fit");
    }
    if what != print(server) {
        return Ok(None);
    }
    Listing::read(&rest).map(Some).ok_or("it cannot be read")
}

fn write(folder: &Path, server: &Server, listing: &Listing) -> io::Result<()> {
    let (path, draft) = (file(folder, &server.name), folder.join(format!(".{}.new", server.name)));
    let rest = listing.write();
    remove(&draft)?;
    let mut to = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    to.write_all(format!("{FORMAT} {} {}\n", hex(&rest), print(server)).as_bytes())?;
    to.write_all(&rest)?;
    to.sync_all()?; // before it takes the old one's place
    fs::rename(&draft, &path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What tells a server from another one that has its name later on: where it is, without what may be a secret.
fn print(server: &Server) -> String {
    let place = match &server.reach {
        Reach::Http(http) => format!("{}{}", http.origin(), http.url.path()),
        Reach::Stdio(stdio) => format!("{}\n{}", stdio.command.display(), stdio.args.join("\n")),
    };
    hex(place.as_bytes())
}

fn hex(text: &[u8]) -> String {
    let mut hex = String::new();
    for byte in digest(&SHA256, text).as_ref() {
        write!(hex, "{byte:02x}").ok(); // to a text it cannot fail
    }
    hex
}
