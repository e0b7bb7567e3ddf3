"""As client.mjs, with the SDK for Python: `client.py legacy|modern PROGRAM TOOL ARGUMENTS`."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def main() -> None:
    mode, command, name, text = sys.argv[1:]
    server = StdioServerParameters(command=command)
    async with Client(server, mode="legacy" if mode == "legacy" else "2026-07-28") as client:
        listed = await client.list_tools()
        result = await client.call_tool(name, json.loads(text))
        tools = sorted(tool.name for tool in listed.tools)
        seen = {"tools": tools, "isError": bool(result.is_error), "structured": result.structured_content}
        print(json.dumps(seen, separators=(",", ":")))


asyncio.run(main())
