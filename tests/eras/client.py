"""A small client of each era over HTTP, strict about what it is sent: a message that its revision does not allow fails.

Both give the same `Reply` for the same deed, so that one check can be run by either. What it is asked meanwhile is
answered by `answer` and noted.
"""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator

import wire
from wire import PREFIX, Ear, Enough, Reply, Response, encoded

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ABLE = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
CACHED = ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | {
    f"tasks/{verb}": "taskId" for verb in ("get", "update", "cancel")
}
MOST_ROUNDS = 8
STATUS = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}  # of modern errors


class Client:
    """What both eras have in common."""

    revision: str
    modern: bool

    def __init__(self, url: str, capabilities: dict = ABLE, answer: Callable[[str, dict], dict] = wire.answer, name: str = "ours"):
        self.url, self.capabilities, self.answer = url, capabilities, answer
        self.info, self.numbers = {"name": name, "version": "1"}, itertools.count(1)

    def new_id(self) -> str | int:
        """Numbers and texts in turns: each must come back as what it is."""
        number = next(self.numbers)
        return number if number % 2 else str(number)

    def request(self, method: str, params: dict | None = None, **options) -> Reply:
        raise NotImplementedError

    def call(self, tool: str, arguments: dict | None = None, **options) -> Reply:
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **options)

    def list(self, kind: str) -> list[dict]:
        """All pages of `tools`, `prompts`, `resources` or `resourceTemplates`."""
        method = {"resourceTemplates": "resources/templates"}.get(kind, kind) + "/list"
        page = self.request(method).good()
        entries = page[kind]
        while cursor := page.get("nextCursor"):
            page = self.request(method, {"cursor": cursor}).good()
            entries += page[kind]
        return entries

    def post(self, message: dict, headers: dict[str, str]) -> Response:
        common = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        return Response(self.url, "POST", common | headers, body)

    def read(self, messages: Iterator[dict], id: str | int, token, reply: Reply, on_progress) -> None:
        """Reads a response to its end and into the reply."""
        for message in messages:
            assert message["jsonrpc"] == "2.0" and reply.result is None and reply.error is None, f"too much: {message}"
            match message:
                case {"method": "notifications/progress", "params": {"progressToken": given, **step}} if "id" not in message:
                    assert (given, type(given)) == (token, type(token)), f"not our token {token!r}: {message}"
                    reply.progress.append(step)
                    if on_progress:
                        on_progress()
                case {"method": "notifications/message", "params": params} if "id" not in message:
                    reply.logs.append(params)
                case {"method": "notifications/elicitation/complete", "params": params} if not self.modern:
                    reply.visited.append(params["elicitationId"])
                case {"method": "notifications/tasks/status"} if not self.modern:
                    pass  # goes wherever the client listens
                case {"method": method, "id": leg} if not self.modern:
                    self.asked(reply, method, message.get("params", {}), leg)
                case {"id": given, "result": result}:
                    assert (given, type(given)) == (id, type(id)), f"not our id {id!r}: {message}"
                    reply.result = result
                case {"id": given, "error": error}:
                    assert (given, type(given)) == (id, type(id)), f"not our id {id!r}: {message}"
                    reply.error = error
                case _:
                    raise AssertionError(f"not allowed here: {message}")

    def asked(self, reply: Reply, method: str, params: dict, leg) -> None:
        raise NotImplementedError

    def ask(self, reply: Reply, method: str, params: dict) -> dict:
        """Answers what it declared that it can."""
        mode = params.get("mode", "form")
        need = {"sampling/createMessage": "sampling", "roots/list": "roots", "elicitation/create": "elicitation"}[method]
        assert need in self.capabilities, f"asked for {need}, which was not declared"
        modes = self.capabilities[need]
        assert need != "elicitation" or mode in modes or (not modes and mode == "form"), f"asked by {mode}: {params}"
        reply.asked.append((method, params))
        return self.answer(method, params)


