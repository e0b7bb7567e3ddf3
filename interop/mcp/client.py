"""As client.mjs, with the SDK for Python: `client.py legacy|modern PROGRAM TOOL ARGUMENTS [TOOL ARGUMENTS]…`, and the variable ANSWER."""

import asyncio
import json
import os
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult


def show(seen: dict) -> None:
    print(json.dumps(seen, separators=(",", ":"), ensure_ascii=False), flush=True)


async def main() -> None:
    mode, command, *calls = sys.argv[1:]
    action, _, decision = os.environ.get("ANSWER", "").partition(":")
    asked = 0

    async def answer(context, params) -> ElicitResult:
        nonlocal asked
        asked += 1
        return ElicitResult(action=action, content={"decision": decision} if action == "accept" else None)

    server = command if command.startswith("http://") else StdioServerParameters(command=command)
    era = "legacy" if mode == "legacy" else "2026-07-28"
    async with Client(server, mode=era, elicitation_callback=answer if action else None) as client:
        listed = await client.list_tools()
        show({"tools": sorted(tool.name for tool in listed.tools)})
        for name, text in zip(calls[::2], calls[1::2]):
            asked = 0
            try:
                result = await client.call_tool(name, json.loads(text))
            except MCPError as error:
                show({"name": name, "threw": error.error.message, "data": error.error.data})
                continue
            texts = [block.text for block in result.content]
            show({"name": name, "asked": asked, "isError": bool(result.is_error), "structured": result.structured_content, "texts": texts})


asyncio.run(main())
