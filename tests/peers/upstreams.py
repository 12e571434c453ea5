"""The servers nobody here wrote: how each is started, what it is asked, and one answer known beforehand."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import world


@dataclass(frozen=True)
class Call:
    """One `tools/call`, by the server's own tool name."""

    tool: str
    arguments: dict = field(default_factory=dict)
    progress: bool = False

    def step(self, name: str | None = None) -> dict:
        return {"name": name or self.tool, "arguments": self.arguments, "progress": self.progress}


@dataclass(frozen=True)
class Upstream:
    """One server: its entry in `mcpServers`, its script, and a call whose answer must contain `answer`."""

    name: str
    entry: dict
    script: list[Call]
    known: Call
    answer: str
    # Tools that it lists only to clients that can be asked something: trunkline's link says that some client can.
    for_able: frozenset[str] = frozenset()
    sse: bool = False
    twin: "Upstream | None" = None  # the same server over another transport

    def direct(self, client: str) -> list[str]:
        """The client arguments that reach it without trunkline; or its twin, where the client does not speak HTTP+SSE."""
        if self.sse and client in world.NO_SSE:
            return self.twin.direct(client)
        if "url" in self.entry:
            return [*(["--sse"] if self.sse else []), self.entry["url"]]
        return ["--stdio", self.entry["command"], *self.entry["args"]]


def reset(state: Path) -> None:
    """Puts everything the servers keep back to the start, so that every run of a script finds the same."""
    for folder in (state / "files", state / "repo"):
        folder.mkdir(parents=True, exist_ok=True)
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    (state / "files" / "note.txt").write_text("first line\nsecond line, with ünïcode → ✓\n")
    (state / "files" / "sub").mkdir()
    memory = [
        {"type": "entity", "name": "trunk", "entityType": "thing", "observations": ["joins lines"]},
        {"type": "entity", "name": "line", "entityType": "thing", "observations": []},
    ]
    (state / "memory.jsonl").write_text("\n".join(json.dumps(entity) for entity in memory))
    when = "2025-01-02T03:04:05+00:00"
    env = os.environ | {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_CONFIG_GLOBAL": os.devnull}
    repo = state / "repo"
    (repo / "a.txt").write_text("one\n")
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "a.txt"],
        ["-c", "user.name=peer", "-c", "user.email=peer@localhost", "commit", "-q", "-m", "the first commit"],
    ):
        subprocess.run(["git", *arguments], cwd=repo, env=env, check=True)
    (repo / "a.txt").write_text("two\n")


FOR_ABLE = frozenset(
    "get-roots-list trigger-elicitation-request trigger-elicitation-request-async trigger-sampling-request "
    "trigger-sampling-request-async trigger-url-elicitation".split()
)


def everything(name: str, entry: dict) -> Upstream:
    script = [
        Call("echo", {"message": 'quotes " \\ tab \t and ünïcode → ✓ \U0001f9f5'}),
        Call("echo", {"message": "x" * 300_000}),
        Call("echo", {}),  # an argument is missing: the server's own error
        Call("get-sum", {"a": 0.1, "b": 9007199254740991}),
        Call("get-annotated-message", {"messageType": "error", "includeImage": True}),
        Call("get-structured-content", {"location": "Chicago"}),
        Call("get-structured-content", {"location": "nowhere"}),
        Call("get-resource-links", {"count": 2}),
        Call("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        Call("get-tiny-image"),
        Call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress=True),
    ]
    known = Call("get-sum", {"a": 2, "b": 40})
    return Upstream(name, entry, script, known, "The sum of 2 and 40 is 42.", FOR_ABLE)


def everything_2025_06_18(name: str, entry: dict) -> Upstream:
    script = [
        Call("echo", {"message": "ünïcode → ✓"}),
        Call("echo", {"wrong": 1}),
        Call("add", {"a": 0.1, "b": 0.2}),
        Call("annotatedMessage", {"messageType": "success", "includeImage": True}),
        Call("structuredContent", {"location": "Chicago"}),
        Call("getResourceReference", {"resourceId": 2}),
        Call("getResourceReference", {"resourceId": 0}),
        Call("getTinyImage"),
        Call("longRunningOperation", {"duration": 0.3, "steps": 3}, progress=True),
    ]
    known = Call("add", {"a": 2, "b": 40})
    return Upstream(name, entry, script, known, "The sum of 2 and 40 is 42.", frozenset({"listRoots", "startElicitation"}))


