"""Tasks whose functions run in threads and in processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mcpkit import Context, Server, Task
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, add, begin, note_and_sleep, until
from tests.helpers.waiting import until as eventually

pytestmark = pytest.mark.anyio


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
async def test_a_function_in_a_process_is_killed_when_its_task_is_cancelled_or_late(tmp_path: Path) -> None:
    server = Server("lab")
    server.tool(note_and_sleep, process=True, task=True)
    server.tool(note_and_sleep, process=True, task=Task(timeout=2), name="late")
    server.tool(add, process=True, task=Task(required=True))
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await until(client, await begin(client, "add", {"a": 1, "b": 2}), "completed")
        assert done["result"]["structuredContent"] in (3, {"result": 3})
        path = tmp_path / "pid"
        task = await begin(client, "note_and_sleep", {"path": str(path)})
        await eventually(lambda: path.exists() and path.read_text())
        process = int(path.read_text())
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        await eventually(lambda: not is_alive(process))
        late = tmp_path / "late"
        task = await begin(client, "late", {"path": str(late)})
        failed = await until(client, task, "failed")
        assert "timed out" in failed["error"]["message"]
        await eventually(lambda: not is_alive(int(late.read_text())))


async def test_a_function_in_a_thread_hears_that_its_task_was_cancelled() -> None:
    server = Server("lab")
    began, ended = threading.Event(), threading.Event()

    @server.tool(task=True)
    def work(ctx: Context) -> None:
        began.set()
        while not ctx.cancelled:
            threading.Event().wait(0.005)
        ended.set()

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await eventually(began.is_set)
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        await eventually(ended.is_set)
