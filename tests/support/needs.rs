//! What not every machine has. A test that cannot be run says so, and where `CI` is set it fails.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::CloneFlags;

/// Says that `test` was not run, and why; `tests/run` prints it.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} cannot be run here: {why}");
    name(test, why);
}

/// As [`skip`], where no machine has everything: nothing fails for it.
pub(crate) fn name(test: &str, why: &str) {
    eprintln!("skipped {test}: {why}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(format!("skipped {test}: {why}\n").as_bytes()).unwrap();
}

/// Runs a command to its end; what it says where it fails.
pub(crate) fn run(command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Takes this thread, and the processes that it starts from now on, into a network of their own: a loopback device with
/// `address` on it as well, and no way out, whatever is asked for.
pub(crate) fn own_network(address: &str) -> Result<(), String> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("no network namespace: {error}"))?;
    for range in ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"] {
        run(&format!("ip route add blackhole {range}"))?;
    }
    run(&format!("ip addr add {address}/32 dev lo"))?;
    run("ip link set lo up")?;
    Ok(())
}

/// A control group of one controller, with its limits, gone with its owner. Nobody may be in it by then.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Group {
    /// A group of `controller` with these limits, as files of cgroups v1 or v2.
    pub(crate) fn v1(controller: &str, limits: &[(&str, &str)]) -> Result<Self, String> {
        Self::at(&Path::new("/sys/fs/cgroup").join(controller), limits)
    }

    /// As [`v1`](Self::v1), where v2 has the controller.
    pub(crate) fn v2(controller: &str, limits: &[(&str, &str)]) -> Result<Self, String> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        let has = |root: &&PathBuf| {
            let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == controller)
        };
        let root =
            roots.iter().find(has).ok_or(format!("cgroups v2 have no controller {controller} here"))?;
        drop(fs::write(root.join("cgroup.subtree_control"), format!("+{controller}")));
        Self::at(root, limits)
    }

    fn at(parent: &Path, limits: &[(&str, &str)]) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("no control group in {}: {error}", parent.display());
        let group = Self(parent.join(format!("trunkline-{}", std::process::id())));
        if !parent.is_dir() {
            return Err(format!("there is no {}", parent.display()));
        }
        fs::create_dir(&group.0).map_err(told)?;
        for (file, value) in limits {
            fs::write(group.0.join(file), value).map_err(told)?;
        }
        Ok(group)
    }

    /// Where a process writes its id to come in: in the name of it, `echo $$ > FILE`.
    pub(crate) fn door(&self) -> String {
        self.0.join("cgroup.procs").display().to_string()
    }

    /// Takes a process in.
    pub(crate) fn take(&self, pid: u32) {
        fs::write(self.door(), pid.to_string()).unwrap();
    }

    /// What one of its files says.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it may have been killed a moment ago.
        let gone = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::remove_dir(&self.0).is_ok()
        });
        if !gone {
            eprintln!("{} stays: somebody is still in it", self.0.display());
        }
    }
}
