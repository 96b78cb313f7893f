"""Worker processes: `mcpkit worker`, signals, servers that run tasks, and functions in processes."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server, Task
from mcpkit.testing import TestClient, connect
from tests.helpers.redis_server import free_port
from tests.helpers.task_client import KNOWS_TASKS, add, begin, look, note_and_sleep, until
from tests.helpers.task_processes import TaskProcesses
from tests.helpers.waiting import until as eventually

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
    pytest.mark.long,
]


def connect_client(lab: TaskProcesses, **options: Any) -> Any:
    """A client that knows tasks, of a replica that runs none."""
    return connect(lab.replica(**options), capabilities=KNOWS_TASKS)


async def result(client: TestClient, task: dict[str, Any]) -> Any:
    """Wait for the result of a task."""
    seen = await until(client, task, "completed")
    assert not seen["result"].get("isError"), seen
    return seen["result"]["structuredContent"]


async def test_worker_runs_tasks_of_replicas(lab: TaskProcesses) -> None:
    async with connect_client(lab) as client:
        before = await begin(client, "count")
        worker = await lab.worker()
        later = await begin(client, "count")
        for task in (before, later):
            assert (await result(client, task))["process"] == worker.pid
    status, output = await lab.stop(worker)
    assert status == 0
    assert "the worker of lab has stopped" in output
    mine = [line for line in lab.lines() if line.startswith(f"{worker.pid} ")]
    assert mine == [f"{worker.pid} enters", f"{worker.pid} leaves"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_signal_returns_running_tasks(number: int, lab: TaskProcesses) -> None:
    async with connect_client(lab) as client:
        first = await lab.worker()
        task = await begin(client, "wait", {"label": "a"})
        await lab.wait_for_line("a begins 1")
        assert (await lab.stop(first, number))[0] == 0
        assert (await look(client, task))["status"] == "working"
        second = await lab.worker()
        assert await result(client, task) == f"a in attempt 2 by {second.pid} entered"


async def test_signal_lets_tasks_that_must_not_rerun_finish(lab: TaskProcesses) -> None:
    async with connect_client(lab) as client:
        worker = await lab.worker()
        task = await begin(client, "once", {"label": "a", "seconds": 1})
        await lab.wait_for_line("a begins")
        assert (await lab.stop(worker))[0] == 0
        assert await result(client, task) == "a is done"


@pytest.mark.parametrize(("tool", "status"), [("stubborn", 143), ("sleep", 0)])
async def test_worker_ends_tasks_that_do_not_stop_after_the_grace(
    tool: str, status: int, lab: TaskProcesses
) -> None:
    async with connect_client(lab) as client:
        worker = await lab.worker("--grace", "1")
        await begin(client, tool, {"label": "a"})
        await lab.wait_for_line("a begins 1")
        ended, output = await lab.stop(worker)
    assert (ended, "did not stop within 1 s after SIGTERM" in output) == (status, status == 143)
    assert "Traceback" not in output


APPS = """
from mcpkit import Server
from mcpkit.storage import Sqlite
alone = Server("alone")
idle = Server("idle", storage=Sqlite("lab.db"), secret_key="a secret of sixteen and more")
alone.tool(lambda: None, name="tool", task=True)
"""

REFUSED = {
    "apps:alone": (1, "alone keeps its tasks in the memory of its own process"),
    "apps.py:idle": (1, "idle has no tool that can run as a task. Write @server.tool(task=True)"),
}


@pytest.fixture
async def apps(tmp_path: Path) -> AsyncIterator[TaskProcesses]:
    (tmp_path / "apps.py").write_text(APPS)
    lab = TaskProcesses(tmp_path)
    yield lab
    await lab.close()


@pytest.mark.parametrize("name", REFUSED)
async def test_invalid_server_argument_is_refused(name: str, apps: TaskProcesses) -> None:
    status, output = await apps.wait_for_exit(await apps.start("-m", "mcpkit", "worker", name))
    expected, message = REFUSED[name]
    assert status == expected
    assert output.startswith("mcpkit: ")
    assert message in output
    assert output.count("\n") == 1


# Servers that run tasks

RUN = "from tests.helpers.task_processes import server; server.run({})"

WAYS = {
    "run": ["-c", RUN.format("'http', port={port}")],
    "gunicorn": [
        *("-m", "gunicorn", "tests.helpers.task_processes:app", "-k", "uvicorn_worker.UvicornWorker"),
        *("-w", "2", "-b", "127.0.0.1:{port}"),
    ],
    "stdio": ["-c", RUN.format("")],
}


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[TaskProcesses]:
    lab = TaskProcesses(tmp_path)
    yield lab
    await lab.close()


async def serve(lab: TaskProcesses, way: str) -> Any:
    """Start what serves and runs tasks."""
    port = free_port()
    secret = {"MCPKIT_SECRET": "a secret of sixteen and more"}
    return await lab.start(*(each.format(port=port) for each in WAYS[way]), LAB_TASKS="replicas", **secret)


async def stop(lab: TaskProcesses, process: Any) -> int:
    """Tell it to end, and return its status."""
    process.send_signal(signal.SIGTERM)
    return (await lab.wait_for_exit(process))[0]


@pytest.mark.parametrize("way", WAYS)
async def test_server_returns_or_finishes_its_tasks_at_shutdown(way: str, lab: TaskProcesses) -> None:
    async with connect(lab.replica(), capabilities=KNOWS_TASKS) as client:
        serving = await serve(lab, way)
        again = await begin(client, "wait", {"label": "a"})
        never = await begin(client, "once", {"label": "b", "seconds": 1})
        await lab.wait_for_line("a begins 1")
        await lab.wait_for_line("b begins")
        assert await stop(lab, serving) in {0, 128 + signal.SIGTERM, -signal.SIGTERM}
        seen = await look(client, never)
        assert seen["result"]["structuredContent"] == "b is done"
        if way != "gunicorn":  # else the other one may have had it at once
            assert (await look(client, again))["status"] == "working"
        await lab.worker()
        seen = await until(client, again, "completed")
    assert re.match("a in attempt [23] by [0-9]+ entered", seen["result"]["structuredContent"])
    entered, left = (sum(line.endswith(what) for line in lab.lines()) for what in (" enters", " leaves"))
    assert entered == left + 1


# Functions in processes and threads


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_process_of_a_cancelled_or_late_task_is_killed(tmp_path: Path) -> None:
    server = Server("lab")
    server.tool(note_and_sleep, run_in="process", task=True)
    server.tool(note_and_sleep, run_in="process", task=Task(timeout=2), name="late")
    server.tool(add, run_in="process", task=Task(required=True))
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
        await eventually(lambda: not late.exists() or not is_alive(int(late.read_text())))
