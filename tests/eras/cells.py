"""What is checked in each cell of the matrix, but for tasks: one function a feature, the same for every pair of eras but
where it says that an era has it otherwise.

A check gets a `Cell`. `cell.modern` is whether the client is, `cell.target.modern` whether the server is.
"""

import contextlib
import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from client import ABLE, Client, Legacy, Modern
from wire import PREFIX, Enough, Reply, answer

SECONDS = 10  # until something that is on its way must have come
# A test's own key and those of tracing, which pass in both directions.
KEPT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "example.com/kept": [1, None]}
# The servers' own error codes. Those of `RESERVED` mean something of the protocol to modern clients, or will.
CODES, RESERVED = (-32603, 1234), -32050


@dataclass(frozen=True)
class Target:
    """A server of the matrix as clients find it: alone, or at trunkline's `/mcp` under its name."""

    modern: bool
    transport: str
    url: str
    name: str = ""
    # Its entries with a connection for each client, where a pipe does not tell for which call it asks or logs.
    asks: str = ""
    logs: str = ""

    def tool(self, tool: str, where: str = "name") -> str:
        """A tool or a prompt, of the entry for `asks` or `logs` if there is such."""
        return f"{tool}_mcp_{getattr(self, where) or self.name}" if self.name else tool

    def uri(self, uri: str) -> str:
        return f"mcp+{self.name}:{uri}" if self.name else uri


@dataclass
class Cell:
    modern: bool
    target: Target
    tag: str
    # Lists of a server of this era as a client of the same era gets them from itself.
    lists: Callable[[bool, str], list[dict]]
    clients: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def client(self, capabilities: dict = ABLE, **options) -> Client:
        client = (Modern if self.modern else Legacy)(self.target.url, capabilities, **options)
        self.clients.callback(client.close)
        return client

    @functools.cached_property
    def able(self) -> Client:
        """A client that can be asked everything."""
        return self.client()

    def call(self, tool: str, arguments: dict | None = None, where: str = "name", client: Client | None = None, **options) -> Reply:
        return (client or self.able).call(self.target.tool(tool, where), arguments, **options)

    def until(self, what: str, ready: Callable[[], object]):
        """What `ready` gives once it is true."""
        deadline = time.monotonic() + SECONDS
        while not (value := ready()):
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
            time.sleep(0.05)
        return value


def same(what: str, expected, got) -> None:
    assert expected == got, f"{what}: expected {json.dumps(expected)[:600]}, got {json.dumps(got)[:600]}"


def told(reply: Reply):
    """What a tool tells as JSON, in its text and since 2025-06-18 as it is."""
    result = reply.good()
    value = json.loads(reply.text)
    same("structuredContent", value, result["structuredContent"])
    return value


def projected(cell: Cell, kind: str, entry: dict) -> dict:
    """A server's entry as a client of the cell's era gets it."""
    entry = json.loads(json.dumps(entry))
    if "uri" in entry:
        entry["uri"] = cell.target.uri(entry["uri"])
    elif "uriTemplate" in entry:
        entry["uriTemplate"] = cell.target.uri(entry["uriTemplate"])
    else:
        entry["name"] = cell.target.tool(entry["name"])
    if cell.modern:
        entry.pop("execution", None)
    elif entry.get("outputSchema", {}).get("type", "object") != "object":
        schema = {"type": "object", "properties": {"result": entry["outputSchema"]}, "required": ["result"]}
        entry["outputSchema"] = schema
    return entry


def lists(cell: Cell) -> None:
    """Every definition is the server's own, but for names and what the client's revision does not have."""
    for kind in ("tools", "prompts", "resources", "resourceTemplates"):
        key = {"resources": "uri", "resourceTemplates": "uriTemplate"}.get(kind, "name")
        expected = {}
        for entry in cell.lists(cell.target.modern, kind):
            entry = projected(cell, kind, entry)
            expected[entry[key]] = entry
        listed = cell.able.list(kind)
        got = {entry[key]: entry for entry in listed}
        assert len(got) == len(listed), f"{kind}: twice the same name"
        missing = expected.keys() - got.keys()
        assert not missing, f"{kind}: not listed: {sorted(missing)}"
        for name, entry in expected.items():
            same(f"{kind}: {name}", entry, got[name])
        method = {"resourceTemplates": "resources/templates"}.get(kind, kind) + "/list"
        first, second = cell.able.request(method).good(), cell.able.request(method).good()
        same(f"{kind}: the order", [entry[key] for entry in first[kind]], [entry[key] for entry in second[kind]])