class Legacy(Client):
    """2025-11-25 and before: a handshake, a session, requests of the server."""

    modern = False

    def __init__(self, url: str, *args, revision: str = LEGACY, **options):
        super().__init__(url, *args, **options)
        self.headers: dict[str, str] = {}
        reply = self.request(
            "initialize", {"protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": self.info}
        )
        self.hello = reply.good()
        self.revision = self.hello["protocolVersion"]
        assert self.revision == revision, f"asked for {revision}, agreed to {self.revision}"
        self.headers["MCP-Protocol-Version"] = self.revision
        self.notify("notifications/initialized")

    def notify(self, method: str, params: dict | None = None) -> None:
        self.push({"method": method} | ({"params": params} if params else {}))

    def push(self, message: dict) -> None:
        response = self.post(message, self.headers)
        rest = list(response.messages())
        assert response.status == 202 and not rest, f"{message}: {response.status} {rest}"

    def request(self, method: str, params: dict | None = None, *, token=None, meta=None, on_progress=None) -> Reply:
        params = with_meta(params, token, meta)
        id, reply = self.new_id(), Reply()
        response = self.post({"id": id, "method": method, "params": params}, self.headers)
        if session := response.headers.get("Mcp-Session-Id"):
            self.headers["Mcp-Session-Id"] = session
        reply.status = response.status
        messages = response.messages()
        try:
            self.read(messages, id, token, reply, on_progress)
        except Enough:
            self.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
            assert not [message for message in messages if "id" in message], "answered, though it was cancelled"
            return reply
        assert reply.result is not None or reply.error, f"{method}: no answer, status {reply.status}"
        if reply.result is not None:
            odd = reply.result.keys() & {"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"}
            assert not odd and PREFIX + "serverInfo" not in reply.result.get("_meta", {}), f"{method}: modern: {reply.result}"
        if reply.error:
            assert not -32022 <= reply.error["code"] <= -32020, f"modern: {reply.error}"
        return reply

    def asked(self, reply: Reply, method: str, params: dict, leg) -> None:
        assert (params.get("mode") == "url") == ("elicitationId" in params), f"not as {self.revision} has it: {params}"
        self.push({"id": leg, "result": self.ask(reply, method, params)})

    def set_level(self, level: str) -> None:
        assert self.request("logging/setLevel", {"level": level}).good() == {}

    def logging(self, level: str, tool: str, **options) -> Reply:
        """A call that is to be told of in the log from this level on."""
        self.set_level(level)
        return self.call(tool, **options)

    @contextlib.contextmanager
    def ear(self, *kinds: str, uris: tuple[str, ...] = ()) -> Iterator[Ear]:
        """Hears of changed lists, whichever, and of these resources."""

        def check(message: dict) -> dict:
            assert "id" not in message, f"asked outside of any call: {message}"
            assert PREFIX + "subscriptionId" not in message.get("params", {}).get("_meta", {}), f"modern: {message}"
            return {"params": {}} | message

        headers = {"Accept": "text/event-stream"} | self.headers
        with Ear(Response(self.url, "GET", headers, None), check) as ear:
            for uri in uris:
                assert self.request("resources/subscribe", {"uri": uri}).good() == {}
            yield ear
            for uri in uris:
                assert self.request("resources/unsubscribe", {"uri": uri}).good() == {}

    def close(self) -> None:
        if "Mcp-Session-Id" in self.headers:
            list(Response(self.url, "DELETE", self.headers, None).messages())


