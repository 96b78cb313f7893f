"""Tasks of several servers with one engine: worker processes, signals, shutdown, and limits of clients."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Server, Task, TaskOptions, Timeouts
from mcpkit.testing import TestClient, connect
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.pipe import stateless_meta
from tests.helpers.processes import SECRET, TaskProcesses, is_alive
from tests.helpers.raw_client import Client, serving
from tests.helpers.redis_server import free_port
from tests.helpers.task_client import KNOWS_TASKS, add, answer, begin, get_task, note_and_sleep, until
from tests.helpers.waiting import until as eventually

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"), pytest.mark.long]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[TaskProcesses]:
    lab = TaskProcesses(tmp_path)
    yield lab
    await lab.close()


@pytest.fixture
async def client(lab: TaskProcesses) -> AsyncIterator[TestClient]:
    """A client of a replica that runs no tasks."""
    async with connect(lab.replica(), capabilities=KNOWS_TASKS) as client:
        yield client


async def result(client: TestClient, task: dict[str, Any]) -> Any:
    """Wait for the result of a task."""
    seen = await until(client, task, "completed")
    assert not seen["result"].get("isError"), seen
    return seen["result"]["structuredContent"]


# Workers


async def test_worker_runs_tasks_of_replicas(lab: TaskProcesses, client: TestClient) -> None:
    before = await begin(client, "count")
    worker = await lab.worker()
    later = await begin(client, "count")
    for task in (before, later):
        assert (await result(client, task))["process"] == worker.pid
    status, output = await lab.stop(worker)
    assert status == 0
    assert "the worker of lab has stopped" in output
    own = [line.split()[1] for line in lab.lines() if line.startswith(f"{worker.pid} ")]
    assert own == ["enters", "leaves"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_signal_returns_tasks_or_lets_them_finish(number, lab, client) -> None:
    first = await lab.worker()
    task = await begin(client, "wait", {"label": "a"})
    never = await begin(client, "once", {"label": "b", "seconds": 1})
    await lab.wait_for_line("a begins 1")
    await lab.wait_for_line("b begins")
    assert (await lab.stop(first, number))[0] == 0
    assert await result(client, never) == "b is done"
    assert (await get_task(client, task))["status"] == "working"
    second = await lab.worker()
    assert await result(client, task) == f"a in attempt 2 by {second.pid} entered"


@pytest.mark.parametrize(("tool", "status"), [("stubborn", 143), ("sleep", 0)])
async def test_worker_ends_tasks_that_do_not_stop_after_the_grace(tool, status, lab, client) -> None:
    worker = await lab.worker("--grace", "1")
    await begin(client, tool, {"label": "a"})
    await lab.wait_for_line("a begins 1")
    ended, output = await lab.stop(worker)
    assert (ended, "did not stop within 1 s after SIGTERM" in output) == (status, status == 143)
    assert "Traceback" not in output


async def test_tasks_of_a_killed_worker_run_again_or_fail(lab: TaskProcesses, client: TestClient) -> None:
    worker = await lab.worker(LAB_LEASE="2")
    safe = await begin(client, "wait", {"label": "a"})
    never = await begin(client, "once", {"label": "b", "seconds": 600})
    await lab.wait_for_line("a begins 1")
    await lab.wait_for_line("b begins")
    await lab.stop(worker, signal.SIGKILL)
    await lab.worker(LAB_LEASE="2")
    assert re.match("a in attempt 2 by", await result(client, safe))
    failed = await until(client, never, "failed")
    assert failed["error"]["code"] == -32603
    assert "Check whether its work was done before you call it again" in failed["error"]["message"]
    assert len([line for line in lab.lines() if line.endswith("b begins")]) == 1


APPS = """
from mcpkit import Server
from mcpkit.storage import Sqlite
alone = Server("alone")
idle = Server("idle", storage=Sqlite("lab.db"), secret_key="a secret of sixteen and more")
alone.tool(lambda: None, name="tool", task=True)
"""


@pytest.mark.parametrize(("name", "message"), [
    ("apps:alone", "alone keeps its tasks in the memory of its own process"),
    ("apps.py:idle", "idle has no tool that can run as a task. Write @server.tool(task=True)"),
])  # fmt: skip
async def test_invalid_server_argument_is_refused(name: str, message: str, lab: TaskProcesses) -> None:
    (lab.folder / "apps.py").write_text(APPS)
    status, output = await lab.wait_for_exit(await lab.start("-m", "mcpkit", "worker", name))
    assert (status, output[:8], output.count("\n")) == (1, "mcpkit: ", 1)
    assert message in output


# Servers that run tasks

RUN = "from tests.helpers.processes import server; server.run({})"
GUNICORN = "-m gunicorn tests.helpers.processes:app -k uvicorn_worker.UvicornWorker -w 2 -b 127.0.0.1:{port}"
WAYS = {
    "run": ["-c", RUN.format("'http', port={port}")],
    "gunicorn": GUNICORN.split(),
    "stdio": ["-c", RUN.format("")],
}


@pytest.mark.parametrize("way", WAYS)
async def test_server_returns_or_finishes_its_tasks_at_shutdown(way, lab, client) -> None:
    command = [each.format(port=free_port()) for each in WAYS[way]]
    server = await lab.start(*command, LAB_TASKS="replicas", MCPKIT_SECRET=SECRET)
    again = await begin(client, "wait", {"label": "a"})
    never = await begin(client, "once", {"label": "b", "seconds": 1})
    await lab.wait_for_line("a begins 1")
    await lab.wait_for_line("b begins")
    assert (await lab.stop(server))[0] in {0, 128 + signal.SIGTERM, -signal.SIGTERM}
    seen = await get_task(client, never)
    assert seen["result"]["structuredContent"] == "b is done"
    if way != "gunicorn":  # else the other process may take it at once
        assert (await get_task(client, again))["status"] == "working"
    await lab.worker()
    assert re.match("a in attempt [23] by [0-9]+ entered", await result(client, again))
    entered, left = (sum(line.endswith(what) for line in lab.lines()) for what in (" enters", " leaves"))
    assert entered == left + 2, "the worker and the replica of the client still run"


async def test_process_of_a_cancelled_or_late_task_is_killed(tmp_path: Path) -> None:
    server = Server("lab")
    server.tool(note_and_sleep, run_in="process", task=True)
    server.tool(note_and_sleep, run_in="process", task=Task(timeout=2), name="late")
    server.tool(add, run_in="process", task=Task(required=True))
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        assert await result(client, await begin(client, "add", {"a": 1, "b": 2})) in (3, {"result": 3})
        path, late = tmp_path / "pid", tmp_path / "late"
        task = await begin(client, "note_and_sleep", {"path": str(path)})
        await eventually(lambda: path.exists() and path.read_text())
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        await eventually(lambda: not is_alive(int(path.read_text())))
        task = await begin(client, "late", {"path": str(late)})
        failed = await until(client, task, "failed")
        assert "timed out" in failed["error"]["message"]
        await eventually(lambda: not late.exists() or not is_alive(int(late.read_text())))


# Replicas in one process


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = make_engine(request.param, tmp_path)
    yield made
    close(made)


async def test_any_server_answers_each_request(engine: Any) -> None:
    calls: list[str] = []

    async def safe() -> None:
        calls.append("safe")
        await asyncio.Event().wait()

    async def named(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    servers = [
        Server("lab", secret_key=SECRET, storage=engine, tasks=each) for each in ("replicas", "workers")
    ]
    for server in servers:
        server.tool(safe, task=Task(rerun="safe"))
        server.tool(named, task=Task(rerun="never"))
    async with (
        connect(servers[0], capabilities=KNOWS_TASKS) as one,
        connect(servers[1], capabilities=KNOWS_TASKS) as two,
    ):
        task = await begin(two, "named")
        assert (await until(one, task, "input_required"))["inputRequests"].keys() == {"#1"}
        await answer(two, task, **{"#1": "Ada"})
        done = await until(two, task, "completed")
        assert done["result"]["structuredContent"] == "Ada"
        assert await get_task(one, task) == done
        task = await begin(one, "safe")
        await eventually(lambda: calls)
        await two.request("tasks/cancel", {"taskId": task["taskId"]})
        assert (await get_task(one, task))["status"] == "cancelled"


# Anonymous clients over HTTP


async def begin_from(client: Client, host: str, **meta: Any) -> tuple[int | None, Any]:
    meta |= {**stateless_meta(), "io.modelcontextprotocol/clientCapabilities": KNOWS_TASKS}
    params = {"name": "work", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
    answer = await client.post(message, headers, client=(host, 50000)).whole()
    return answer.status, json.loads(answer.body)


async def test_anonymous_tasks_are_limited_and_separate_per_address(schema_dir: Path) -> None:
    server = Server("lab", tasks=TaskOptions(max_open_per_owner=3, max_open=8))
    gate, worked = asyncio.Event(), []

    @server.tool(task=True)
    async def work() -> None:
        await gate.wait()
        worked.append(True)

    async with serving(server, schema_dir, timeouts=Timeouts(shutdown=10)) as client:
        eve = [await begin_from(client, "203.0.113.7") for _ in range(5)]
        ada = [await begin_from(client, "203.0.113.8") for _ in range(2)]
        here = [await begin_from(client, "127.0.0.1") for _ in range(4)]  # a proxy may stand for any number
        gate.set()
        await eventually(lambda: len(worked) == 8 and not server.engine.runtime.running.taken)
        hosts = ["203.0.113.7", "203.0.113.7", "203.0.113.8"]
        made = [await begin_from(client, host, **{"mcpkit/idempotencyKey": "1"}) for host in hosts]
    assert [status for status, _ in eve] == [200] * 3 + [503] * 2
    assert "You have 3 open tasks" in eve[-1][1]["error"]["message"]
    assert [status for status, _ in ada] == [200] * 2
    assert [status for status, _ in here] == [200] * 3 + [503]
    first, same, other = (answer["result"]["taskId"] for _, answer in made)
    assert first == same != other
