//! What a process has used, from /proc (proc(5)).

use std::fs;
use std::str::FromStr;

use anyhow::{Context, bail};

/// Linux tells processor time to programs in hundredths of a second on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process to watch, by name.
#[derive(Debug, Clone)]
pub struct Watched {
    /// How the report calls it.
    pub name: String,
    pid: u32,
}

impl FromStr for Watched {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let Some((name, pid)) = text.split_once('=') else { bail!("not NAME=PID: {text}") };
        Ok(Self { name: name.to_owned(), pid: pid.parse().context("not a process id")? })
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Processor seconds of all its threads, in user and kernel, children not counted.
    pub cpu_s: f64,
    /// Resident memory now, in KiB.
    pub rss_kib: u64,
}

impl Watched {
    /// This process itself.
    pub fn myself(name: &str) -> Self {
        Self { name: name.to_owned(), pid: std::process::id() }
    }

    /// Reads its usage.
    ///
    /// # Errors
    /// When it is gone.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let read = |file| {
            fs::read_to_string(format!("/proc/{}/{file}", self.pid))
                .with_context(|| format!("{} (process {}) is gone", self.name, self.pid))
        };
        let cpu_s = cpu_seconds(&read("stat")?).context("cannot read its processor time")?;
        let rss_kib = rss_kib(&read("status")?).context("cannot read its memory")?;
        Ok(Usage { cpu_s, rss_kib })
    }
}

/// Fields 14 and 15 of `stat`. Field 2, the name, is in parentheses and may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(|ticks| ticks.parse::<u32>().ok());
    Some((f64::from(ticks.next()??) + f64::from(ticks.next()??)) / TICKS_PER_SECOND)
}

fn rss_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_shifts_nothing() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 3 0 100";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
        assert_eq!(rss_kib("Name:\tx\nVmRSS:\t    1234 kB\n"), Some(1234));
    }

    #[test]
    fn a_process_can_watch_itself() {
        assert!(Watched::myself("me").usage().unwrap().rss_kib > 0);
        "me=none".parse::<Watched>().unwrap_err();
    }
}
