//! What the process itself uses, read from `/proc` when somebody asks.

use std::fs;
use std::sync::Mutex;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, IntGauge};

use super::VALID;

/// Clock ticks per second in `/proc/*/stat`: the kernel's `USER_HZ`, 100 wherever we run.
const TICKS: f64 = 100.0;

/// The `process_*` series by their customary names. Without a `/proc` they stay 0.
#[derive(Debug)]
pub(super) struct Process {
    resident: IntGauge,
    virtual_size: IntGauge,
    threads: IntGauge,
    open_fds: IntGauge,
    max_fds: IntGauge,
    start: Gauge,
    cpu: Counter,
    /// Two scrapes at once must not both add the same CPU time.
    reading: Mutex<()>,
}

impl Process {
    pub(super) fn new() -> Self {
        let gauge = |name: &str, help: &str| IntGauge::new(name, help).expect(VALID);
        Self {
            resident: gauge("process_resident_memory_bytes", "Resident memory size in bytes."),
            virtual_size: gauge("process_virtual_memory_bytes", "Virtual memory size in bytes."),
            threads: gauge("process_threads", "Threads of the process."),
            open_fds: gauge("process_open_fds", "Open file descriptors."),
            max_fds: gauge("process_max_fds", "Most file descriptors that may be open."),
            start: Gauge::new("process_start_time_seconds", "Start of the process since 1970 in seconds.")
                .expect(VALID),
            cpu: Counter::new("process_cpu_seconds_total", "User and system CPU time in seconds.")
                .expect(VALID),
            reading: Mutex::new(()),
        }
    }

    fn read(&self) {
        let _alone = self.reading.lock();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        self.resident.set(line(&status, "VmRSS:").saturating_mul(1024)); // the file counts in KiB
        self.virtual_size.set(line(&status, "VmSize:").saturating_mul(1024));
        self.threads.set(line(&status, "Threads:"));
        // One of them is the descriptor that reads the folder.
        let open = fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1));
        self.open_fds.set(i64::try_from(open).unwrap_or(i64::MAX));
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        self.max_fds.set(line(&limits, "Max open files"));
        let Some((spent, started)) = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| times(&stat))
        else {
            return;
        };
        let spent = spent - self.cpu.get();
        if spent > 0.0 {
            self.cpu.inc_by(spent);
        }
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        self.start.set(line(&boot, "btime").to_string().parse().unwrap_or(0.0) + started);
    }

    fn parts(&self) -> [&dyn Collector; 7] {
        [
            &self.resident,
            &self.virtual_size,
            &self.threads,
            &self.open_fds,
            &self.max_fds,
            &self.start,
            &self.cpu,
        ]
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}

/// The first number of the line that starts with `name`.
fn line(text: &str, name: &str) -> i64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// CPU seconds spent, and seconds from boot to the start of the process, from `/proc/self/stat` (proc(5)).
fn times(stat: &str) -> Option<(f64, f64)> {
    // The second field is the program's name in brackets and may hold anything: count from its end.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    let spent = fields.next()?? + fields.next()??;
    let started = fields.nth(6)??;
    Some((spent / TICKS, started / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_named_to_confuse_is_read_right() {
        let stat = "7 (a) b) R 1 1 1 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 12345 1 1";
        assert_eq!(times(stat), Some((3.0, 123.45)));
        assert_eq!(times("7 (x) R 1"), None);
    }

    #[test]
    fn open_descriptors_are_counted() {
        let process = Process::new();
        process.read();
        let before = process.open_fds.get();
        let held: Vec<_> = (0..500).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        process.read();
        // Other tests open and close files of their own meanwhile.
        assert!(process.open_fds.get() >= before + 400, "{before} {}", process.open_fds.get());
        drop(held);
        assert!(process.resident.get() > 1 << 20 && process.max_fds.get() > 0);
        assert!(process.start.get() > 1.7e9 && process.threads.get() > 0);
    }
}
