"""How many instructions of trunkline a call takes: no clock, so hardly any noise.

trunkline runs under callgrind on one processor, so that it makes as few threads as it can. After N calls and after 2N
more, in the same time, its counter is read; the difference of the two, divided by N, is what a call takes, without
opening, closing, and what goes on by the clock. So that chance decides nothing, a call begins when the last is long
over, and the upstream takes a millisecond: trunkline has always gone to sleep when the next bytes come. What the kernel
does is not counted.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from meter import TOOL
from stage import Failure

CALLS, SECONDS, PASSES = 200, 1.2, 3
START_SECONDS = 60  # valgrind takes its time


@dataclass(frozen=True)
class Scene:
    upstream: tuple = ()
    load: dict = field(default_factory=dict)
    servers: int = 1
    sessions: int = 0
    settle: int = 0  # seconds before it begins


# What is kept in the file beside this one and held to it.
SCENES = {"call": Scene(), "sessions": Scene(("--sessions",)), "modern": Scene(("--modern",), {"speak": "modern"}),
          "sse": Scene(("--sse",))}
# 10,000 sessions would take half a minute to open here; that more of them change nothing shows with 1,000, too.
GROWTH = {"call": Scene(), "servers-100": Scene(servers=100, settle=20),  # after a start lists are looked at again
          "sessions-1000": Scene(sessions=1000)}


def count(bench, scenes):
    """Instructions per call by the name of the scene."""
    for program in ("valgrind", "callgrind_control", "taskset"):
        if not shutil.which(program):
            raise Failure(f"needs {program} (Debian packages valgrind and util-linux)")
    cores = sorted(os.sched_getaffinity(0))
    with ThreadPoolExecutor(len(cores[:2])) as pool:
        counts = [pool.submit(of_scene, bench, name, scene, cores[n % len(cores[:2])])
                  for n, (name, scene) in enumerate(scenes.items())]
        return {name: count.result() for name, count in zip(scenes, counts)}


def of_scene(bench, name, scene, core):
    with bench.stage() as stage:
        _, at = stage.start_bound("upstream", "--delay", 1, *scene.upstream)
        names = ["up", *(f"up{n}" for n in range(1, scene.servers))]
        config = {"mcpServers": {name: {"url": f"http://{at}/mcp"} for name in names}}
        # Not beside the configuration: trunkline looks at that again whenever something is written there.
        out = stage.folder / "dumps" / name
        out.parent.mkdir(exist_ok=True)
        before = ["taskset", "-c", core, "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        process, listen, _ = stage.start_configured(f"counted-{name}", "warn", config, before, START_SECONDS)
        crowd = stage.crowd("sessions", listen, scene.sessions) if scene.sessions else contextlib.nullcontext()
        with crowd:
            counter = Counter(process.pid, out)
            def after(calls):
                stage.load("call", listen, None, TOOL, warm=0, count=calls, rate=calls / SECONDS, **scene.load)
                return counter.read()

            after(CALLS)
            time.sleep(scene.settle)
            return statistics.median((after(2 * CALLS) - after(CALLS)) / CALLS for _ in range(PASSES))


class Counter:
    """Callgrind's, which starts anew each time that it is read."""

    def __init__(self, pid, out):
        self.pid, self.out, self.reads = pid, out, 0

    def read(self):
        done = subprocess.run(["callgrind_control", "--dump", str(self.pid)], capture_output=True, text=True, timeout=60)
        self.reads += 1
        file = self.out.with_name(f"{self.out.name}.{self.reads}")
        if done.returncode or not file.exists():
            raise Failure("callgrind_control: " + " ".join((done.stderr or done.stdout).split()))
        totals = [line for line in file.read_text().splitlines() if line.startswith("totals:")]
        return int(totals[0].split()[1])
