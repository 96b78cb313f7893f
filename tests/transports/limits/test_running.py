"""Limits of what runs at a time, of tasks, and between processes: at the bound and just above."""

from __future__ import annotations

import asyncio
import importlib
import json
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Limits, Principal, ProtocolError, Server, TaskOptions
from mcpkit.calls.workers import processes
from mcpkit.calls.workers.processes import Processes
from mcpkit.common.errors import ProcessEndedError
from mcpkit.engine.subscriptions.relay import MOST_WAITING, Publisher
from mcpkit.state import bulletin
from mcpkit.storage import Memory, Sqlite
from mcpkit.tasks import ledger
from mcpkit.testing import connect
from tests.helpers.clock import Clock
from tests.helpers.pipe import settle
from tests.helpers.process_functions import add
from tests.helpers.raw_client import Serve, initialize
from tests.helpers.task_client import KNOWS_TASKS, begin
from tests.helpers.task_client import until as until_task
from tests.helpers.waiting import until
from tests.transports.limits.conftest import Wire, limit, limit_client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Gate:
    """Tools that wait at a gate, in the event loop or in a thread."""

    def __init__(self) -> None:
        self.inside = 0
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()

    async def wait(self) -> str:
        self.inside += 1
        await self.gate.wait()
        return "ended"

    def block(self) -> str:
        assert self.thread_gate.wait(60)
        return "ended"

    def open(self) -> None:
        self.gate.set()
        self.thread_gate.set()


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@limit("requests that run")
async def test_requests_above_max_running_get_error(gate: Gate, wire: Wire, serve: Serve) -> None:
    server = Server("busy", limits=Limits(concurrent_requests=4))
    server.tool(gate.wait)
    async with wire(server) as pipe, serve(server) as client:
        for _ in range(4):
            pipe.start("tools/call", {"name": "wait"})
        await until(lambda: gate.inside == 4)
        expected = "Too many requests are running (4). Try again in 1 s"
        assert await pipe.error("tools/call", {"name": "wait"}) == {"code": -32603, "message": expected}
        answer = await client.call_tool("wait").whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error()["message"] == expected
        assert await pipe.result("tools/list"), "lists are not counted"
        gate.open()
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert (await client.call_tool("wait").whole()).status == 200


@limit("threads of calls that are over")
async def test_stuck_threads_above_limit_reject_calls(gate: Gate) -> None:
    server = Server("busy", limits=Limits(abandoned_threads=2))
    server.tool(gate.block, timeout=0.05)
    server.tool(lambda: "quick", name="quick")
    async with limit_client(server) as client:
        for count in range(1, 4):
            (await client.call_tool("block")).check_error(None, "timed out after 0.05 s")
            outcome = await client.call_tool("quick")
            if count <= 2:
                assert outcome.text == "quick"
            else:
                outcome.check_error(-32603, "Too many worker threads (3) still run functions")
        gate.open()
        await until(lambda: server.engine.runtime.threads.given_up == 0)
        assert (await client.call_tool("quick")).text == "quick"


