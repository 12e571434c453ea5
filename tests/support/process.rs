//! What a process holds, as `/proc` tells it.

use std::fs;

/// Its open file descriptors.
pub(crate) fn fds(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Its threads.
pub(crate) fn threads(pid: u32) -> usize {
    status(pid, "Threads:").unwrap_or_default()
}

/// Its resident memory in KiB.
pub(crate) fn rss(pid: u32) -> usize {
    status(pid, "VmRSS:").unwrap_or_default()
}

/// The most that its resident memory ever was, in KiB.
pub(crate) fn peak(pid: u32) -> usize {
    status(pid, "VmHWM:").unwrap_or_default()
}

/// Its children, zombies as well.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether it runs: a zombie does not, once all of its threads have ended; until then its files are open.
pub(crate) fn runs(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    state.lines().any(|line| line.starts_with("State:") && !line.contains('Z')) || threads(pid) > 1
}

/// `kill -9`.
pub(crate) fn kill(pid: u32) {
    signal(pid, nix::sys::signal::Signal::SIGKILL);
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(pid.try_into().unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

fn status(pid: u32, key: &str) -> Option<usize> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}
