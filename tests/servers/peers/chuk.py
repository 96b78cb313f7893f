"""A server of chuk-mcp-server: `chuk.py stdio|http [PORT]`."""

from __future__ import annotations

import asyncio
import sys

from chuk_mcp_server import ChukMCPServer, create_elicitation, create_message
from chuk_mcp_server.context import list_roots, send_progress

server = ChukMCPServer("chuk", version="1.0.0", debug=False)
stopped: list[float] = []


@server.tool
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.tool
async def wait(seconds: float) -> str:
    """Wait, and say so thrice before."""
    try:
        for step in (1, 2, 3):
            await send_progress(step, 3)
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        stopped.append(seconds)
        raise
    return "waited"


@server.tool
async def count_stopped() -> int:
    """Say how many calls have been cancelled."""
    return len(stopped)


@server.tool
async def ask_name() -> str:
    """Ask for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = await create_elicitation("Who are you?", schema)
    return str(answer.get("content", answer).get("name"))


@server.tool
async def ask_model() -> str:
    """Ask the client's model."""
    question = {"role": "user", "content": {"type": "text", "text": "The capital of Norway?"}}
    return str((await create_message([question], max_tokens=10))["content"]["text"])


@server.tool
async def ask_roots() -> str:
    """Ask for the roots."""
    return ", ".join(root["uri"] for root in await list_roots())


@server.resource("note://hello")
def note() -> str:
    """A note."""
    return "Hello"


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}"


if __name__ == "__main__":
    transport, port = sys.argv[1], int((sys.argv[2:] or ["0"])[0])
    if transport == "stdio":
        server.run_stdio(debug=False, log_level="error")
    else:
        server.run(host="127.0.0.1", port=port, debug=False, log_level="error")
