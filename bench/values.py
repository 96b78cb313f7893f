"""Sends 375 ordinary values through mcpkit, mcp and fastmcp, and prints those that change: `python bench/values.py`.

Each is called over stdio by the official client. A value of a type arrives if its tool gives it, the function that
gets it back has the same, and what that returns is what was given; a result, if its JSON is what anybody would
expect. peers/values_tools.py has them all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
PEERS = BENCH / "peers"
LIBRARIES = ("mcpkit", "mcp", "fastmcp")
HELD = ["numpy", "pandas", "polars", "attrs", "msgspec", "sqlalchemy", "pillow"]
sys.path.insert(0, str(PEERS))


async def count(
    python: str, library: str, mode: str, containers: Collection[str] | None = None
) -> dict[str, str]:
    """Return the error of each value with a library, an empty text where it arrives; in all containers or in some."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=python, args=[str(PEERS / "values_peer.py"), library, *(containers or ())]
    )
    async with Client(server, mode=mode) as client:
        return await outcomes(client, containers)


async def outcomes(client: Any, containers: Collection[str] | None = None) -> dict[str, str]:
    """Return the same of a client that is connected."""
    from values_tools import CONTAINERS, RESULTS, TYPES

    at_once = asyncio.Semaphore(8)

    async def passed_on(tool: str) -> str:
        async with at_once:
            return await _passed_on(client, tool)

    tools = {
        f"{name}, {holder}": f"{number}_{holder}"
        for number, (name, _, _) in enumerate(TYPES)
        for holder in containers or CONTAINERS
    }
    found = dict(zip(tools, await asyncio.gather(*map(passed_on, tools.values())), strict=True))
    for number, (name, (_, wanted)) in enumerate(RESULTS.items()):
        result = await _call(client, f"result_{number}", {})
        is_right = not result.is_error and any(seen == each for seen in _readings(result) for each in wanted)
        found[f"result: {name}"] = "" if is_right else _shown(result)
    return found


async def _passed_on(client: Any, name: str) -> str:
    given = await _call(client, f"give_{name}", {})
    if given.is_error:
        return f"not given: {_shown(given)}"
    why = ""
    for data in _readings(given):
        echoed = await _call(client, f"echo_{name}", {"x": data})
        if not echoed.is_error and data in _readings(echoed):
            return ""
        why = why or f"given as {data!r}, then {_shown(echoed)}"
    return why


async def _call(client: Any, name: str, arguments: dict[str, Any]) -> Any:
    from mcp import MCPError
    from mcp.types import CallToolResult, TextContent

    try:
        return await client.call_tool(name, arguments)
    except (MCPError, RuntimeError) as error:  # RuntimeError: what the client checks itself
        return CallToolResult(is_error=True, content=[TextContent(type="text", text=str(error))])


def _readings(result: Any) -> list[Any]:
    """Return what a result may be read as: its data, or its texts, also as JSON, and its other content."""
    if result.structured_content is not None:
        data = result.structured_content
        return [data["result"] if isinstance(data, dict) and set(data) == {"result"} else data]
    blocks = [_block(each) for each in result.content]
    parsed = [_parsed(each) for each in blocks]
    return [parsed[0], blocks[0], parsed, blocks] if len(blocks) == 1 else [parsed, blocks]


def _block(block: Any) -> Any:
    if block.type == "text":
        return block.text
    if block.type == "resource":
        return getattr(block.resource, "blob", None) or getattr(block.resource, "text", "")
    return {block.type: block.mime_type}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _shown(result: Any) -> str:
    text = " ".join(getattr(each, "text", each.type) for each in result.content)
    return " ".join(text.split())[:160] or repr(result.structured_content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="that of the peers; by default one is made")
    parser.add_argument("--mode", default="auto", help="of the client: auto, legacy, or a revision")
    parser.add_argument("--only", action="append", choices=LIBRARIES, help="one library")
    options = parser.parse_args()
    python = options.python
    if python is None:
        import environment

        python = str(environment.python_with_peers(environment.interpreter(sys.executable)))
        subprocess.run([python, "-m", "pip", "install", "-qq", *HELD], check=True, stdout=sys.stderr)
    for library in options.only or LIBRARIES:
        found = asyncio.run(count(python if library != "mcpkit" else sys.executable, library, options.mode))
        failed = {name: why for name, why in found.items() if why}
        print(f"{library}: {len(found) - len(failed)} of {len(found)} arrive")
        for name, why in failed.items():
            print(f"  {name}: {why}")


if __name__ == "__main__":
    main()
