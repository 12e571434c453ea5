"""What the suite runs as the client under test: trunkline with the suite's server behind it, and a small client of
our own in front that lists the tools, calls each once, and answers questions by the defaults they come with."""

import itertools
import json
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import wirings
from suite import CLIENT_REVISION, world

SECONDS = 20
# What a call says where the tool's schema asks for it.
WORDS = {"number": 2, "integer": 3, "string": "words", "boolean": True}


class Client:
    """A legacy client over streamable HTTP that can be asked by forms."""

    def __init__(self, url: str):
        self.url, self.ids, self.headers = url, itertools.count(1), {}
        hello = {
            "protocolVersion": CLIENT_REVISION,
            "capabilities": {"elicitation": {"form": {"applyDefaults": True}}},
            "clientInfo": {"name": "trunkline-conformance", "version": "1"},
        }
        revision = self.request("initialize", hello)["protocolVersion"]
        self.headers["MCP-Protocol-Version"] = revision
        self.send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict | None = None) -> dict:
        """Sends a request and gives its result. Whatever is asked meanwhile is answered."""
        number = next(self.ids)
        for message in self.send({"id": number, "method": method, "params": params or {}}):
            if "method" in message and "id" in message:
                self.send({"id": message["id"], "result": answer(message)})
            elif message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
        raise RuntimeError(f"{method}: no answer")

    def send(self, message: dict) -> Iterator[dict]:
        """Posts a message; what comes back is read as it comes."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        response = urllib.request.urlopen(
            urllib.request.Request(self.url, body, headers | self.headers), timeout=SECONDS
        )
        if session := response.headers.get("Mcp-Session-Id"):
            self.headers["Mcp-Session-Id"] = session
        return messages(response)


def messages(response) -> Iterator[dict]:
    """The messages of a response: one as JSON, or any number as events of one line each."""
    with response:
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            if body := response.read():
                yield json.loads(body)
            return
        for line in response:
            if data := line.decode().removeprefix("data:").strip() if line.startswith(b"data:") else "":
                yield json.loads(data)


def answer(request: dict) -> dict:
    """The answer to a question: a form is accepted as its defaults have it."""
    if request["method"] != "elicitation/create":
        raise RuntimeError(f"not declared: {request['method']}")
    fields = request["params"]["requestedSchema"]["properties"]
    content = {name: schema["default"] for name, schema in fields.items() if "default" in schema}
    return {"action": "accept", "content": content}


def arguments(tool: dict) -> dict:
    """Something for everything that the tool needs."""
    schema = tool["inputSchema"]
    return {name: WORDS.get(schema["properties"][name].get("type"), "words") for name in schema.get("required", [])}


def main(upstream: str) -> None:
    with tempfile.TemporaryDirectory(prefix="trunkline-client-") as folder:
        entry = {"url": upstream, "naming": "plain"}
        with wirings.behind(Path(folder), {"suite": entry}) as base:
            client = Client(f"{base}/suite")
            for tool in client.request("tools/list")["tools"]:
                print(tool["name"], client.request("tools/call", {"name": tool["name"], "arguments": arguments(tool)}))


if __name__ == "__main__":
    main(sys.argv[1])
