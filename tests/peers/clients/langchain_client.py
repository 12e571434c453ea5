"""A client on langchain-mcp-adapters (Python `mcp` 1.x): the same command line as typescript.mjs.

Tools are listed and called the way a LangChain agent does it. A name the adapter did not list goes straight to
the session, so that the server's own refusal is seen.
"""

import asyncio
import json
import os
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import McpError


def connection(argv: list[str]) -> dict:
    if argv[0] == "--stdio":
        return {"transport": "stdio", "command": argv[1], "args": argv[2:], "env": dict(os.environ)}
    if argv[0] == "--sse":
        return {"transport": "sse", "url": argv[1]}
    return {"transport": "streamable_http", "url": argv[0]}


async def call(session, tools: dict, step: dict) -> dict:
    name, arguments = step["name"], step.get("arguments", {})
    try:
        if name not in tools:
            result = await session.call_tool(name, arguments)
            return {"name": name, "result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}
        message = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        result = {"content": [{k: v for k, v in b.items() if k != "id"} for b in message.content]}
        if message.artifact:
            result["structuredContent"] = message.artifact["structured_content"]
        if message.status == "error":
            result["isError"] = True
        return {"name": name, "result": result}
    except McpError as error:
        return {"name": name, "error": error.error.model_dump(exclude_none=True)}


async def main() -> None:
    steps = json.loads(sys.stdin.read() or "[]")
    client = MultiServerMCPClient({"peer": connection(sys.argv[1:])})
    async with client.session("peer") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        listed = [
            {"name": name, "description": tool.description, "inputSchema": tool.args_schema, "meta": tool.metadata}
            for name, tool in sorted(tools.items())
        ]
        calls = [await call(session, tools, step) for step in steps]
    print(json.dumps({"tools": listed, "calls": calls}))


asyncio.run(main())