def calls(cell: Cell) -> None:
    """Tools, prompts, resources and completions; what the server learns of the client."""
    odd = {"text": 'quotes " \\ ünï \U0001f9f5', "big": 2**63, "deep": [{"a": [None, True]}], "empty": {}}
    same("arguments", odd, told(cell.call("echo", odd)))
    cell.call("test_error_handling").failed()
    rich = cell.call("rich").good()
    same("structuredContent", {"sum": 42}, rich["structuredContent"])
    same("_meta of a result", {"deep": [True]}, rich["_meta"]["example.com/result"])
    same("a link", ("resource_link", cell.target.uri("test://static-text")), (rich["content"][1]["type"], rich["content"][1]["uri"]))
    for kind in ("image", "audio"):
        assert cell.call(f"test_{kind}_content").good()["content"][0]["type"] == kind
    numbers = cell.call("numbers").good()
    plain, wrapped = [1, 2, 3], {"result": [1, 2, 3]}
    expected = None if not cell.target.modern else plain if cell.modern else wrapped
    same("a result that is no object", expected, numbers.get("structuredContent"))

    cell.able.list("tools")  # which arguments headers must repeat
    mirrored = {"region": "Zürich ", "count": 7, "dry": False}
    reply = cell.call("test_x_mcp_header", mirrored)
    same("arguments that headers repeat", mirrored, (reply.good() and json.loads(reply.text)))

    who = told(cell.call("whoami", meta=KEPT))
    meta = who["meta"]
    same("_meta that passes", KEPT, {key: meta.get(key) for key in KEPT})
    envelope = {key for key in meta if key.startswith(PREFIX)}
    if cell.target.modern:
        same("the envelope", ("2026-07-28", ABLE, cell.able.info), (who["revision"], who["capabilities"], who["client"]))
        same("its keys", {PREFIX + key for key in ("protocolVersion", "clientCapabilities", "clientInfo")}, envelope)
    else:
        same("the revision and no envelope", ("2025-11-25", set()), (who["revision"], envelope))

    prompt = {"name": cell.target.tool("test_prompt_with_arguments"), "arguments": {"arg1": "one", "arg2": "two"}}
    (message,) = cell.able.request("prompts/get", prompt).good()["messages"]
    assert '"one"' in message["content"]["text"] and '"two"' in message["content"]["text"], message
    uri = cell.target.uri("test://template/7/data")
    (content,) = cell.able.request("resources/read", {"uri": uri}).good()["contents"]
    same("a resource", (uri, "7"), (content["uri"], json.loads(content["text"])["id"]))
    argument = {"ref": {"type": "ref/prompt", "name": prompt["name"]}, "argument": {"name": "arg1", "value": "test"}}
    values = cell.able.request("completion/complete", argument).good()["completion"]["values"]
    same("completion", ["test", "tested", "testing"], values)


def progress(cell: Cell) -> None:
    """Each under its own token, in order, before the answer."""
    for token in (f"token {cell.tag}", 7):
        reply = cell.call("steps", {"n": 3, "ms": 20}, token=token)
        same("the answer", "3", (reply.good() and reply.text))
        same("steps", [{"progress": step, "total": 3} for step in (1, 2, 3)], reply.progress)
    same("progress without a token", [], cell.call("steps", {"n": 3}).progress)


def logs(cell: Cell) -> None:
    """From the client's level on; a modern client that names none gets nothing."""
    for level, expected in (("debug", ["debug", "info", "warning", "error"]), ("warning", ["warning", "error"])):
        reply = cell.able.logging(level, cell.target.tool("test_logging_tool", "logs"))
        reply.good()
        same(f"from {level} on", expected, [log["level"] for log in reply.logs])
        same("its words", f"a line of level {expected[0]}", reply.logs[0]["data"])
    if cell.modern:
        same("unasked", [], cell.call("test_logging_tool", where="logs").logs)


