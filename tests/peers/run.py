"""Real servers, real clients, trunkline in between.

`run.py` runs everything; `run.py --direct` runs each script twice without trunkline, which shows that the scripts
themselves are repeatable. Prints what was compared and ends with `N passed, N failed`.
"""

import contextlib
import difflib
import itertools
import json
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import upstreams
import world

MAX_NAME = 64  # what the strictest model API takes
# What a second run cannot repeat: times in the forms these servers print them.
VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"
    r"|\w{3} \w{3} \d\d \d{4} \d\d:\d\d:\d\d GMT[+-]\d{4}( \([^)]*\))?"
    r"|\b\d\d?:\d\d:\d\d [AP]M"
    r"|\b[0-9a-f]{32}\b|\bt1\.[\w-]+"  # ids of tasks
    r"|session [\w.~-]+"  # server-everything names the session
    r"| object at 0x[0-9a-f]+"  # server-git prints a Python object's address
    r"|\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
)
THREE = ("typescript", "langchain", "rmcp")
NOBODY = "a-tool-that-nobody-has"


def exposed(tool: str, server: str) -> str:
    return f"{tool}_mcp_{server}"


def steady(value) -> list[str]:
    """A transcript part as lines of text, without what changes by itself."""
    return VOLATILE.sub("<volatile>", json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)).splitlines()


def same(what: str, direct, through) -> int:
    """Counts one compared step, or fails with the difference."""
    if (expected := steady(direct)) != (got := steady(through)):
        lines = difflib.unified_diff(expected, got, "direct", "through trunkline", lineterm="", n=1)
        shown = itertools.islice((line[:300] for line in lines), 24)
        raise AssertionError(f"{what} differs:\n" + "\n".join(shown))
    return 1


def refused(call: dict) -> bool:
    """Servers refuse an unknown tool in different ways, and all clients take each of them as a failure."""
    return "error" in call or call.get("result", {}).get("isError") is True


def right(server: upstreams.Upstream, call: dict) -> bool:
    result = call.get("result", {})
    return not result.get("isError") and server.answer in json.dumps(result, ensure_ascii=False)


def script_of(server: upstreams.Upstream, suffix: bool) -> list[dict]:
    tools = [*(call.tool for call in server.script), NOBODY]
    steps = [*(call.step() for call in server.script), upstreams.Call(NOBODY).step()]
    return [step | {"name": exposed(tool, server.name) if suffix else tool} for tool, step in zip(tools, steps)]


def raw_names(server: upstreams.Upstream, transcript: dict, direct: dict) -> dict:
    """A transcript of `/mcp` as it would read with this server's own names; other servers' tools are left out."""
    own = {exposed(tool["name"], server.name): tool for tool in direct["tools"]}
    tools = []
    for tool in transcript["tools"]:
        if raw := own.get(tool["name"]):
            text = tool.get("description", "")
            # `describeOrigin` may put the server's title before the text; what follows must be the server's own.
            if "description" in raw and text.endswith(raw["description"]):
                text = raw["description"]
            tools.append(tool | {"name": raw["name"]} | ({"description": text} if text else {}))
    calls = [call | {"name": step["name"]} for call, step in zip(transcript["calls"], script_of(server, False))]
    return {"tools": sorted(tools, key=lambda tool: tool["name"]), "calls": calls}


def compare(what: str, server: upstreams.Upstream, direct: dict, through: dict) -> int:
    assert direct["tools"] and len(direct["calls"]) == len(through["calls"]), f"{what}: a short transcript"
    able = server.for_able - {tool["name"] for tool in direct["tools"]}
    listed = [tool for tool in through["tools"] if tool["name"] not in able]
    steps = same(f"{what}: tools/list", direct["tools"], listed)
    *direct_calls, direct_nobody = direct["calls"]
    *through_calls, through_nobody = through["calls"]
    for number, (a, b) in enumerate(zip(direct_calls, through_calls), 1):
        steps += same(f"{what}: call {number} ({a['name']})", a, b)
    assert refused(direct_nobody) and refused(through_nobody), f"{what}: unknown tool: {through_nobody}"
    return steps + 1


