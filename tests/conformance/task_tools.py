"""What the conformance suite calls as tasks: long work, questions in its midst, and what fails."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from mcpkit import Ask, Context, Elicit, ProtocolError, Registry, Task, ToolError

tasks = Registry()

PAUSE = 1.0  # seconds until a job fails, so that a client sees it working before


@dataclass
class Name:
    name: str


@dataclass
class Confirmation:
    confirm: bool


@dataclass
class Signature:
    name: str
    confirm: bool


@tasks.tool
def greet(name: str) -> str:
    """Greet somebody at once.

    Args:
        name: Whom.
    """
    return f"Hello, {name}!"


@tasks.tool(task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time.

    Args:
        seconds: How many seconds.
        label: What the result is called.
    """
    await asyncio.sleep(seconds)
    return f"{label or 'It'} took {seconds:g} s."


@tasks.tool(task=Task(required=True))
async def failing_job() -> None:
    """Work for a while, and fail."""
    await asyncio.sleep(PAUSE)
    raise ToolError("This job always fails.")


@tasks.tool(task=True)
async def protocol_error_job() -> None:
    """End with an error of the protocol."""
    raise ProtocolError(-32603, "This job always ends with an error of the protocol.")


@tasks.tool(task=True)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Delete nothing, after asking whether to.

    Args:
        filename: What would be deleted.
    """
    answer = await ctx.elicit(f"Delete {filename}?", Confirmation)
    return f"{filename} is {'deleted' if answer and answer.value.confirm else 'kept'}."


@tasks.tool(task=True)
async def multi_input(ctx: Context) -> str:
    """Ask two people at once."""
    signatures = await ctx.ask(Elicit("Who signs first?", Signature), Elicit("Who signs second?", Signature))
    return f"Signed by {' and '.join(each.value.name for each in signatures)}."


@tasks.tool(task=Task(required=True))
async def test_tool_with_task(user: Annotated[Name, Ask("What is your name?", key="user_name")]) -> str:
    """Ask for a name before there is a task."""
    return f"Hello from the task, {user.name}!"