def filesystem(state: Path) -> Upstream:
    files = state / "files"
    note, new = str(files / "note.txt"), str(files / "sub" / "new.txt")
    script = [
        Call("list_allowed_directories"),
        Call("read_text_file", {"path": note}),
        Call("read_text_file", {"path": note, "head": 1}),
        Call("read_text_file", {"path": str(files / "absent.txt")}),
        Call("read_text_file", {"path": "/etc/hostname"}),  # outside: refused
        Call("write_file", {"path": new, "content": "written\n"}),
        Call("edit_file", {"path": new, "edits": [{"oldText": "written", "newText": "edited"}]}),
        Call("directory_tree", {"path": str(files)}),
        Call("search_files", {"path": str(files), "pattern": "**/*.txt"}),
        Call("get_file_info", {"path": note}),
        Call("read_multiple_files", {"paths": [note, new]}),
    ]
    entry = {"command": str(world.NODE), "args": [world.npm("@modelcontextprotocol/server-filesystem"), str(files)]}
    return Upstream("filesystem", entry, script, Call("read_text_file", {"path": note}), "second line, with ünïcode")


def memory(state: Path) -> Upstream:
    script = [
        Call("read_graph"),
        Call("create_entities", {"entities": [{"name": "new", "entityType": "thing", "observations": ["a", "b"]}]}),
        Call("create_relations", {"relations": [{"from": "trunk", "to": "new", "relationType": "carries"}]}),
        Call("add_observations", {"observations": [{"entityName": "absent", "contents": ["x"]}]}),  # an error
        Call("create_entities", {"entities": "not a list"}),
        Call("open_nodes", {"names": ["trunk", "new"]}),
        Call("delete_entities", {"entityNames": ["line"]}),
        Call("read_graph"),
    ]
    entry = {
        "command": str(world.NODE),
        "args": [world.npm("@modelcontextprotocol/server-memory")],
        "env": {"MEMORY_FILE_PATH": str(state / "memory.jsonl")},
    }
    return Upstream("memory", entry, script, Call("search_nodes", {"query": "trunk"}), "joins lines")


def time() -> Upstream:
    tokyo = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    script = [
        Call("get_current_time", {"timezone": "Europe/Paris"}),
        Call("get_current_time", {"timezone": "Nowhere/Land"}),
        Call("convert_time", tokyo),
        Call("convert_time", tokyo | {"time": "99:99"}),
        Call("convert_time", {"time": "12:00"}),
    ]
    entry = {"command": str(world.VENV / "bin" / "mcp-server-time"), "args": ["--local-timezone", "UTC"]}
    return Upstream("time", entry, script, Call("convert_time", tokyo), "T21:00:00+09:00")


def git(state: Path) -> Upstream:
    repo = {"repo_path": str(state / "repo")}
    script = [
        Call("git_status", repo),
        Call("git_log", repo | {"max_count": 3}),
        Call("git_diff_unstaged", repo),
        Call("git_show", repo | {"revision": "HEAD"}),
        Call("git_show", repo | {"revision": "absent"}),
        Call("git_create_branch", repo | {"branch_name": "side"}),
        Call("git_branch", repo | {"branch_type": "local"}),
        Call("git_status", {"repo_path": "/"}),
    ]
    entry = {"command": str(world.VENV / "bin" / "mcp-server-git"), "args": ["--repository", repo["repo_path"]]}
    return Upstream("git", entry, script, Call("git_log", repo), "the first commit")


def all_of_them(state: Path, http_url: str, sse_url: str) -> list[Upstream]:
    """Every server, in the order of the configuration; the URLs are where server-everything listens."""
    new = world.npm("@modelcontextprotocol/server-everything")
    old = world.npm("server-everything-2025-06-18")
    node = str(world.NODE)
    over_http = everything("everything-http", {"url": http_url})
    over_sse = replace(over_http, name="everything-sse", entry={"url": sse_url, "type": "sse"}, sse=True, twin=over_http)
    return [
        everything("everything", {"command": node, "args": [new, "stdio"]}),
        over_http,
        over_sse,
        replace(over_sse, name="inferred-sse", entry={"url": sse_url}),
        everything_2025_06_18("everything-old", {"command": node, "args": [old, "stdio"]}),
        filesystem(state),
        memory(state),
        time(),
        git(state),
    ]
