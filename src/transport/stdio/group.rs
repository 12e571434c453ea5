//! A child and everything it started.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The process group of a child. Killed when dropped, unless it was gone before.
#[derive(Debug)]
pub(super) struct Group(Option<Pid>);

impl Group {
    /// The group that the child `pid` leads.
    pub(super) fn new(pid: Option<u32>) -> Self {
        Self(pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1).map(Pid::from_raw))
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0
            && let Err(error) = killpg(pid, signal)
            && error != Errno::ESRCH
        {
            tracing::debug!(%pid, %signal, %error, "process group not signalled");
        }
    }

    /// Kills what the child left behind and reaps what falls to us. To be called as soon as the child is reaped: the
    /// number stays taken while the group has members, and with none left the system would have to go round all
    /// numbers first before it means somebody else.
    pub(super) async fn clear(mut self) {
        /// The killed die within this many rounds, or hang in the kernel.
        const ROUNDS: u32 = 50;
        self.signal(Signal::SIGKILL);
        let Some(pid) = self.0.take() else { return };
        // Orphans are init's to reap, which in a container may be us.
        for _ in 0..ROUNDS {
            match waitpid(Pid::from_raw(-pid.as_raw()), Some(WaitPidFlag::WNOHANG)) {
                Err(_) => return, // none of ours (left)
                Ok(WaitStatus::StillAlive) => tokio::time::sleep(Duration::from_millis(10)).await,
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
