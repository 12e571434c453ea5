"""An MCP client for a few questions: standard library, one connection, no measuring."""

import http.client
import json

from stage import Failure

REVISION = "2025-11-25"


class Asker:
    """A client of an endpoint with a handshake."""

    def __init__(self, address, path="/mcp", timeout=10):
        self.connection = http.client.HTTPConnection(address, timeout=timeout)
        self.path, self.number = path, 0
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def post(self, message):
        self.connection.request("POST", self.path, json.dumps({"jsonrpc": "2.0"} | message), self.headers)
        answer = self.connection.getresponse()
        return answer, answer.read()

    def ask(self, method, **params):
        """The result, and the body that it came in."""
        self.number += 1
        answer, body = self.post({"id": self.number, "method": method, "params": params})
        if answer.status != 200:
            raise Failure(f"{method}: status {answer.status}: {body[:200].decode(errors='replace')}")
        if session := answer.getheader("mcp-session-id"):
            self.headers["Mcp-Session-Id"] = session
        message = self.message(body)
        if "result" not in message:
            raise Failure(f"{method}: {json.dumps(message)[:200]}")
        return message["result"], body

    def message(self, body):
        """The answer among what a body holds: JSON, or events with one `data` line each."""
        lines = [line[5:] for line in body.splitlines() if line.startswith(b"data:")] or [body]
        try:
            messages = [json.loads(line) for line in lines if line.strip()]
        except ValueError:
            raise Failure(f"not JSON: {body[:200]!r}") from None
        for message in messages:
            if message.get("id") == self.number:
                return message
        raise Failure(f"no answer in {body[:200]!r}")

    def open(self):
        client = {"name": "bench", "version": "1"}
        result, _ = self.ask("initialize", protocolVersion=REVISION, capabilities={}, clientInfo=client)
        self.headers["Mcp-Protocol-Version"] = result["protocolVersion"]
        self.post({"method": "notifications/initialized"})

    def tools(self):
        """The names on the first page."""
        return [tool["name"] for tool in self.ask("tools/list")[0]["tools"]]
