"""What a process holds and uses, from /proc (proc(5))."""

import os
import pathlib
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """What a process holds, from /proc."""

    def __init__(self, process):
        self.root = pathlib.Path(f"/proc/{process.pid}")

    def status(self, file, key):
        for line in file.read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1])
        return 0

    def rss_mib(self):
        return self.status(self.root / "status", "VmRSS:") / 1024

    def peak_mib(self):
        """The most that it ever held."""
        return self.status(self.root / "status", "VmHWM:") / 1024

    def fds(self):
        return len(list((self.root / "fd").iterdir()))

    def wakes(self):
        """How often its threads went to sleep and were woken."""
        return sum(self.status(task / "status", "voluntary_ctxt_switches:") for task in (self.root / "task").iterdir())

    def cpu_s(self):
        fields = (self.root / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def back(self, figure, bar, seconds):
        """Waits until `figure` of it is at most `bar`; gives the last value and how long that took."""
        begun = time.monotonic()
        while True:
            now, took = figure(self), time.monotonic() - begun
            if now <= bar or took > seconds:
                return now, took
            time.sleep(0.1)
