"""Tasks in each cell. The tasks of 2025-11-25 and those of the extension of 2026-07-28 are two protocols that do not
read each other's messages, so what can be shown differs by the pair of eras."""

import json
import time

from cells import SECONDS, Cell, same
from client import ABLE
from wire import PREFIX, Reply, answer

EXTENSION = PREFIX + "tasks"
WITH_TASKS = ABLE | {"extensions": {EXTENSION: {}}}


def tasks(cell: Cell) -> None:
    if cell.modern:
        modern_client(cell)
    elif cell.target.modern:
        no_tasks_for_this_client(cell)
    else:
        both_legacy(cell)


def no_tasks_for_this_client(cell: Cell) -> None:
    """A tool is called plainly, whatever the client knows of tasks; one that runs as a task only is run as one for it."""
    plain = cell.able.request("tools/call", {"name": cell.target.tool("wait"), "arguments": {"ms": 5}, "task": {"ttl": 60_000}})
    same("a plain result, though a task was asked for", ("waited", False), (plain.good() and plain.text, "task" in plain.result))
    same("run as a task for it", "waited", finished(cell.call("only_as_task", {"ms": 150})))


def finished(reply: Reply) -> str:
    result = reply.good()
    assert "task" not in result and "taskId" not in result, f"a task: {result}"
    return reply.text


def both_legacy(cell: Cell) -> None:
    """Created, asked for, listed, fetched; one that asks; one that is cancelled; one that fails."""
    client = cell.able

    def create(tool: str, arguments: dict, where: str = "name") -> str:
        params = {"name": cell.target.tool(tool, where), "arguments": arguments, "task": {"ttl": 60_000}}
        task = client.request("tools/call", params).good()["task"]
        same("a new task", ("working", 60_000), (task["status"], task["ttl"]))
        return task["taskId"]

    id = create("wait", {"ms": 100})
    assert id in [task["taskId"] for task in client.request("tasks/list").good()["tasks"]]
    result = client.request("tasks/result", {"taskId": id}).good()
    same("whose result", {"taskId": id}, result["_meta"][PREFIX + "related-task"])
    same("its text", "waited", result["content"][0]["text"])
    same("its end", "completed", client.request("tasks/get", {"taskId": id}).good()["status"])

    asking = create("ask", {"kind": "elicitation", "tag": cell.tag}, where="asks")
    reply = client.request("tasks/result", {"taskId": asking})
    method, params = reply.asked_once()
    same("asked for which task", {"taskId": asking}, params["_meta"][PREFIX + "related-task"])
    same("what it was answered", answer(method, params), json.loads(reply.text)["answer"])

    id = create("wait", {"ms": 60_000})
    same("cancelled", "cancelled", client.request("tasks/cancel", {"taskId": id}).good()["status"])
    client.request("tasks/cancel", {"taskId": id}).refused(-32602)
    id = create("failing_job", {})
    assert client.request("tasks/result", {"taskId": id}).result["isError"] is True
    client.request("tasks/get", {"taskId": "nobody's"}).refused(-32602)


def modern_client(cell: Cell) -> None:
    """With the extension: what the server makes a task is one for the client, too. Without it the answer comes plainly,
    or the error that says what is missing where a modern server cannot do without."""
    client = cell.client(WITH_TASKS)

    def create(tool: str, arguments: dict, where: str = "name") -> str:
        created = cell.call(tool, arguments, where, client).good()
        same("a new task", ("task", "working"), (created["resultType"], created["status"]))
        assert "requestState" not in created and created.keys() >= {"createdAt", "lastUpdatedAt", "ttlMs"}, created
        return created["taskId"]

    def until(id: str, *status: str) -> dict:
        deadline = time.monotonic() + SECONDS
        while (task := client.request("tasks/get", {"taskId": id}).good())["status"] not in status:
            assert task["status"] == "working" and time.monotonic() < deadline, task
            time.sleep(0.05)
        same("whose status", id, task["taskId"])
        return task

    id = create("only_as_task", {"ms": 100})
    if cell.target.modern:
        with client.ear(tasks=(id,)) as ear:
            ear.wait_for("notifications/tasks", taskId=id, status="completed")
    same("its text", "waited", until(id, "completed")["result"]["content"][0]["text"])
    assert until(create("failing_job", {}), "completed")["result"]["isError"] is True
    same("an error", -32603, until(create("protocol_error_job", {}), "failed")["error"]["code"])
    id = create("only_as_task", {"ms": 60_000})
    client.request("tasks/cancel", {"taskId": id}).good()
    client.request("tasks/cancel", {"taskId": id}).good()  # idempotent
    until(id, "cancelled")
    if cell.target.modern:  # this one is a task at a legacy server only for who asks for one
        asking = create("ask", {"kind": "elicitation", "tag": cell.tag})
        ((key, need),) = until(asking, "input_required")["inputRequests"].items()
        answers = {key: answer(need["method"], need["params"])}
        client.request("tasks/update", {"taskId": asking, "inputResponses": answers}).good()
        done = until(asking, "completed")
        same("what it was answered", answers[key], done["result"]["structuredContent"]["answer"])
    client.request("tasks/get", {"taskId": "nobody's"}).refused(-32602)
    client.request("tasks/result", {"taskId": id}).refused(-32601)

    cell.able.request("tasks/get", {"taskId": id}).refused(-32021)
    if cell.target.modern:
        need = cell.call("only_as_task", {"ms": 5}).refused(-32021)["data"]["requiredCapabilities"]
        same("what is missing", {"extensions": {EXTENSION: {}}}, need)
    else:
        same("run as a task for it", "waited", finished(cell.call("only_as_task", {"ms": 5})))
    same("a tool that can do without", "waited", finished(cell.call("wait", {"ms": 5})))
