"""A Python client that can be asked everything: `eras.py mcp1|mcp2|fastmcp URL`, each in the virtual environment that
has it. Standard input and output are those of eras.mjs."""

import asyncio
import contextlib
import json
import sys

seen = {}


def note(method: str) -> None:
    seen["asked"].append(method)


def callbacks(types) -> dict:
    """For what `mcp` is asked and told; both releases call them alike."""

    async def elicit(context, params):
        note("elicitation/create")
        return types.ElicitResult(action="accept", content={"sure": True})

    async def sample(context, params):
        note("sampling/createMessage")
        return types.CreateMessageResult(role="assistant", model="ours", content=types.TextContent(type="text", text="two"))

    async def roots(context):
        note("roots/list")
        return types.ListRootsResult(roots=[types.Root(uri="file:///ours")])

    return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots, "logging_callback": logged}


async def logged(message) -> None:
    seen["logs"].append(message.data)


class Old:
    """`mcp` 1.x: a session, and callbacks for what it is asked."""

    @contextlib.asynccontextmanager
    async def connected(self, url: str):
        from mcp import ClientSession, types
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(url) as (read, write, _):
            async with ClientSession(read, write, **callbacks(types)) as self.session:
                self.revision = (await self.session.initialize()).protocolVersion
                await self.session.set_logging_level("info")
                yield

    async def tools(self):
        return (await self.session.list_tools()).tools

    async def call(self, name, arguments, on_progress):
        result = await self.session.call_tool(name, arguments, progress_callback=on_progress)
        return result.content, result.isError

    async def read(self, uri):
        return (await self.session.read_resource(uri)).contents

    async def prompt(self, name, arguments):
        return (await self.session.get_prompt(name, arguments)).messages


class New(Old):
    """`mcp` 2.x."""

    @contextlib.asynccontextmanager
    async def connected(self, url: str):
        import mcp_types as types
        from mcp import Client

        async with Client(url, log_level="info", **callbacks(types)) as self.session:
            self.revision = self.session.protocol_version
            yield

    async def call(self, name, arguments, on_progress):
        result = await self.session.call_tool(name, arguments, progress_callback=on_progress)
        return result.content, result.is_error


class Fast(New):
    """FastMCP 4.x."""

    @contextlib.asynccontextmanager
    async def connected(self, url: str):
        from fastmcp import Client

        async def elicit(message, response_type, params, context):
            note("elicitation/create")
            return response_type(sure=True)

        async def sample(messages, params, context):
            note("sampling/createMessage")
            return "two"

        async def roots(context):
            note("roots/list")
            return ["file:///ours"]

        asked = {"elicitation_handler": elicit, "sampling_handler": sample, "roots": roots}
        async with Client(url, log_handler=logged, **asked) as self.session:
            self.revision = self.session.protocol_version
            yield

    async def tools(self):
        return await self.session.list_tools()

    async def call(self, name, arguments, on_progress):
        result = await self.session.call_tool_mcp(name, arguments, progress_handler=on_progress)
        return result.content, result.is_error

    async def read(self, uri):
        return await self.session.read_resource(uri)


async def step(client, deed: str, params: dict) -> dict:
    async def progressed(progress, total=None, message=None):
        seen["progress"].append(progress)

    failed = False
    match deed:
        case "call":
            on_progress = progressed if params.get("progress") else None
            blocks, failed = await client.call(params["name"], params.get("arguments"), on_progress)
        case "read":
            blocks = await client.read(params["uri"])
        case "prompt":
            blocks = [message.content for message in await client.prompt(params["name"], params["arguments"])]
    return {"text": "".join(block.text for block in blocks), "failed": bool(failed)}


async def main(kind: str, url: str) -> None:
    client = {"mcp1": Old, "mcp2": New, "fastmcp": Fast}[kind]()
    steps = []
    async with client.connected(url):
        tools = [tool.name for tool in await client.tools()]
        for params in json.load(sys.stdin):
            seen.update(progress=[], logs=[], asked=[])
            try:
                done = await step(client, params.pop("do"), params)
            except Exception as error:
                inner = getattr(error, "error", None)
                if not isinstance(code := getattr(inner, "code", getattr(error, "code", None)), int):
                    raise
                done = {"error": code}
            steps.append(done | {key: list(values) for key, values in seen.items()})
    print(json.dumps({"revision": client.revision, "tools": tools, "steps": steps}))


asyncio.run(main(*sys.argv[1:]))
