"""A client of tasks of 2026-07-28, in messages, and functions of tools that run in worker processes."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from mcpkit.testing import TestClient
from tests.helpers.waiting import DEFAULT_TIMEOUT

TASKS = "io.modelcontextprotocol/tasks"

KNOWS_TASKS = {"extensions": {TASKS: {}}, "elicitation": {"form": {}, "url": {}}}
"""What it declares."""

OVER = ("completed", "failed", "cancelled")


async def begin(
    client: TestClient, tool: str, arguments: dict[str, Any] | None = None, **params: Any
) -> dict[str, Any]:
    """Call a tool, and return the answer, which may be a task."""
    return await client.request("tools/call", {"name": tool, "arguments": arguments or {}, **params})


async def get_task(client: TestClient, task: dict[str, Any]) -> dict[str, Any]:
    return await client.request("tasks/get", {"taskId": task["taskId"]})


async def until(client: TestClient, task: dict[str, Any], *statuses: str) -> dict[str, Any]:
    """Look until the task is one of these."""
    deadline = time.monotonic() + DEFAULT_TIMEOUT
    while (seen := await get_task(client, task))["status"] not in statuses:
        assert time.monotonic() < deadline, f"it is still {seen}"
        assert seen["status"] not in OVER, f"it has ended: {seen}"
        await asyncio.sleep(0.005)
    return seen


async def answer(client: TestClient, task: dict[str, Any], **answers: Any) -> dict[str, Any]:
    """Accept the questions of these keys."""
    responses = {key: accepted(value) for key, value in answers.items()}
    return await client.request("tasks/update", {"taskId": task["taskId"], "inputResponses": responses})


def accepted(value: Any) -> dict[str, Any]:
    return {"action": "accept", "content": value if isinstance(value, dict) else {"value": value}}


def note_and_sleep(path: str) -> str:
    """Write the process id to a file, and sleep for long."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)
    return "slept"


def add(a: int, b: int) -> int:
    return a + b