def enough() -> None:
    raise Enough


def cancel(cell: Cell) -> None:
    """The server learns of it, and nothing more comes."""
    arguments = {"n": 1000, "ms": 20, "tag": cell.tag}
    reply = cell.call("steps", arguments, token=cell.tag, on_progress=enough)
    assert reply.progress and reply.result is None and reply.error is None, f"not cancelled: {reply}"

    def known() -> bool:
        return any(call["arguments"] == arguments for call in told(cell.call("cancelled"))["calls"])

    cell.until("the server knows that it is cancelled", known)


def list_changed(cell: Cell) -> None:
    """Told to who listens, and true: the new tool is there."""
    name = f"grown_{cell.tag}"
    with cell.able.ear("tools") as ear:
        ear.quiet(0.3)
        cell.call("grow", {"name": name}).good()
        ear.wait_for("notifications/tools/list_changed")
        exposed = cell.target.tool(name)
        cell.until(f"{exposed} is listed", lambda: any(tool["name"] == exposed for tool in cell.able.list("tools")))
        same("what it answers", {"a": 1}, told(cell.call(name, {"a": 1})))
        if cell.modern:
            cell.call("test_trigger_prompt_change").good()
            ear.quiet(0.5)  # a list that it did not ask for fails
    with cell.able.ear("prompts") as ear:
        cell.call("test_trigger_prompt_change").good()
        ear.wait_for("notifications/prompts/list_changed")


def resource_updated(cell: Cell) -> None:
    """One subscription at the server while there is one here, and its updates by the URI that was asked for."""
    uri = f"test://template/{cell.tag}/data"

    def subscribed() -> bool:
        return told(cell.call("subscriptions")).get(uri) == 1

    for _ in range(3):  # one that follows an end at once must not be taken for it
        with cell.able.ear(uris=(cell.target.uri(uri),)) as ear:
            cell.until("the server has the subscription", subscribed)
            cell.call("touch", {"uri": uri}).good()
            ear.wait_for("notifications/resources/updated", uri=cell.target.uri(uri))
    cell.until("the server's subscription has ended", lambda: not subscribed())


def ask(cell: Cell, kind: str) -> tuple[Reply, dict]:
    """Has the server ask the client: the tool's reply and the params of what was asked."""
    reply = cell.call("ask", {"kind": kind, "tag": cell.tag}, where="asks")
    method, params = reply.asked_once()
    same("what the server was answered", {"tag": cell.tag, "answer": answer(method, params)}, told(reply))
    return reply, params


def unable(cell: Cell, kind: str, capability: dict) -> None:
    """Asking a client that cannot be asked: by the error that says what is missing where both are modern, else by a
    result that tells the model."""
    reply = cell.call("ask", {"kind": kind, "tag": cell.tag}, where="asks", client=cell.client({}))
    same("asked", [], reply.asked)
    if cell.modern and cell.target.modern:
        same("what is missing", capability, reply.refused(-32021)["data"]["requiredCapabilities"])
    else:
        reply.failed()


def sampling(cell: Cell) -> None:
    _, params = ask(cell, "sampling")
    same("the prompt", (f'tag "{cell.tag}"', 100), (params["messages"][0]["content"]["text"], params["maxTokens"]))
    unable(cell, "sampling", {"sampling": {}})


def elicitation_form(cell: Cell) -> None:
    """Filled in, declined, and with every kind of field as the server wrote it."""
    ask(cell, "elicitation")
    for action in ("decline", "cancel"):
        client = cell.client(answer=lambda *_: {"action": action})
        reply = cell.call("ask", {"kind": "elicitation", "tag": cell.tag}, where="asks", client=client)
        same(action, {"action": action}, told(reply)["answer"])
    reply = cell.call("test_elicitation_sep1330_enums", where="asks")
    reply.good()
    _, params = reply.asked_once()
    fields = params["requestedSchema"]["properties"]
    same("enumNames", ["One", "Two", "Three"], fields["legacyEnum"]["enumNames"])
    same("titled choices", "value3", fields["titledMulti"]["items"]["anyOf"][2]["const"])
    unable(cell, "elicitation", {"elicitation": {"form": {}}})