class Tests:
    """Every test returns the figures to print."""

    def __init__(self, folder: Path, servers: list[upstreams.Upstream], base: str):
        self.state, self.servers, self.base = folder / "state", servers, base

    def tests(self) -> list:
        return [
            self.many_servers_three_clients,
            self.what_works_direct_works_through,
            self.every_tool_of_everything,
            self.a_name_of_no_server_is_refused,
        ]

    def run(self, client: str, server: upstreams.Upstream, target: list[str], suffix: bool = False) -> dict:
        upstreams.reset(self.state)
        return world.ask(client, target, script_of(server, suffix), server.entry.get("env"))

    def many_servers_three_clients(self) -> str:
        """Every tool of every server is listed under its one name, and a call of each server is right."""
        upstreams.reset(self.state)
        expected = {}
        for server in self.servers:
            listed = world.ask("typescript", server.direct("typescript"), [], server.entry.get("env"))["tools"]
            tools = {tool["name"] for tool in listed} | server.for_able
            expected |= {exposed(tool, server.name): server.name for tool in tools}
        calls = 0
        for client in THREE:
            steps = [server.known.step(exposed(server.known.tool, server.name)) for server in self.servers]
            transcript = world.ask(client, [self.base], steps)
            names = [tool["name"] for tool in transcript["tools"]]
            assert sorted(names) == sorted(expected), f"{client}: {sorted(set(names) ^ set(expected))}"
            assert max(map(len, names)) <= MAX_NAME, f"{client}: {max(names, key=len)}"
            for server, call in zip(self.servers, transcript["calls"], strict=True):
                assert right(server, call), f"{client}: {server.name}: expected {server.answer!r} in {call}"
                calls += 1
        longest = max(map(len, expected))
        return f"{len(self.servers)} servers, {len(expected)} tools, {len(THREE)} clients, {calls} calls right, longest name {longest}"

    def what_works_direct_works_through(self) -> str:
        """Each script by every client, direct and by every other route: equal but for names."""
        steps, problems = 0, []
        for client, server in itertools.product(world.CLIENTS, self.servers):
            try:
                direct = self.run(client, server, server.direct(client))
                for route, transcript in self.routes(client, server, direct):
                    steps += compare(f"{client}, {server.name}, {route}", server, direct, transcript)
            except (AssertionError, RuntimeError) as problem:
                problems.append(str(problem))
        assert not problems, f"{len(problems)} of {len(self.servers) * len(world.CLIENTS)}:\n" + "\n".join(problems)
        return f"{steps} steps compared ({len(world.CLIENTS)} clients, {len(self.servers)} servers)"

    def routes(self, client: str, server: upstreams.Upstream, direct: dict) -> Iterator[tuple[str, dict]]:
        yield f"/mcp/{server.name}", self.run(client, server, [f"{self.base}/{server.name}"])
        if client == THREE[0]:  # the other clients meet the suffixed names in the first test
            yield "/mcp", raw_names(server, self.run(client, server, [self.base], suffix=True), direct)

    def every_tool_of_everything(self) -> str:
        """All of server-everything's tools, with a client that samples, elicits, has roots and runs tasks."""
        own = {"command": str(world.NODE), "args": [world.npm("@modelcontextprotocol/server-everything"), "stdio"]}
        servers = {"shared": own, "own": own | {"interactive": True}, "http": self.servers[1].entry}
        direct = world.all_tools(["--stdio", own["command"], *own["args"]])
        steps = 0
        with world.trunkline(self.state.parent, servers) as base:
            for name, path, suffix in (("shared", "/shared", ""), ("own", "", "_mcp_own"), ("http", "/http", "")):
                through = world.all_tools([base + path], SUFFIX=suffix, **({"NO_UPDATES": "1"} if name != "shared" else {}))
                if name != "shared":
                    direct |= {"updated": None}
                what = f"{name}, all tools"
                steps += same(f"{what}: names", direct["tools"], through["tools"])
                for tool, call in direct["calls"].items():
                    if tool != "get-env":
                        steps += same(f"{what}: {tool}", call, through["calls"][tool])
                assert "PATH" in json.dumps(through["calls"]["get-env"]), what
                steps += same(f"{what}: the rest", *({k: t[k] for k in ("read", "updated", "logged")} for t in (direct, through)))
            # A client that knows no tasks gets the answer of a tool that needs one all the same.
            research = upstreams.Call("simulate-research-query", {"topic": "lines"}).step()
            for client in THREE:
                (call,) = world.ask(client, [base + "/shared"], [research])["calls"]
                assert "Research Report: lines" in json.dumps(call.get("result")), f"{client}: {call}"
        return f"{len(direct['tools'])} tools, {len(servers)} ways, {steps} steps compared, {len(THREE)} clients without tasks"

    def a_name_of_no_server_is_refused(self) -> str:
        """`/mcp` answers -32602 to a name that no server owns."""
        for client in THREE:
            (call,) = world.ask(client, [self.base], [upstreams.Call(NOBODY).step()])["calls"]
            assert call.get("error", {}).get("code") == -32602, f"{client}: {call}"
        return f"{len(THREE)} clients"


class Direct(Tests):
    """The scripts twice without trunkline: shows that they are repeatable and the known answers right."""

    def tests(self) -> list:
        return [self.what_works_direct_works_through, self.known_answers]

    def routes(self, client: str, server: upstreams.Upstream, direct: dict) -> Iterator[tuple[str, dict]]:
        yield "direct again", self.run(client, server, server.direct(client))

    def known_answers(self) -> str:
        upstreams.reset(self.state)
        for server in self.servers:
            (call,) = world.ask("typescript", server.direct("typescript"), [server.known.step()], server.entry.get("env"))["calls"]
            assert right(server, call), f"{server.name}: expected {server.answer!r} in {call}"
        return f"{len(self.servers)} servers"


def run_all(tests: Tests) -> int:
    passed = failed = 0
    for test in tests.tests():
        name, begun = test.__name__.replace("_", " "), time.monotonic()
        try:
            figures = test()
            passed += 1
            print(f"ok    {name}: {figures}, {time.monotonic() - begun:.0f} s", flush=True)
        except Exception as problem:
            failed += 1
            print(f"FAIL  {name}, {time.monotonic() - begun:.0f} s: {problem}", flush=True)
            if not isinstance(problem, AssertionError):
                traceback.print_exc()
    print(f"peers: {passed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `with` blocks end what they started
    direct = sys.argv[1:] == ["--direct"]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trunkline-peers-")))
        upstreams.reset(folder / "state")
        urls = [
            stack.enter_context(world.everything_over(mode, path, folder))
            for mode, path in (("streamableHttp", "/mcp"), ("sse", "/sse"))
        ]
        servers = upstreams.all_of_them(folder / "state", *urls)
        if direct:
            return run_all(Direct(folder, servers, ""))
        base = stack.enter_context(world.trunkline(folder, {server.name: server.entry for server in servers}))
        return run_all(Tests(folder, servers, base))


if __name__ == "__main__":
    sys.exit(main())
