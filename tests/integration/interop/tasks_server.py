"""A server with tools that run as tasks: `tasks_server.py` over stdio, `tasks_server.py http` with tokens."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from typing import Annotated

from mcpkit import Ask, Context, Elicit, ProtocolError, Server, Task, ToolError
from mcpkit.auth import StaticTokens

TOKENS = {"token-of-ada-6PzKq0wXhVbR2mYt": "ada", "token-of-bob-9LcJd4sNfGuE7aWk": "bob"}

is_remote = len(sys.argv) > 1
server = Server("tasks", version="1.0.0", auth=StaticTokens(TOKENS) if is_remote else None)
may_end = asyncio.Event()
stopped = asyncio.Event()


@dataclass
class Name:
    name: str


@server.tool
def greet(name: str) -> str:
    """Greet a user; never a task."""
    return f"Hello, {name}!"


@server.tool(task=True)
def add(a: int, b: int) -> int:
    """Add two numbers, in a thread."""
    return a + b


@server.tool(task=Task(required=True))
async def train(epochs: int, ctx: Context) -> str:
    """Report progress, then wait for `stop_training`: clients drop progress that comes with the result."""
    may_end.clear()
    for epoch in range(1, epochs + 1):
        await ctx.progress(epoch, epochs, f"epoch {epoch}")
    await may_end.wait()
    return f"{epochs} epochs"


@server.tool
async def stop_training() -> None:
    """Let `train` end."""
    may_end.set()


@server.tool(task=True)
async def fail() -> None:
    """Say what went wrong."""
    raise ToolError("The printer is out of paper.")


@server.tool(task=True)
async def collapse() -> None:
    """End with an error of the protocol."""
    raise ProtocolError(-32050, "The printer is gone.", {"printer": 7})


@server.tool(task=True)
async def delete(filename: str, ctx: Context) -> str:
    """Ask in the midst of the work."""
    is_sure = (await ctx.elicit(f"Delete {filename}?", bool)).value
    return f"{filename} is {'deleted' if is_sure else 'kept'}"


@server.tool(task=True)
async def sign(ctx: Context) -> str:
    """Ask two things at once, then one more."""
    first, second = await ctx.ask(Elicit("Who signs first?", Name), Elicit("Who signs second?", Name))
    seal = (await ctx.elicit("Which seal?", str)).value
    return f"{first.value.name} and {second.value.name}, {seal}"


@server.tool(task=True)
async def refuse(ctx: Context) -> str:
    """Ask what the user declines."""
    return (await ctx.elicit("Your salary?", int)).action


@server.tool(task=Task(required=True))
async def reserve(table: Annotated[int, Ask("Which table?")], ctx: Context) -> str:
    """Ask before there is a task, and once more in its midst."""
    return f"table {table}, {'quiet' if (await ctx.elicit('A quiet one?', bool)).value else 'loud'}"


@server.tool(task=True)
async def hold() -> None:
    """Go on until it is cancelled."""
    stopped.clear()
    try:
        await asyncio.Event().wait()
    finally:
        stopped.set()


@server.tool
async def was_stopped() -> str:
    """Wait until `hold` has been stopped."""
    await stopped.wait()
    return "stopped"


if __name__ == "__main__":
    if is_remote:
        server.run("http", port=int(os.environ.get("PORT", "0")))
    else:
        server.run()
