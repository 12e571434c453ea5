"""Real clients of both eras, real servers of both, together at one URL.

`eras.py` runs every client once against an aggregate of servers on the TypeScript SDK 1.x and 2.x, over HTTP and stdio;
`eras.py --direct` each client against the server of its own era, which shows that the script is right. Ends with
`peers of both eras: N of N steps`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import world

LEGACY, MODERN = "2025-11-25", "2026-07-28"
CLIENTS_AT_ONCE = 3
SHARED_PIPE = "two-pipe"  # nothing tells whose a line of its log is: while several clients call it reaches nobody
SECONDS = 90  # for a client's whole script


@dataclass(frozen=True)
class Peer:
    """A client: how it is run and which revision it must come to speak."""

    name: str
    command: tuple[str, ...]
    revision: str


def peers() -> list[Peer]:
    script = world.HERE / "clients" / "eras"
    node = (str(world.NODE), f"{script}.mjs")
    rust = str(world.TARGET / "debug" / "trunkline-peer-eras")

    def python(venv: Path, kind: str) -> tuple[str, ...]:
        return (str(venv / "bin" / "python"), f"{script}.py", kind)

    return [
        Peer("TypeScript SDK 1", (*node, "v1"), LEGACY),
        Peer("TypeScript SDK 2", (*node, "v2"), MODERN),
        Peer("Python mcp 1", python(world.VENV, "mcp1"), LEGACY),
        Peer("Python mcp 2", python(world.VENV_MODERN, "mcp2"), MODERN),
        Peer("FastMCP 4", python(world.VENV_MODERN, "fastmcp"), MODERN),
        Peer("rmcp 3 as a legacy client", (rust, "legacy"), LEGACY),
        Peer("rmcp 3 as a modern client", (rust, "modern"), MODERN),
    ]


def said(text: str, *asked: str, failed: bool = False, work: bool = False) -> dict:
    """What a step must come to."""
    logs = [f"step {step}" for step in (1, 2, 3)] if work else []
    return {"text": text, "failed": failed, "progress": [1, 2, 3] if work else [], "logs": logs, "asked": list(asked)}


# The steps with one server, by its own names, and what each must come to. None: refused, however.
SCRIPT: list[tuple[dict, dict | None]] = [
    ({"do": "call", "name": "echo", "arguments": {"words": 'ünï → ✓ "\\'}}, said('ünï → ✓ "\\')),
    ({"do": "call", "name": "work", "progress": True}, said("worked", work=True)),
    ({"do": "call", "name": "fail"}, said("failed on purpose", failed=True)),
    ({"do": "call", "name": "confirm"}, said("confirmed: true", "elicitation/create")),
    ({"do": "call", "name": "think"}, said("thought: two", "sampling/createMessage")),
    ({"do": "call", "name": "where"}, said("roots: file:///ours", "roots/list")),
    ({"do": "call", "name": "nobody"}, None),
    ({"do": "read", "uri": "note://first"}, said("noted")),
    ({"do": "prompt", "name": "greet", "arguments": {"name": "you"}}, said("Hello, you!")),
]
TOOLS = ["echo", "work", "fail", "confirm", "think", "where"]


def exposed(step: dict, server: str) -> dict:
    """A step by the names of `/mcp`."""
    names = {"name": lambda name: f"{name}_mcp_{server}", "uri": lambda uri: f"mcp+{server}:{uri}"}
    return step | {key: name(step[key]) for key, name in names.items() if key in step and server}


def run(peer: Peer, url: str, servers: list[str]) -> tuple[int, list[str]]:
    """One client with all of these servers: how many steps were right, and what was not."""
    script = [(exposed(step, server), expected) for server in servers for step, expected in SCRIPT]
    command, steps = [*peer.command, url], json.dumps([step for step, _ in script])
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, input=steps, env=env, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        return 0, [f"{peer.name}: exit code {done.returncode}\n{done.stderr[-1500:]}"]
    transcript, right, problems = json.loads(done.stdout), 0, []
    if transcript["revision"] != peer.revision:
        problems.append(f"{peer.name} speaks {transcript['revision']}, expected {peer.revision}")
    tools = [exposed({"name": tool}, server)["name"] for server in servers for tool in TOOLS]
    if transcript["tools"] != tools:
        problems.append(f"{peer.name}: tools {transcript['tools']}, expected {tools}")
    for (step, expected), got in zip(script, transcript["steps"], strict=True):
        if expected and step["name" if "name" in step else "uri"].endswith(f"_mcp_{SHARED_PIPE}"):
            expected = expected | {"logs": [line for line in expected["logs"] if line in got["logs"]]}
        fine = got == expected if expected else got.get("failed") or got.get("error") == -32602
        right += bool(fine)
        if not fine:
            problems.append(f"{peer.name}: {json.dumps(step)}\n    expected {expected or 'a refusal'}\n    got      {got}")
    return right, problems


@contextlib.contextmanager
def server(version: str, folder: Path):
    """One of the two servers over HTTP; gives its URL."""
    port, log = world.free_port(), folder / f"{version}.log"
    with world.running(server_command(version, str(port)), log) as process:
        url = f"http://127.0.0.1:{port}/mcp"
        world.wait_until(lambda: world.status(url) != 0, process, log, version)
        yield url


def server_command(version: str, *arguments: str) -> list[str]:
    return [str(world.NODE), str(world.HERE / "servers" / f"{version}.mjs"), *arguments]


def over_stdio(version: str, **more) -> dict:
    command, *args = server_command(version)
    return {"command": command, "args": args} | more


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `with` blocks end what they started
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trunkline-eras-")))
        one, two = (stack.enter_context(server(version, folder)) for version in ("v1", "v2"))
        if sys.argv[1:] == ["--direct"]:
            jobs = [(peer, one if peer.revision == LEGACY else two, [""]) for peer in peers()]
        else:
            servers = {
                "one": {"url": one},
                # A pipe does not tell for which call a v1 server asks.
                "one-pipe": over_stdio("v1", interactive=True),
                "two": {"url": two},
                SHARED_PIPE: over_stdio("v2"),
            }
            servers = {name: entry | {"uriMode": "prefixed"} for name, entry in servers.items()}
            base = stack.enter_context(world.trunkline(folder, servers))
            jobs = [(peer, base, list(servers)) for peer in peers()]
        with ThreadPoolExecutor(CLIENTS_AT_ONCE) as pool:
            outcomes = list(pool.map(lambda job: run(*job), jobs))
    for problem in (problem for _, problems in outcomes for problem in problems):
        print(f"FAIL  {problem}")
    for (peer, *_), (right, problems) in zip(jobs, outcomes):
        print(f"{'FAIL' if problems else 'ok  '}  {peer.name}: {right} steps right")
    right, steps = sum(right for right, _ in outcomes), sum(len(names) * len(SCRIPT) for *_, names in jobs)
    print(f"peers of both eras: {right} of {steps} steps, {len(jobs)} clients, {time.monotonic() - begun:.0f} s")
    return 1 if any(problems for _, problems in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
