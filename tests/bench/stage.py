"""What the programs of this folder have in common: the processes of a run, and their figures."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

START_SECONDS = 15
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Another build of trunkline to measure.
OTHER = os.environ.get("BENCH_TRUNKLINE")


class Failure(Exception):
    """What ends the run, in words for the last line."""


def build():
    """Builds what is measured; returns the folder of the programs."""
    packages = ["-p", "trunkline-bench"] + ([] if OTHER else ["-p", "trunkline"])
    if subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=ROOT).returncode:
        raise Failure("the build failed")
    metadata = ["cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"]
    found = json.loads(subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True).stdout)
    return pathlib.Path(found["target_directory"]) / "release"


class Stage:
    """The processes of a run. All of them are ended with it, however it ends."""

    def __init__(self, programs, folder, stack):
        self.programs, self.folder, self.stack = programs, folder, stack

    def start(self, name, command, **options):
        log = self.stack.enter_context(open(self.folder / f"{name}.log", "wb"))
        options.setdefault("stdout", log)
        process = subprocess.Popen([str(part) for part in command], stderr=log, **options)
        self.stack.callback(end, process)
        return process

    def start_bound(self, name, *arguments):
        """Starts a program of ours that prints its address first."""
        process = self.start(name, [self.programs / name, *arguments], stdout=subprocess.PIPE, text=True)
        address = process.stdout.readline().strip()
        if not address:
            raise Failure(f"{name} did not start: {self.last_words(name)}")
        return process, address

    def start_trunkline(self, name, log, upstream):
        """Starts trunkline with one upstream, `up`, and waits until it says that it is ready."""
        process, listen, _ = self.start_configured(name, log, {"mcpServers": {"up": {"url": f"http://{upstream}/mcp"}}})
        return process, listen

    def spawn(self, name, log, config, before=()):
        """Starts trunkline with `config`, behind the words `before`, and does not wait."""
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        return self.start(name, [*before, OTHER or self.programs / "trunkline", "--config", file, "--log", log])

    def start_configured(self, name, log, config, before=(), patience=START_SECONDS):
        """Starts trunkline with `config` and waits until it says that it is ready; its process, endpoint and admin."""
        listen, admin = free_addresses(2)
        process = self.spawn(name, log, {"listen": listen, "admin": {"listen": admin}} | config, before)
        deadline = time.monotonic() + patience
        while not (answers(admin, "startz") and answers(admin, "readyz")):
            if process.poll() is not None:
                raise Failure(f"trunkline ended with {process.returncode}: {self.last_words(name)}")
            if time.monotonic() > deadline:
                raise Failure(f"trunkline not ready in {patience} s: {self.last_words(name)}")
            time.sleep(0.02)
        return process, listen, admin

    def load(self, mode, address, secs, tool="echo_mcp_up", background=False, may_fail=False, **options):
        """A run of the load generator: its figures, or the process whose `figures` are asked for later."""
        options = {"url": f"http://{address}/mcp", "secs": secs, "tool": tool} | options
        command = [self.programs / "load", mode, *flags(options)]
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=os.environ | {"RUST_LIB_BACKTRACE": "0"})
        self.stack.callback(end, process)
        return process if background else figures(process, may_fail, 60 + (secs or 240))

    @contextlib.contextmanager
    def crowd(self, mode, address, count, **options):
        """A crowd that is in; it goes at the end, and then nothing of it may be lost."""
        options = {"url": f"http://{address}/mcp", "count": count} | options
        process = self.start("crowd", [self.programs / "crowd", mode, *flags(options)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        first = json.loads(process.stdout.readline() or "null")
        if first is None or first["errors"]:
            raise Failure(f"{mode}: {first or self.last_words('crowd')}")
        yield first
        process.stdin.close()
        last = json.loads(process.stdout.readline() or "null")
        if last is None or last["errors"]:
            raise Failure(f"{mode} at the end: {last}")

    def last_words(self, name):
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-5:]) or "it said nothing"


def flags(options):
    """Command line flags; True is a flag without a value, None is none."""
    for key, value in options.items():
        if value is None:
            continue
        yield f"--{key.replace('_', '-')}"
        if value is not True:
            yield value


def figures(process, may_fail=False, timeout=600):
    """What a run of the load generator has told; a wrong answer fails."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure("load: a call was never answered") from None
    if not out:
        raise Failure("load: " + " ".join(err.split()))
    told = json.loads(out)
    if process.returncode and not may_fail:
        raise Failure(f"load: {told['errors']} errors, the first: {told['first_error']}")
    return told


def end(process):
    """Ends a process: kindly, then not."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_addresses(count):
    """Addresses that were free a moment ago, for a program that takes its ports from a file."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return ["127.0.0.1:%d" % probe.getsockname()[1] for probe in probes]


def answers(address, page):
    connection = http.client.HTTPConnection(address, timeout=1)
    with contextlib.closing(connection):
        try:
            connection.request("GET", f"/{page}")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def guarded(name, run):
    """Runs `run` with a stack that ends all processes however it ends; prints the last line and gives the exit code."""
    # Let the stack end all processes on these as well.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        with contextlib.ExitStack() as stack:
            run(stack)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        print(f"{name}: FAILED: {failure}")
        return 1
    print(f"{name}: ok")
    return 0
