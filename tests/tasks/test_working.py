"""A server that serves runs tasks: by one runner in an event loop, and not before its lifespan has been entered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from mcpkit import Memory, Server, Sqlite, Task, Tasks
from mcpkit.engine.engine import Engine
from mcpkit.state.queue import Taken
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, begin, look, until
from tests.helpers.waiting import until as eventually

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


class Counted:
    """How many calls run, and how many ran at a time."""

    def __init__(self) -> None:
        self.running = self.most = self.begun = 0
        self.gate = asyncio.Event()

    async def work(self) -> str:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return "done"


@pytest.fixture
async def counted() -> Counted:
    return Counted()


def knowing(server: Server) -> connect:
    return connect(server, capabilities=KNOWS_TASKS)


async def turns(count: int = 50) -> None:
    """Let everything happen that does not wait."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_several_connections_in_an_event_loop_have_one_runner(
    engine: Memory | Sqlite, counted: Counted
) -> None:
    server = Server("lab", shared=engine, secret=SECRET, tasks=Tasks(slots=2))
    server.tool(task=True)(counted.work)
    async with knowing(server) as first, knowing(server) as second, server.running():
        tasks = [await begin(client, "work") for client in (first, second) for _ in range(3)]
        await eventually(lambda: counted.running == 2)
        counted.gate.set()
        for task in tasks:
            await until(first, task, "completed")
    assert counted.most == 2


async def test_tasks_run_on_while_somebody_serves(engine: Memory | Sqlite, counted: Counted) -> None:
    server = Server("lab", shared=engine, secret=SECRET)
    server.tool(task=True)(counted.work)
    async with knowing(server) as stays:
        async with knowing(server) as leaves:
            task = await begin(leaves, "work")
            await eventually(lambda: counted.running == 1)
            drain(server.engine)  # which is the word of one of two
        later = await begin(stays, "work")
        await eventually(lambda: counted.running == 2)
        counted.gate.set()
        for each in (task, later):
            await until(stays, each, "completed")
    assert counted.begun == 2


def drain(engine: Engine) -> None:
    engine.drain(10.0)


async def test_whoever_comes_while_others_leave_has_tasks_run(
    engine: Memory | Sqlite, counted: Counted
) -> None:
    server = Server("lab", shared=engine, secret=SECRET)
    server.tool(task=Task(rerun="safe"))(counted.work)
    async with knowing(server) as leaves:
        task = await begin(leaves, "work")
        await eventually(lambda: counted.running == 1)
        drain(server.engine)
        await eventually(lambda: counted.running == 0)
        async with knowing(server) as comes:
            await eventually(lambda: counted.begun == 2)
            counted.gate.set()
            await until(comes, task, "completed")


async def test_no_task_runs_before_the_lifespan_has_been_entered(
    engine: Memory | Sqlite, counted: Counted
) -> None:
    entering = asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        await entering.wait()
        yield

    maker = Server("lab", shared=engine, secret=SECRET, tasks="workers")
    maker.tool(task=True)(counted.work)
    server = Server("lab", shared=engine, secret=SECRET, lifespan=lifespan)
    server.tool(task=True)(counted.work)
    counted.gate.set()
    async with knowing(maker) as client:
        task = await begin(client, "work")
        async with server.running():
            await turns()
            assert counted.begun == 0
            entering.set()
            await until(client, task, "completed")


async def test_who_cannot_enter_the_lifespan_leaves_tasks_to_others(
    engine: Memory | Sqlite, counted: Counted
) -> None:
    is_broken = True

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        if is_broken:
            raise LookupError("it is not there")
        yield

    maker = Server("lab", shared=engine, secret=SECRET, tasks="workers")
    maker.tool(task=True)(counted.work)
    counted.gate.set()

    def other() -> Server:
        server = Server("lab", shared=engine, secret=SECRET, lifespan=lifespan)
        server.tool(task=True)(counted.work)
        return server

    async with knowing(maker) as client:
        task = await begin(client, "work")
        broken = other()
        async with broken.running():
            with pytest.raises(LookupError):
                await broken.ready()
            await turns()
            assert counted.begun == 0
        assert (await look(client, task))["status"] == "working"
        is_broken = False
        async with other().running():
            await until(client, task, "completed")


@pytest.mark.usefixtures("no_looks")
async def test_a_tool_that_comes_later_has_its_tasks_run_at_once(
    engine: Memory | Sqlite, counted: Counted
) -> None:
    maker = Server("lab", shared=engine, secret=SECRET, tasks="workers")
    maker.tool(task=True)(counted.work)
    server = Server("lab", shared=engine, secret=SECRET, tasks=Tasks(lease=10_000))

    @server.tool(task=True)
    def other() -> None: ...

    counted.gate.set()
    async with knowing(maker) as client, server.running():
        task = await begin(client, "work")
        server.tool(task=True)(counted.work)
        await until(client, task, "completed")


@pytest.mark.usefixtures("no_looks")
async def test_changes_of_all_else_are_no_reason_to_look_for_tasks() -> None:
    looks: list[Sequence[str]] = []

    class Watched(Memory):
        """An engine that knows who has looked for jobs."""

        async def take(self, queues: Sequence[str], *, most: int, lease: float, late: float = 0.0) -> Taken:
            looks.append(queues)
            return await super().take(queues, most=most, lease=lease, late=late)

    server = Server("lab", shared=Watched(), secret=SECRET, tasks=Tasks(lease=10_000))

    @server.tool(task=True)
    def tool() -> None: ...

    @server.resource("lab://data")
    def data() -> str:
        return ""

    async with knowing(server) as client:
        await eventually(lambda: looks)
        for _ in range(10):
            server.resource_updated("lab://data")
            await client.read("lab://data")
            await turns()
        server.resource("lab://more")(data)
        await turns()
        assert len(looks) == 1
        server.tool(name="other", task=True)(tool)
        await eventually(lambda: len(looks) == 2)
        assert len(looks[1]) == 2


async def test_processes_hear_of_what_clients_see_of_a_task_and_of_no_more(
    engine: Memory | Sqlite, counted: Counted
) -> None:
    server = Server("lab", shared=engine, secret=SECRET)
    server.tool(task=True)(counted.work)
    heard: list[str] = []
    stop = engine.subscribe("lab/tasks", heard.append)
    await engine.listening()
    async with knowing(server) as client:
        task = await begin(client, "work")
        await eventually(lambda: counted.running == 1)
        counted.gate.set()
        await until(client, task, "completed")
        await eventually(lambda: heard)
    stop()
    assert [json.loads(each) for each in heard] == [{"id": task["taskId"], "status": "completed"}]
