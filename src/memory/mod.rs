//! How much may be held of large messages, whoever sends them and whoever does not read them: one budget for the whole
//! process. Beyond it what comes is refused: a process that grows until it is killed fails everybody.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes held of large messages, and how many there may be.
#[derive(Debug)]
pub struct Memory {
    held: AtomicUsize,
    most: usize,
}

/// Where nothing says how much memory there is.
const USUAL: usize = 256 << 20;
/// Pieces below this are not counted: they are as large as the buffers of a connection.
pub const SMALL: usize = 16 << 10;

impl Memory {
    /// Holds `most` bytes, or by default a quarter of what the process may have.
    pub fn new(most: Option<usize>) -> Arc<Self> {
        let most =
            most.unwrap_or_else(|| granted(Path::new("/")).map_or(USUAL, |bytes| (bytes / 4).min(USUAL)));
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    /// Holds `bytes` that are there already, whether there is room for them or not.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Held { memory: self.clone(), bytes }
    }

    /// What `held` stands for are `bytes` from now on; a [small](SMALL) number does not count. `false` where there is no
    /// room for them.
    pub fn account(self: &Arc<Self>, held: &mut Option<Held>, bytes: usize) -> bool {
        if bytes <= SMALL {
            *held = None;
            return true;
        }
        held.get_or_insert_with(|| self.hold(0)).set(bytes)
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether nothing more should begin.
    pub fn is_full(&self) -> bool {
        self.held() >= self.most
    }
}

/// Bytes that are held, until it is dropped.
#[derive(Debug)]
pub struct Held {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Held {
    /// Holds `bytes` in all; whether there is room for them.
    fn set(&mut self, bytes: usize) -> bool {
        let memory = &self.memory;
        if bytes <= self.bytes {
            memory.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else {
            memory.held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        memory.held() <= memory.most
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How much memory the control groups of this process grant it, of either version (kernel documentation,
/// `admin-guide/cgroup-v1/memory` and `cgroup-v2`); `None` where none does. `root` is `/`.
fn granted(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let base = root.join("sys/fs/cgroup");
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (folder, file) = match kinds {
            "" => (base.clone(), "memory.max"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => {
                (base.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // In a container its own group is often mounted as the root, whatever it is called outside.
        let own = folder.join(path.trim_start_matches('/'));
        let above: Vec<PathBuf> =
            own.ancestors().take_while(|at| at.starts_with(&folder)).map(|at| at.join(file)).collect();
        above
    });
    let read = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
    // What is no limit is written as a number that no machine has.
    limits.filter_map(read).filter(|&bytes| bytes < 1 << 50).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_105_what_is_held_goes_by_the_control_group() {
        let write = |root: &Path, file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(granted(root), None);
        write(root, "proc/self/cgroup", "0::/pod/app\n");
        assert_eq!(granted(root), None);
        write(root, "sys/fs/cgroup/memory.max", "134217728\n");
        write(root, "sys/fs/cgroup/pod/app/memory.max", "max\n");
        assert_eq!(granted(root), Some(128 << 20), "seen at the root, as in a container");
        write(root, "sys/fs/cgroup/pod/memory.max", "67108864\n");
        assert_eq!(granted(root), Some(64 << 20), "the tightest holds");
        write(root, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/y\n");
        write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(granted(root), None);
        write(root, "sys/fs/cgroup/memory/y/memory.limit_in_bytes", "33554432\n");
        assert_eq!(granted(root), Some(32 << 20));
    }

    #[test]
    fn fault_105_what_does_not_fit_is_refused_and_given_back() {
        const KIB: usize = 1 << 10;
        let memory = Memory::new(Some(100 * KIB));
        let (mut first, mut second) = (None, None);
        assert!(memory.account(&mut first, SMALL) && memory.held() == 0, "small ones do not count");
        assert!(memory.account(&mut first, 60 * KIB));
        assert!(!memory.account(&mut second, 41 * KIB));
        assert!(memory.account(&mut second, 20 * KIB) && memory.held() == 80 * KIB, "it shrinks");
        assert!(memory.account(&mut second, 40 * KIB) && memory.is_full());
        drop(first);
        assert!(memory.account(&mut second, 1) && memory.held() == 0);
        let over = memory.hold(1000 * KIB);
        assert!(memory.is_full() && !memory.account(&mut second, 20 * KIB));
        drop((over, second));
        assert_eq!(memory.held(), 0);
    }
}
