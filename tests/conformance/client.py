"""What the suite runs as the client under test, `client.py ERA FOLDER URL`: trunkline with the suite's server behind it,
and in front a client of ours of that era. It lists everything, reads, and calls what the suite says, else each tool
once; questions are answered by the defaults they come with. The folder, which must not exist, is for the logs."""

import contextlib
import json
import os
import sys
import traceback
from pathlib import Path

import wirings
from suite import HERE, MODERN

sys.path.insert(0, str(HERE.parent / "eras"))
from client import Client, Legacy, Modern  # noqa: E402

CAPABILITIES = {"elicitation": {"form": {"applyDefaults": True}}}
# What a call says where the tool's schema asks for it.
WORDS = {"number": 2, "integer": 3, "string": "words", "boolean": True, "object": {}}


def arguments(tool: dict) -> dict:
    """Something for everything that the tool needs."""
    schema = tool["inputSchema"]
    return {name: WORDS.get(schema["properties"][name].get("type"), "words") for name in schema.get("required", [])}


def calls(tools: list[dict]) -> list[dict]:
    """What the suite wants called. A schema that comes back as it was listed shows that nothing of it was lost."""
    if wanted := json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls"):
        return wanted
    listed = {tool["name"]: arguments(tool) for tool in tools}
    if "json_schema_echo" in listed:
        listed["json_schema_echo"] = {"schema": next(tool for tool in tools if tool["name"] != "json_schema_echo")["inputSchema"]}
    return [{"name": name, "arguments": given} for name, given in listed.items()]


def use(client: Client) -> None:
    for call in calls(client.list("tools")):
        print(call["name"], client.call(call["name"], call["arguments"]).good())
    offered = client.hello["capabilities"]
    for resource in client.list("resources") if "resources" in offered else ():
        print(resource["uri"], client.request("resources/read", {"uri": resource["uri"]}))
    for prompt in client.list("prompts") if "prompts" in offered else ():
        print(prompt["name"], client.request("prompts/get", {"name": prompt["name"]}))


def main(era: str, folder: Path, upstream: str) -> None:
    # The suite's server takes handshakes, too, which a legacy client would get.
    modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] == MODERN
    entry = {"url": upstream, "naming": "plain"} | ({"protocol": "modern"} if modern and era == "legacy" else {})
    with wirings.behind(folder, {"suite": entry}) as base:
        front = {"legacy": Legacy, "modern": Modern}[era]
        with contextlib.closing(front(f"{base}/suite", CAPABILITIES)) as client:
            use(client)


if __name__ == "__main__":
    # The suite keeps for itself what is printed, and may end us.
    place = Path(sys.argv[2])
    place.mkdir()
    with (place / "client.log").open("w", buffering=1) as said, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(sys.argv[1], place, sys.argv[3])
        except Exception:
            traceback.print_exc()
            raise
