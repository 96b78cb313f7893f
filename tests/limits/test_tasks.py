"""Bounds of tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Principal, ProtocolError, Server, Sqlite, Task, Tasks
from mcpkit.tasks import ledger
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, look, until
from tests.limits.ways import limit

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


class Waiting:
    """A server whose tasks wait until they may go on."""

    def __init__(self, tasks: Tasks) -> None:
        self.server = Server("lab", tasks=tasks)
        self.gate = asyncio.Event()
        self.running = 0

        @self.server.tool(task=True)
        async def work() -> None:
            self.running += 1
            await self.gate.wait()


@limit("tasks that one process runs at a time")
@pytest.mark.parametrize("slots", [1, 2, 3])
async def test_further_tasks_wait(slots: int) -> None:
    waiting = Waiting(Tasks(slots=slots))
    async with connect(waiting.server, capabilities=KNOWS_TASKS) as client:
        tasks = [await begin(client, "work") for _ in range(slots + 2)]
        while waiting.running < slots:
            await asyncio.sleep(0.001)
        assert waiting.running == slots
        assert {(await look(client, task))["status"] for task in tasks} == {"working"}
        waiting.gate.set()
        for task in tasks:
            await until(client, task, "completed")


@limit("tasks that one principal, or one address of strangers, has open")
async def test_one_principal_has_so_many_open() -> None:
    waiting = Waiting(Tasks(per_owner=3))
    async with connect(waiting.server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as ada:
        for _ in range(3):
            last = await begin(ada, "work")
        with pytest.raises(ProtocolError, match="You have 3 tasks open") as caught:
            await begin(ada, "work")
        assert caught.value.code == -32603
        await ada.request("tasks/cancel", {"taskId": last["taskId"]})
        await begin(ada, "work")


@limit("tasks that are open")
async def test_there_are_so_many() -> None:
    waiting = Waiting(Tasks(most=3))
    async with connect(waiting.server, capabilities=KNOWS_TASKS) as client:
        for _ in range(3):
            await begin(client, "work")
        with pytest.raises(ProtocolError, match="Too many tasks are open") as caught:
            await begin(client, "work")
        assert caught.value.code == -32603


@limit("work on one task")
async def test_the_time_of_the_work_counts_over_all_runs_without_its_questions() -> None:
    server = Server("lab")

    @server.tool(task=Task(timeout=0.3, rerun="safe"))
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(0.1)
        await ctx.elicit("Sure?", bool)
        await asyncio.sleep(60)

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await until(client, task, "input_required")
        await asyncio.sleep(0.3)
        await answer(client, task, **{"#1": True})
        failed = await until(client, task, "failed")
        assert failed["error"]["code"] == -32603
        assert failed["error"]["message"].startswith("The task timed out after 0.")


@limit("runs of a task that end with their process")
@limit("lease of a task")
async def test_a_task_whose_processes_end_is_given_up(tmp_path: Path) -> None:
    engine = Sqlite(tmp_path / "lab.db")
    server = Server("lab", secret=SECRET, shared=engine, tasks=Tasks(by="workers", lease=0.05))

    @server.tool(task=Task(rerun="safe", attempts=3))
    def work() -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        service: Any = server.engine.methods.tasks
        for run in range(1, 4):  # as a process does that ends in its midst
            taken = await taken_from(engine, service)
            assert taken.fence == run
            pen = ledger_pen(service, taken)
            assert await service.runs._begin(pen, service.ledger.opened(taken))
            assert (await look(client, task))["status"] == "working"
        last = await taken_from(engine, service)
        assert not await service.runs._begin(ledger_pen(service, last), service.ledger.opened(last))
        failed = await until(client, task, "failed")
        assert failed["error"]["message"] == "Its process has ended 3 times before it was done"
    engine.close()


async def look_for_ever(client: Any, task: dict[str, Any]) -> None:
    while True:
        await look(client, task)
        await asyncio.sleep(0.01)


async def taken_from(engine: Sqlite, service: Any) -> Any:
    while True:
        taken = await engine.take(service.runs.queues(), most=1, lease=0.05)
        if taken.jobs:
            return taken.jobs[0]
        await asyncio.sleep(0.01)


def ledger_pen(service: Any, job: Any) -> Any:
    from mcpkit.tasks.pen import Pen

    return Pen(service.ledger, service.ledger.opened(job), 0.0)


@limit("keeping of a task that has ended")
async def test_an_ended_task_is_forgotten() -> None:
    server = Server("lab")

    @server.tool(task=Task(keep=0.2))
    def work() -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        done = await until(client, task, "completed")
        assert 200 <= done["ttlMs"] < 60_000
        with pytest.raises(ProtocolError, match="Unknown task"):
            await look_for_ever(client, task)


@limit("record of a task")
async def test_what_is_too_large_for_a_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_RECORD", 5000)
    server = Server("lab")

    @server.tool(task=True)
    def double(text: str) -> str:
        return text * 2

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        await until(client, await begin(client, "double", {"text": "x" * 500}), "completed")
        failed = await until(client, await begin(client, "double", {"text": "x" * 3000}), "failed")
        assert failed["error"]["code"] == -32603
        assert "the tool ran, but" in failed["error"]["message"].lower()
        with pytest.raises(ProtocolError) as caught:
            await begin(client, "double", {"text": "x" * 5000})
        assert caught.value.code == -32602


@limit("idempotency key")
@pytest.mark.parametrize("length", [1, 199, 200, 201, 20_000])
async def test_a_key_has_so_many_characters(length: int) -> None:
    server = Server("lab")

    @server.tool(task=True)
    def work() -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        meta = {"mcpkit/idempotencyKey": "x" * length}
        if length <= 200:
            assert (await begin(client, "work", _meta=meta))["resultType"] == "task"
        else:
            with pytest.raises(ProtocolError) as caught:
                await begin(client, "work", _meta=meta)
            assert caught.value.code == -32602