@limit("start of a worker process")
async def test_worker_start_above_limit_fails_and_frees_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "starts_for_ever.py").write_text(
        "import multiprocessing, time\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    time.sleep(3600)\n"
        "def done():\n"
        "    return 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    done = importlib.import_module("starts_for_ever").done
    workers = Processes(1)
    monkeypatch.setattr(processes, "_START_LIMIT", 0.2)
    with pytest.raises(ProcessEndedError, match=r"it did not import the function's module within 0\.2 s"):
        await workers.run(done, {})
    monkeypatch.undo()
    assert await workers.run(add, {"a": 1, "b": 1}) == 2


# Tasks


@limit("tasks that one principal, or one address of strangers, has open")
@limit("tasks that are open")
@pytest.mark.parametrize(
    ("tasks", "error"),
    [
        (TaskOptions(max_open_per_owner=3), "You have 3 open tasks"),
        (TaskOptions(max_open=3), "The server has too many open tasks"),
    ],
)
async def test_open_tasks_above_limit_get_error(tasks: TaskOptions, error: str, gate: Gate) -> None:
    server = Server("lab", tasks=tasks)
    server.tool(gate.wait, task=True)
    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as client:
        for _ in range(3):
            last = await begin(client, "wait")
        with pytest.raises(ProtocolError, match=error) as caught:
            await begin(client, "wait")
        assert caught.value.code == -32603
        await client.request("tasks/cancel", {"taskId": last["taskId"]})
        await begin(client, "wait")


@limit("record of a task")
@limit("idempotency key")
async def test_task_record_and_key_above_limit_get_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_RECORD", 5000)
    server = Server("lab")

    @server.tool(task=True)
    def double(text: str) -> str:
        return text * 2

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        key = {"mcpkit/idempotencyKey": "x" * 200}
        await until_task(client, await begin(client, "double", {"text": "x" * 500}, _meta=key), "completed")
        failed = await until_task(client, await begin(client, "double", {"text": "x" * 3000}), "failed")
        assert failed["error"]["code"] == -32603
        assert "the tool ran, but" in failed["error"]["message"].lower()
        for size, meta in ((5000, {}), (500, {"mcpkit/idempotencyKey": "x" * 201})):
            with pytest.raises(ProtocolError) as caught:
                await begin(client, "double", {"text": "x" * size}, _meta=meta)
            assert caught.value.code == -32602


# Between processes


class GatedBroker(Memory):
    """A broker that does not answer until its gate is open, and records what is published."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.published: list[dict[str, Any]] = []

    async def publish(self, topic: str, message: str) -> None:
        await self.gate.wait()
        self.published.append(json.loads(message))


@limit("changes that wait for the shared store")
@pytest.mark.parametrize("excess", [0, 1])
async def test_changes_above_limit_are_not_published(excess: int) -> None:
    server, broker = Server("s"), GatedBroker()
    publisher = Publisher(server.catalog.listeners, broker, "s/changes", "here")
    server.notify_resource_updated("data://first")
    await settle()
    for number in range(MOST_WAITING + excess):
        server.notify_resource_updated(f"data://{number}")
    server.tool(lambda: "", name="new")  # a change of a list is always kept
    broker.gate.set()
    await until(lambda: broker.published[-1:] == [{"origin": "here", "what": "tools", "uri": None}])
    assert len(broker.published) == 1 + MOST_WAITING + 1
    publisher.close()


@limit("messages in a `Sqlite` that processes have not fetched yet")
async def test_sqlite_messages_above_number_or_age_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulletin, "_MOST_MESSAGES", 100)
    clock = Clock()
    path = tmp_path / "shared.db"

    def messages() -> list[str]:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT message FROM messages ORDER BY id")
            return [message for (message,) in rows]

    with closing(Sqlite(path, clock=clock)) as shared:
        for age in (30, 29.9, 0):
            clock.now = 1000 - age
            await shared.publish("t", str(age))
        with closing(Sqlite(path, clock=clock)) as other:  # deletes when it begins
            await other.publish("t", "last")
            await other.erase("nothing")
        assert messages() == ["29.9", "0", "last"]
        for number in range(2500):
            await shared.publish("t", str(number))
        assert messages()[-100:] == [str(2400 + each) for each in range(100)]
        assert len(messages()) < 2500


@limit("wait for a `Sqlite` that another process has locked")
async def test_locked_sqlite_gets_503_after_timeout(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(Sqlite(tmp_path / "shared.db")) as shared,
        closing(sqlite3.connect(tmp_path / "shared.db", isolation_level=None)) as other,
    ):
        await shared.erase("nothing")
        async with serve(Server("s", storage=shared, secret_key="s" * 32)) as client:
            other.execute("BEGIN EXCLUSIVE")
            with monkeypatch.context() as patch:
                patch.setattr("mcpkit.state.database.DEFAULT_TIMEOUT", 0.1)
                assert (await client.post(initialize()).whole()).status == 503
            other.execute("ROLLBACK")
            await client.initialize()
