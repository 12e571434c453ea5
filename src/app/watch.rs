//! Notices that the configuration may have changed.
//!
//! Folders are watched, not files: editors rename and Kubernetes swaps a link beside the file, and a watch on the file
//! is deaf from then on (both measured). What happened does not matter: the file is read again and compared.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Rest after the last event before the file is read: editors write in several steps.
const QUIET: Duration = Duration::from_millis(250);
/// Longest that events may put the reading off.
const LONGEST: Duration = Duration::from_secs(2);
/// The same while somebody writes into a file in place: what is there is half of it.
const WRITING: Duration = Duration::from_secs(30);
/// How often the file is read anyway: network file systems raise no events.
const POLL: Duration = Duration::from_secs(30);
/// The same where the system cannot tell of changes at all.
const BLIND_POLL: Duration = Duration::from_secs(5);

/// Watches the folders of some files.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    events: Arc<Events>,
    /// All that is to be watched is.
    sees: bool,
    told: bool,
    /// When the file is read whatever happens.
    poll: Instant,
}

/// What the system tells.
#[derive(Debug, Default)]
struct Events {
    woken: Notify,
    /// The names of the files themselves: their folders are known under more than one.
    files: Mutex<HashSet<OsString>>,
    /// Somebody has written into one of them and has not closed it yet.
    writing: AtomicBool,
}

impl Events {
    fn take(&self, event: &notify::Event) {
        let closed = matches!(event.kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
        // Our own reading raises access events.
        if matches!(event.kind, EventKind::Access(_)) && !closed {
            return;
        }
        let in_place = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        if in_place || closed {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            if event.paths.iter().any(|path| path.file_name().is_some_and(|name| files.contains(name))) {
                self.writing.store(in_place, Ordering::Release);
            }
        } else {
            self.writing.store(false, Ordering::Release); // it may be another file now
        }
        self.woken.notify_one();
    }
}

impl Watch {
    /// A watch of nothing yet.
    pub(super) fn new() -> Self {
        let events = Arc::new(Events::default());
        let taking = events.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| match event {
            Ok(event) => taking.take(&event),
            Err(_) => taking.woken.notify_one(), // some were lost
        });
        let watcher = watcher.inspect_err(warn).ok();
        let told = watcher.is_none();
        Self {
            watcher,
            watched: HashSet::new(),
            events,
            sees: false,
            told,
            poll: Instant::now() + BLIND_POLL,
        }
    }

    /// Watches the folders of `files`, and of what they link to, and no others. Whether the system will tell of every
    /// change.
    pub(super) fn follow<'a>(&mut self, files: impl Iterator<Item = &'a Path>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let (mut wanted, mut targets) = (HashSet::new(), HashSet::new());
        for file in files {
            let target = file.canonicalize().ok();
            let folders = [Some(file), target.as_deref()].into_iter().flatten().filter_map(folder);
            wanted.extend(folders);
            targets.extend(
                [Some(file), target.as_deref()]
                    .into_iter()
                    .flatten()
                    .filter_map(Path::file_name)
                    .map(Into::into),
            );
        }
        *self.events.files.lock().unwrap_or_else(PoisonError::into_inner) = targets;
        for gone in self.watched.difference(&wanted) {
            drop(watcher.unwatch(gone)); // it may be deleted, and its watch with it
        }
        let (mut now, mut sees) = (HashSet::new(), true);
        for folder in wanted {
            // Watched anew each time: a folder that was swapped has the same name and another inode.
            if self.watched.contains(&folder) {
                drop(watcher.unwatch(&folder));
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(now.insert(folder)),
                Err(error) => {
                    sees = false;
                    if !std::mem::replace(&mut self.told, true) {
                        warn(&error);
                    }
                }
            }
        }
        self.told = self.told && !sees;
        self.watched = now;
        self.sees = sees;
        sees
    }

    /// Waits until the files should be read again.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.events.woken.notified() => self.settled().await,
            () = sleep_until(self.poll) => {}
        }
        self.poll = Instant::now() + if self.sees { POLL } else { BLIND_POLL };
    }

    /// Waits for quiet, and for whoever writes to be done.
    async fn settled(&self) {
        let begun = Instant::now();
        loop {
            let writing = self.events.writing.load(Ordering::Acquire);
            let latest = begun + if writing { WRITING } else { LONGEST };
            let quiet = Instant::now() + if writing { WRITING } else { QUIET };
            if timeout_at(latest.min(quiet), self.events.woken.notified()).await.is_err() {
                return;
            }
        }
    }
}

fn folder(file: &Path) -> Option<PathBuf> {
    match file.parent()? {
        parent if parent == Path::new("") => Some(".".into()),
        parent => Some(parent.into()),
    }
}

fn warn(error: &notify::Error) {
    tracing::warn!(%error, "changes of the configuration are noticed late: it is read every {BLIND_POLL:?} only");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kubelet does it: a new folder, a link to it renamed over the old link, the old folder removed.
    fn swap(mount: &Path, n: usize) {
        let folder = mount.join(format!("..{n}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("c.yaml"), n.to_string()).unwrap();
        std::os::unix::fs::symlink(&folder, mount.join("..data_tmp")).unwrap();
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
        if n > 0 {
            std::fs::remove_dir_all(mount.join(format!("..{}", n - 1))).unwrap();
        }
    }

    #[tokio::test]
    async fn every_swap_and_every_save_is_noticed() {
        let mount = tempfile::tempdir().unwrap();
        let file = mount.path().join("c.yaml");
        swap(mount.path(), 0);
        std::os::unix::fs::symlink("..data/c.yaml", &file).unwrap();
        let mut watch = Watch::new();
        for n in 1..5 {
            watch.follow([file.as_path()].into_iter());
            watch.poll = Instant::now() + Duration::from_secs(3600); // only events count here
            swap(mount.path(), n);
            tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), n.to_string());
        }
        for n in 0..3 {
            let draft = mount.path().join(".draft");
            std::fs::write(&draft, n.to_string()).unwrap();
            std::fs::rename(&draft, &file).unwrap();
            tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.unwrap();
        }
    }
}