class Modern(Client):
    """2026-07-28: every request says all; what the server needs is a result, and the answer the same request again."""

    modern, revision = True, MODERN

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.headers_of: dict[str, dict[str, str]] = {}  # by tool: property to the header that repeats it
        self.hello = self.request("server/discover").good()
        assert MODERN in self.hello["supportedVersions"], self.hello

    def list(self, kind: str) -> list[dict]:
        entries = super().list(kind)
        for tool in entries if kind == "tools" else ():
            assert "execution" not in tool, f"of 2025-11-25: {tool}"
            properties = tool["inputSchema"].get("properties", {}).items()
            mirrored = {key: schema["x-mcp-header"] for key, schema in properties if "x-mcp-header" in schema}
            self.headers_of[tool["name"]] = mirrored
        return entries

    def envelope(self, method: str, params: dict, level: str | None = None) -> tuple[dict, dict[str, str]]:
        """Params and headers of a request."""
        meta = {"protocolVersion": MODERN, "clientInfo": self.info, "clientCapabilities": self.capabilities}
        if level:
            meta["logLevel"] = level
        meta = {PREFIX + key: value for key, value in meta.items()} | params.get("_meta", {})
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if (name := params.get(NAMED.get(method, ""))) is not None:
            headers["Mcp-Name"] = encoded(name)
        for key, header in self.headers_of.get(params.get("name", ""), {}).items():
            if (value := params.get("arguments", {}).get(key)) is not None:
                headers[f"Mcp-Param-{header}"] = encoded(value)
        return params | {"_meta": meta}, headers

    def request(
        self, method: str, params: dict | None = None, *, token=None, meta=None, level=None, on_progress=None
    ) -> Reply:
        params, reply = with_meta(params, token, meta), Reply()
        again: dict = {}
        while True:
            id = self.new_id()
            sent, headers = self.envelope(method, params | again, level)
            response = self.post({"id": id, "method": method, "params": sent}, headers)
            reply.status, reply.result = response.status, None
            assert "Mcp-Session-Id" not in response.headers, "a session"
            logs = len(reply.logs)
            try:
                self.read(response.messages(), id, token, reply, on_progress)
            except Enough:
                response.hang_up()
                return reply
            for log in reply.logs[logs:]:
                assert level and LEVELS.index(log["level"]) >= LEVELS.index(level), f"not from {level} on: {log}"
            if (again := self.check(method, reply)) is None:
                return reply
            reply.rounds += 1
            assert reply.rounds <= MOST_ROUNDS, f"asked again and again: {reply.asked[-1]}"

    def check(self, method: str, reply: Reply) -> dict | None:
        """That the answer is as it must be; if more is needed, what the next round brings along."""
        if (result := reply.result) is None:
            assert reply.error, f"{method}: no answer, status {reply.status}"
            code = reply.error["code"]
            assert code not in (-32002, -32042), f"an older error: {reply.error}"
            expected = STATUS.get(code, 200)
            assert reply.status == expected or code == -32602, f"{code} with status {reply.status}"
            return None
        assert reply.status == 200, f"a result with status {reply.status}"
        assert "name" in result["_meta"][PREFIX + "serverInfo"], f"{method}: no serverInfo: {result}"
        kind = result["resultType"]
        if kind == "input_required":
            assert method in ("tools/call", "prompts/get", "resources/read"), method
            needs = result.get("inputRequests", {})
            assert needs or "requestState" in result, f"nothing is required: {result}"
            assert "ttlMs" not in result, result
            answers = {key: self.required(reply, **need) for key, need in needs.items()}
            return {"inputResponses": answers} | {key: result[key] for key in ("requestState",) if key in result}
        assert kind == ("task" if "taskId" in result and method == "tools/call" else "complete"), f"{method}: {result}"
        if method in CACHED:
            fresh, scope = result["ttlMs"], result["cacheScope"]
            assert type(fresh) is int and fresh >= 0 and scope in ("public", "private"), f"{method}: {fresh}, {scope}"
        return None

    def required(self, reply: Reply, method: str, params: dict | None = None) -> dict:
        params = params or {}
        odd = params.keys() & {"elicitationId", "task"} or {"progressToken", PREFIX + "related-task"} & params.get("_meta", {}).keys()
        assert not odd, f"of an older revision: {params}"
        return self.ask(reply, method, params)

    def asked(self, reply: Reply, method: str, params: dict, leg) -> None:
        raise AssertionError(f"a request of a server: {method}")

    def logging(self, level: str, tool: str, **options) -> Reply:
        return self.call(tool, level=level, **options)

    @contextlib.contextmanager
    def ear(self, *kinds: str, uris: tuple[str, ...] = (), tasks: tuple[str, ...] = ()) -> Iterator[Ear]:
        """Hears of these lists (`tools`, `prompts`, `resources`), resources and tasks, and of nothing else."""
        wanted: dict = {f"{kind}ListChanged": True for kind in kinds}
        wanted |= {"resourceSubscriptions": list(uris)} if uris else {}
        wanted |= {"taskIds": list(tasks)} if tasks else {}
        allowed = {f"notifications/{kind}/list_changed" for kind in kinds}
        allowed |= {"notifications/resources/updated"} if uris else set()
        allowed |= {"notifications/tasks"} if tasks else set()
        id = self.new_id()

        def check(message: dict) -> dict:
            if "method" not in message:
                given = message["id"]
                assert (given, type(given)) == (id, type(id)) and "result" in message, f"refused: {message}"
                return message
            tag = message["params"]["_meta"][PREFIX + "subscriptionId"]
            assert "id" not in message and (tag, type(tag)) == (id, type(id)), f"not of listen {id!r}: {message}"
            first = message["method"] == "notifications/subscriptions/acknowledged"
            assert first or message["method"] in allowed, f"not wanted: {message}"
            return message

        params, headers = self.envelope("subscriptions/listen", {"notifications": wanted})
        response = self.post({"id": id, "method": "subscriptions/listen", "params": params}, headers)
        with Ear(response, check) as ear:
            first = ear.next()
            assert first and first.get("method") == "notifications/subscriptions/acknowledged", f"not acknowledged: {first}"
            assert first["params"]["notifications"] == wanted, f"wanted {wanted}: {first}"
            yield ear

    def close(self) -> None:
        pass


def with_meta(params: dict | None, token, meta: dict | None) -> dict:
    """A copy of the params with a progress token and more in `_meta`."""
    meta = (meta or {}) | ({} if token is None else {"progressToken": token})
    return dict(params or {}) | ({"_meta": meta} if meta else {})
