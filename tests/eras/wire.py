"""HTTP as MCP uses it, what a request comes to, and what our user answers."""

import base64
import contextlib
import http.client
import json
import math
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

SECONDS = 20  # until a response, or anything more of one, must have come
MOST_SECONDS = 60  # until a response must have ended, whatever keeps it alive
PREFIX = "io.modelcontextprotocol/"

WORDS = {"string": "words ünï ✓", "integer": 3, "number": 2, "boolean": True, "array": []}


class Enough(Exception):
    """Raised by whoever is told of progress: the request is to be cancelled."""


@dataclass
class Reply:
    """What one request came to, its rounds taken together."""

    result: dict | None = None
    error: dict | None = None
    status: int = 0
    progress: list[dict] = field(default_factory=list)
    logs: list[dict] = field(default_factory=list)
    asked: list[tuple[str, dict]] = field(default_factory=list)
    visited: list[str] = field(default_factory=list)  # legacy: elicitations that were told to be complete
    rounds: int = 1

    @property
    def text(self) -> str:
        """All text of a tool's result."""
        return "".join(block.get("text", "") for block in (self.result or {}).get("content", []))

    def asked_once(self) -> tuple[str, dict]:
        """The only question: method and params."""
        assert len(self.asked) == 1, f"asked {len(self.asked)} times, came to {self.error or self.result}"
        return self.asked[0]

    def good(self) -> dict:
        """The result, which must be there and not tell of a failure."""
        assert self.result is not None, f"an error: {self.status} {self.error}"
        assert not self.result.get("isError"), f"the tool fails: {self.text}"
        return self.result

    def failed(self) -> str:
        """The text of a tool's result that tells of a failure."""
        assert self.result is not None and self.result.get("isError") is True, f"not a failure: {self}"
        return self.text

    def refused(self, code: int) -> dict:
        """The error, which must have this code."""
        assert self.error and self.error["code"] == code, f"not {code}: {self.error or self.result}"
        return self.error


def answer(method: str, params: dict) -> dict:
    """What our user, model and machine answer. A form is filled in by its defaults, or with something that fits."""
    if method == "sampling/createMessage":
        words = params["messages"][0]["content"]["text"]
        return {"role": "assistant", "model": "ours", "content": {"type": "text", "text": f"sampled: {words}"}}
    if method == "roots/list":
        return {"roots": [{"uri": "file:///home/ours", "name": "ours"}]}
    assert method == "elicitation/create", method
    if params.get("mode") == "url":
        return {"action": "accept"}
    fields = params["requestedSchema"]["properties"].items()
    return {"action": "accept", "content": {name: schema.get("default", WORDS[schema["type"]]) for name, schema in fields}}


class Response:
    """An HTTP response, its messages one by one. Can be hung up on from another thread."""

    def __init__(self, url: str, method: str, headers: dict[str, str], body: bytes | None, seconds: float = SECONDS):
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
        self.connection.connect()
        self.socket = self.connection.sock  # the response takes it away from its connection
        self.connection.request(method, parts.path, body, {key: value.encode() for key, value in headers.items()})
        self.raw = self.connection.getresponse()
        self.status, self.headers = self.raw.status, self.raw.headers
        self.events = self.headers.get_content_type() == "text/event-stream" if "Content-Type" in self.headers else False

    def messages(self, most: float = MOST_SECONDS) -> Iterator[dict]:
        """One as JSON, or any number as events. Ends with the response, or fails after `most` seconds."""
        deadline = time.monotonic() + most
        with contextlib.closing(self.connection):
            if not self.events:
                if body := self.raw.read():
                    yield json.loads(body)
                return
            data: list[bytes] = []
            while line := self.raw.readline():
                assert time.monotonic() < deadline, f"no end of the response within {most} s"
                name, _, value = line.rstrip(b"\r\n").partition(b":")
                if name == b"data" and value.strip():
                    data.append(value.removeprefix(b" "))
                elif not line.strip() and data:
                    yield json.loads(b"\n".join(data))
                    data = []

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Ear:
    """Notifications that come by themselves, read by a thread of their own until the block ends."""

    def __init__(self, response: Response, check: Callable[[dict], dict]):
        self.response, self.check, self.heard = response, check, queue.Queue()
        self.thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        try:
            for message in self.response.messages(math.inf):
                self.heard.put(self.check(message))
        except (OSError, http.client.HTTPException, ValueError):
            pass  # hung up on
        except AssertionError as problem:
            self.heard.put(problem)
        self.heard.put(None)

    def next(self, seconds: float = SECONDS) -> dict | None:
        """The next message; None when the stream has ended."""
        try:
            message = self.heard.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"nothing was heard for {seconds} s") from None
        if isinstance(message, AssertionError):
            raise message
        return message

    def wait_for(self, method: str, **params) -> dict:
        """The next message of this method with these params; others are passed over."""
        while message := self.next():
            if message.get("method") == method and params.items() <= message["params"].items():
                return message["params"]
        raise AssertionError(f"the stream ended without {method}")

    def quiet(self, seconds: float) -> list[dict]:
        """What comes until nothing has come for so long."""
        came = []
        with contextlib.suppress(AssertionError):
            while message := self.next(seconds):
                came.append(message)
        return came

    def __enter__(self) -> "Ear":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.response.hang_up()
        self.thread.join(SECONDS)


def encoded(value) -> str:
    """As a header repeats it."""
    text = value if isinstance(value, str) else json.dumps(value)
    plain = all(" " <= char <= "~" for char in text) and text == text.strip()
    if plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
