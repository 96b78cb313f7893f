"""Each single call of the engine fails once, before it is done or after: nothing is lost, done twice, or stuck."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server, Task, Tasks
from mcpkit.testing import Client, connect
from tests.helpers.engines import FailingMemory, When
from tests.helpers.task_client import KNOWS_TASKS, OVER, accepted
from tests.helpers.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def again(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask, and ask once more where it is said that this may succeed later."""
    try:
        return await client.request(method, params)
    except ProtocolError as error:
        if (error.code, error.message) != (-32603, "Tasks cannot be reached; try again later"):
            raise
    return await client.request(method, params)


async def walk(client: Client, tool: str, act: Callable[[dict[str, Any]], Awaitable[Any]]) -> dict[str, Any]:
    """Have a tool run to the end, and return that."""
    meta = {"mcpkit/idempotencyKey": "one"}
    made = await again(client, "tools/call", {"name": tool, "arguments": {}, "_meta": meta})
    looked = {"taskId": made["taskId"]}
    deadline = time.monotonic() + PATIENCE
    while (seen := await again(client, "tasks/get", looked))["status"] not in OVER:
        assert time.monotonic() < deadline, f"it is still {seen}"
        await act(seen)
        await asyncio.sleep(0.005)
    same = await again(client, "tools/call", {"name": tool, "arguments": {}, "_meta": meta})
    assert (same["taskId"], same["status"]) == (made["taskId"], seen["status"])
    await asyncio.sleep(0.005)
    assert await again(client, "tasks/get", looked) == seen
    return seen


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_a_task_is_made_asks_and_completes(rerun: Any, when: When) -> None:
    number, calls = 0, 1
    while number < calls:
        number += 1
        engine = FailingMemory(number, when)
        server = Server("lab", shared=engine, tasks=Tasks(lease=0.3 if rerun == "safe" else 1.0))
        did: list[str] = []

        @server.tool(task=Task(rerun=rerun))
        async def work(ctx: Context) -> str:
            did.append("run")
            await ctx.progress(1, 3, "first")
            await asyncio.gather(*(ctx.once(key, partial(did.append, key)) for key in "ab"))
            one, two = await asyncio.gather(ctx.once("c", partial(did.append, "c")), ctx.elicit("?", str))
            await ctx.once("d", partial(did.append, "d"))
            return f"{one} {two.value}"

        async def act(seen: dict[str, Any]) -> None:
            for key in seen.get("inputRequests", ()):
                responses = {key: accepted("yes")}
                await again(client, "tasks/update", {"taskId": seen["taskId"], "inputResponses": responses})

        async with connect(server, capabilities=KNOWS_TASKS) as client:
            done = await walk(client, "work", act)
        calls = len(engine.called)
        said = f"call {number} of {calls}, {engine.called[number - 1 : number]}"
        assert done["status"] == "completed", (said, done)
        assert done["result"]["structuredContent"] == "None yes", said
        assert sorted(each for each in did if each != "run") == [*"abcd"], said
        assert did.count("run") >= 2 if rerun == "safe" else did.count("run") == 1, (
            said
        )  # once more: it was slow


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_task_is_made_and_cancelled(when: When) -> None:
    number, calls = 0, 1
    while number < calls:
        number += 1
        engine = FailingMemory(number, when, TimeoutError)
        server = Server("lab", shared=engine, tasks=Tasks(lease=0.3))
        stopped = asyncio.Event()

        @server.tool(task=Task(rerun="safe"))
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async def act(seen: dict[str, Any]) -> None:
            assert await again(client, "tasks/cancel", {"taskId": seen["taskId"]})

        async with connect(server, capabilities=KNOWS_TASKS) as client:
            done = await walk(client, "work", act)
            assert done["status"] == "cancelled"
        calls = len(engine.called)
