//! Notices that the configuration may have changed.
//!
//! Folders are watched, not files: editors rename and Kubernetes swaps a link beside the file, and a watch on the file
//! is deaf from then on (both measured). What happened does not matter: the file is read again and compared.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Rest after the last event before the file is read: editors write in several steps.
const QUIET: Duration = Duration::from_millis(250);
/// Longest that events may put the reading off.
const LONGEST: Duration = Duration::from_secs(2);
/// How often the file is read anyway: network file systems raise no events.
const POLL: Duration = Duration::from_secs(30);

/// Watches the folders of some files.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    woken: Arc<Notify>,
    /// When the file is read whatever happens.
    poll: Instant,
}

impl Watch {
    /// A watch of nothing yet.
    pub(super) fn new() -> Self {
        let woken = Arc::new(Notify::new());
        let wake = woken.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading raises access events.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                wake.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| warn(error)).ok();
        Self { watcher, watched: HashSet::new(), woken, poll: Instant::now() + POLL }
    }

    /// Watches the folders of `files`, and of what they link to, and no others.
    pub(super) fn follow<'a>(&mut self, files: impl Iterator<Item = &'a Path>) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut wanted = HashSet::new();
        for file in files {
            let target = file.canonicalize().ok();
            let folders = [Some(file), target.as_deref()].into_iter().flatten().filter_map(folder);
            wanted.extend(folders);
        }
        for gone in self.watched.difference(&wanted) {
            drop(watcher.unwatch(gone)); // it may be deleted, and its watch with it
        }
        let mut watched = HashSet::new();
        for folder in wanted {
            // Watched anew each time: a folder that was swapped has the same name and another inode.
            if self.watched.contains(&folder) {
                drop(watcher.unwatch(&folder));
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(watched.insert(folder)),
                Err(error) => warn(&error),
            }
        }
        self.watched = watched;
    }

    /// Waits until the files should be read again.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.woken.notified() => {
                let latest = Instant::now() + LONGEST;
                while timeout_at(latest.min(Instant::now() + QUIET), self.woken.notified()).await.is_ok() {}
            }
            () = sleep_until(self.poll) => {}
        }
        self.poll = Instant::now() + POLL;
    }
}

fn folder(file: &Path) -> Option<PathBuf> {
    match file.parent()? {
        parent if parent == Path::new("") => Some(".".into()),
        parent => Some(parent.into()),
    }
}

fn warn(error: &notify::Error) {
    tracing::warn!(%error, "changes of the configuration are noticed late: it is read every {POLL:?} only");
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
