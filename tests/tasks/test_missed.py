"""Messages between processes are lost: what became of tasks is looked for again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mcpkit import Memory, Principal, ProtocolError, Scope, Server
from mcpkit.testing import connect
from tests.helpers.engines import LossyMemory
from tests.helpers.task_client import KNOWS_TASKS, begin, look, until

pytestmark = pytest.mark.anyio


async def test_who_listens_to_a_task_is_told_how_it_is_on_the_stream_that_is_open() -> None:
    shared = LossyMemory()
    gate = asyncio.Event()
    at_work, listener = Server("lab", shared=shared), Server("lab", shared=shared, tasks="workers")
    for server in (at_work, listener):

        @server.tool(task=True)
        async def work() -> str:
            await gate.wait()
            return "done"

    async with at_work.running(), connect(listener, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        wanted: dict[str, Any] = {"taskIds": [task["taskId"]]}
        stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
        assert (await client.notification("notifications/tasks"))["status"] == "working"
        shared.loses_messages = True
        gate.set()
        await until(client, task, "completed")
        assert not stream.done()
        shared.report_gap()
        while (told := await client.notification("notifications/tasks"))["status"] != "completed":
            assert told["status"] == "working"
        assert not stream.done()
        stream.cancel()


async def test_who_may_not_ask_for_a_task_by_now_does_not_hear_of_it() -> None:
    shared, gate = Memory(), asyncio.Event()
    before = Server("lab", shared=shared)
    now = Server("lab", shared=shared, tasks="workers", scopes={"run": Scope("Run")})

    async def work() -> str:
        await gate.wait()
        return "done"

    before.tool(work, task=True)
    now.tool(work, task=True, scopes="run")
    poor, rich = Principal("ada"), Principal("ada", {"run"})
    async with AsyncExitStack() as stack:
        maker, *listeners = [
            await stack.enter_async_context(connect(server, capabilities=KNOWS_TASKS, principal=principal))
            for server, principal in ((before, poor), (now, poor), (now, rich))
        ]
        task = await begin(maker, "work")
        with pytest.raises(ProtocolError):
            await look(listeners[0], task)
        wanted: dict[str, Any] = {"taskIds": [task["taskId"]]}
        streams = [
            asyncio.ensure_future(each.request("subscriptions/listen", {"notifications": wanted}))
            for each in listeners
        ]
        for each in listeners:
            await each.notification("notifications/subscriptions/acknowledged")
        gate.set()
        while (await listeners[1].notification("notifications/tasks"))["status"] != "completed":
            pass
        assert not [each for each in listeners[0].notifications if each["method"] == "notifications/tasks"]
        for stream in streams:
            stream.cancel()
