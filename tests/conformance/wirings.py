"""How the fixture stands behind trunkline; each way gives the URL to test."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from suite import MODERN, world

FIXTURE = world.TARGET / "debug" / "everything"
world.TRUNKLINE = Path(os.environ.get("TRUNKLINE_BIN", world.TARGET / "debug" / "trunkline"))
NAME = "everything"
CROSSED = "2025-11-25"


def options(revision: str) -> list[str]:
    """The fixture speaks nothing newer than what is tested, so that the revision's wire is really used."""
    return [] if revision == MODERN else ["--era", "legacy", "--newest", revision]


@contextlib.contextmanager
def fixture_over_http(*options: str) -> Iterator[str]:
    """The fixture over HTTP; gives its URL."""
    command = [str(FIXTURE), "--http", "127.0.0.1:0", *options]
    # It ends when its stdin closes.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the fixture did not start: exit code {process.wait()}")
            yield url
        finally:
            process.terminate()


def over_stdio(revision: str) -> dict:
    """The fixture as a child. It asks its client, and a pipe does not say for which call: so a child per session."""
    return {"command": str(FIXTURE), "args": ["--stdio", *options(revision)], "interactive": True}


@contextlib.contextmanager
def behind(folder: Path, servers: dict) -> Iterator[str]:
    """trunkline with these servers; its log is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with world.trunkline(folder, servers) as url:
        yield url


@contextlib.contextmanager
def server_http(revision: str, folder: Path) -> Iterator[str]:
    """The fixture's own view, over HTTP upstream."""
    with fixture_over_http(*options(revision)) as url, behind(folder / "server-http", {NAME: {"url": url}}) as base:
        yield f"{base}/{NAME}"


@contextlib.contextmanager
def server_stdio(revision: str, folder: Path) -> Iterator[str]:
    """The same as a child process."""
    with behind(folder / "server-stdio", {NAME: over_stdio(revision)}) as base:
        yield f"{base}/{NAME}"


@contextlib.contextmanager
def aggregate(revision: str, folder: Path) -> Iterator[str]:
    """Everything together: the fixture by plain names between two others, one of which is not there."""
    decoy = {"command": str(world.NODE), "args": [world.npm("@modelcontextprotocol/server-everything")]}
    with fixture_over_http(*options(revision)) as url:
        servers = {
            "gone": {"url": f"http://127.0.0.1:{world.free_port()}/mcp"},
            NAME: {"url": url, "naming": "plain"},
            "decoy": decoy,
        }
        with behind(folder / "aggregate", servers) as base:
            yield base


@contextlib.contextmanager
def modern_server(revision: str, folder: Path) -> Iterator[str]:
    """A server of the other era behind the legacy client that the suite is."""
    with fixture_over_http("--era", "modern") as url, behind(folder / "modern-server", {NAME: {"url": url}}) as base:
        yield f"{base}/{NAME}"


WIRINGS = {"server-http": server_http, "server-stdio": server_stdio, "aggregate": aggregate, "modern-server": modern_server}


def of(revision: str) -> list[str]:
    """The wirings that a revision is tested in: one that has all that the other era can ask for in the other, too."""
    return [wiring for wiring in WIRINGS if wiring != "modern-server" or revision == CROSSED]
