"""Rounds of the load generator, one program after the other, and the ratios within them."""

import contextlib
import os
import pathlib
import resource
import statistics
from dataclasses import dataclass, field

from stage import Failure, Stage

TEXT_BYTES = 200
# What the upstream's tools are called in the build that is measured.
TOOL = os.environ.get("BENCH_TOOL", "echo_mcp_up")
BLOB = TOOL.replace("echo", "blob", 1)
# A meter that needs this share of a core may be what limits the figures.
SATURATED = 0.97


class Bench:
    """What every table needs: the programs, how long to measure, and where figures go."""

    def __init__(self, programs, folder, report, quick):
        self.programs, self.folder, self.report, self.quick = programs, folder, report, quick
        # Short rounds show that a table works, no more.
        self.rounds, self.seconds = (3, 0.2) if quick else (7, 1.5)

    @contextlib.contextmanager
    def stage(self):
        """Processes that end with the block."""
        with contextlib.ExitStack() as stack:
            yield Stage(self.programs, self.folder, stack)


@dataclass
class Variant:
    """Something to send load to. Of the processes watched (or their ids), those called `name` or `name.N` are its own."""

    name: str
    address: str
    tool: str | None = "echo"
    watch: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)


def measure(stage, variant, seconds, mode="call", **options):
    """One run; fails on any wrong answer."""
    watch = ",".join(f"{name}={getattr(process, 'pid', process)}" for name, process in variant.watch.items())
    options = {"bytes": TEXT_BYTES} | options | variant.options | ({"watch": watch} if watch else {})
    try:
        return stage.load(mode, variant.address, seconds, variant.tool, **options)
    except Failure as failure:
        raise Failure(f"{variant.name} ({options}): {failure}") from None


def rounds(stage, variants, number, seconds, mode="call", **options):
    """All variants in turn, `number` times; every other time in reverse, so that a drift of the machine favours none."""
    return [{v.name: measure(stage, v, seconds, mode, **options) for v in (variants[::-1] if n % 2 else variants)}
            for n in range(number)]


def median(done, variant, figure):
    return statistics.median(r[variant][figure] for r in done)


def ratios(done, of, to, figure="per_s"):
    """Of each round: what slows the machine for a while slows both."""
    return [r[of][figure] / max(r[to][figure], 1e-9) for r in done]


def ratio(done, of, to, figure="per_s"):
    return statistics.median(ratios(done, of, to, figure))


def cpu_us(run, variant):
    """Processor time of a variant per call."""
    spent = sum(used["cpu_s"] for name, used in run[variant]["used"].items() if name.split(".")[0] == variant)
    return 1e6 * spent / run[variant]["calls"]


def cpu_ratio(done, of, to):
    return statistics.median(cpu_us(r, of) / max(cpu_us(r, to), 1e-9) for r in done)


def saturated(done, variants):
    """Names of the meter's own parts that had no time left."""
    runs = [r[variant] for r in done for variant in variants]
    return {name for run in runs for name in ("load", "upstream")
            if run["used"].get(name, {"cpu_s": 0})["cpu_s"] > SATURATED * run["secs"]}


def trio(stage, *arguments, ours=TOOL, theirs="echo"):
    """An upstream, `pass` before it and trunkline before it; the latter two as variants."""
    upstream, at = stage.start_bound("upstream", *arguments)
    floor, floor_at = stage.start_bound("pass", "--to", at)
    process, listen = stage.start_trunkline("trunkline", "warn", at)
    return [Variant("pass", floor_at, theirs, {"pass": floor, "upstream": upstream}),
            Variant("trunkline", listen, ours, {"trunkline": process, "upstream": upstream})]


class Others:
    """How much of the processors went to programs that are not ours."""

    def __init__(self, processes):
        self.processes = processes
        self.then = self.now()

    def now(self):
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
        user, nice, system, idle, waiting, irq, softirq, steal = map(int, fields[1:9])
        busy = user + nice + system + irq + softirq + steal
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # the load runs
        ours = os.sysconf("SC_CLK_TCK") * (ended.ru_utime + ended.ru_stime)
        for process in self.processes:
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ours += int(fields[11]) + int(fields[12])
        return busy - ours, busy + idle + waiting

    def share(self):
        """Since it was made: 0 to 1, of all processors."""
        now = self.now()
        return (now[0] - self.then[0]) / max(1, now[1] - self.then[1])