def elicitation_url(cell: Cell) -> None:
    """Asked in a call, and as the error -32042 of legacy servers, which says that a page comes first."""
    reply, params = ask(cell, "elicitation_url")
    same("the page", "https://example.com/page", params["url"])
    if not cell.modern:
        same("told to be complete", [params["elicitationId"]], reply.visited)
    unable(cell, "elicitation_url", {"elicitation": {"url": {}}})

    reply = cell.call("url_required", {"tag": cell.tag})  # of one process, which remembers the visit
    if not cell.modern and not cell.target.modern:
        (page,) = reply.refused(-32042)["data"]["elicitations"]
        same("the page that comes first", ("url", "https://example.com/page"), (page["mode"], page["url"]))
        cell.call("url_required", {"tag": cell.tag}).good()
    else:
        reply.good()
        _, params = reply.asked_once()
        same("the page that comes first", ("url", "https://example.com/page"), (params["mode"], params["url"]))


def roots(cell: Cell) -> None:
    ask(cell, "roots")
    unable(cell, "roots", {"roots": {}})


def rounds(cell: Cell) -> None:
    """Several questions one after the other and at once, by tools and by prompts, each answered as itself."""
    reply = cell.call("test_input_required_result_multi_round", where="asks")
    reply.good()
    same("two questions", ["Who are you?", "And your colour?"], [params["message"] for _, params in reply.asked])
    assert '"color"' in reply.text, reply.text
    reply = cell.call("test_input_required_result_multiple_inputs", where="asks")
    reply.good()
    same("three at once", ["elicitation/create", "roots/list", "sampling/createMessage"], sorted(method for method, _ in reply.asked))
    for piece in ("sampled: Greet somebody.", "file:///home/ours", "words ünï ✓"):
        assert piece in reply.text, reply.text
    if cell.modern:
        assert reply.rounds == 2, f"{reply.rounds} rounds for what is asked at once"
    reply = cell.able.request("prompts/get", {"name": cell.target.tool("test_input_required_result_prompt", where="asks")})
    same("asked by a prompt", ["What is it about?"], [params["message"] for _, params in reply.asked])
    assert "words" in reply.good()["messages"][0]["content"]["text"], reply.result


def errors(cell: Cell) -> None:
    """Each by the client's own codes and statuses."""
    client, missing = cell.able, cell.target.uri("test://nothing")
    cell.call("nobody-has-this").refused(-32602)
    error = client.request("resources/read", {"uri": missing}).refused(-32602 if cell.modern else -32002)
    same("data of a missing resource", missing, error["data"]["uri"])
    client.request("prompts/get", {"name": cell.target.tool("nobody-has-this")}).refused(-32602)
    client.request("nobody/knows").refused(-32601)
    client.request("tools/list", {"cursor": "not one of ours"}).refused(-32602)
    cell.call("touch", {}).refused(-32602)
    data = {"kept": [cell.tag]}
    for code in CODES:
        error = cell.call("fail_with", {"code": code, "message": "as asked", "data": data}).refused(code)
        same(f"the error {code}", ("as asked", data), (error["message"], error["data"]))
    if not cell.target.modern:
        error = cell.call("fail_with", {"code": RESERVED, "message": "as asked", "data": data})
        error = error.refused(-32603 if cell.modern else RESERVED)
        what = error["data"]["upstreamError"] if cell.modern else error
        same("the error of a code that is not its own", (RESERVED, data), (what["code"], what["data"]))
    reply = cell.call("test_missing_capability", where="asks", client=cell.client({"roots": {}}))
    if cell.modern and cell.target.modern:
        same("what is missing", {"sampling": {}}, reply.refused(-32021)["data"]["requiredCapabilities"])
    else:
        reply.failed()
    if cell.modern:
        client.request("ping").refused(-32601)
    else:
        same("ping", {}, client.request("ping").good())


FEATURES: dict[str, Callable[[Cell], None]] = {
    "list": lists,
    "call": calls,
    "progress": progress,
    "log": logs,
    "cancel": cancel,
    "list_changed": list_changed,
    "resource updated": resource_updated,
    "sampling": sampling,
    "elicitation form": elicitation_form,
    "elicitation url": elicitation_url,
    "roots": roots,
    "multi-round": rounds,
    "error codes": errors,
}
