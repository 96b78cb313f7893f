"""Tasks of several servers that share an engine: each request at any of them, and work that goes on at another."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Memory, Server, Sqlite, Task, Tasks
from mcpkit.testing import connect
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, look, until

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory | Sqlite]:
    made = make_engine(request.param, tmp_path)
    yield made
    close(made)


class Replica:
    """A server beside others; `did` is what its functions have done."""

    def __init__(self, engine: Any, **options: Any) -> None:
        self.server = server = Server("lab", secret=SECRET, shared=engine, **options)
        self.did: list[str] = []
        self.gate = asyncio.Event()

        @server.tool(task=Task(rerun="safe"))
        async def safe(ctx: Context) -> int:
            self.did.append("safe")
            await ctx.once("effect", lambda: self.did.append("effect"))
            self.did.append("kept")
            await self.gate.wait()
            return ctx.attempt

        @server.tool(task=Task(rerun="never"))
        async def held(ctx: Context) -> str:
            self.did.append("held")
            return (await ctx.elicit("Name?", str)).value


async def test_each_request_is_answered_by_any_of_them(engine: Any) -> None:
    first, second = Replica(engine), Replica(engine, tasks="workers")
    async with (
        connect(first.server, capabilities=KNOWS_TASKS) as one,
        connect(second.server, capabilities=KNOWS_TASKS) as two,
    ):
        task = await begin(two, "held")
        assert (await until(one, task, "input_required"))["inputRequests"].keys() == {"#1"}
        await answer(two, task, **{"#1": "Ada"})
        done = await until(two, task, "completed")
        assert done["result"]["structuredContent"] == "Ada"
        assert await look(one, task) == done
        task = await begin(one, "safe")
        await until_did(first, "kept")
        await two.request("tasks/cancel", {"taskId": task["taskId"]})
        assert (await look(one, task))["status"] == "cancelled"
    assert second.did == []


async def until_did(replica: Replica, what: str) -> None:
    while what not in replica.did:
        await asyncio.sleep(0.005)


async def test_what_one_does_not_finish_another_one_goes_on_with_at_once(engine: Any) -> None:
    first, second = Replica(engine), Replica(engine)
    second.gate.set()
    async with connect(first.server, capabilities=KNOWS_TASKS) as one:
        task = await begin(one, "safe")
        await until_did(first, "kept")
    async with connect(second.server, capabilities=KNOWS_TASKS) as two:
        done = await until(two, task, "completed")
    assert done["result"]["structuredContent"] == 2
    assert second.did == ["safe", "kept"]  # what was done once is not done again


async def test_what_is_being_done_once_is_written_down_before_it_is_handed_back(engine: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()
    did: list[str] = []

    def effect() -> str:
        did.append("begun")
        begun.set()
        go_on.wait(30)
        return "effect"

    def make() -> Server:
        server = Server("lab", secret=SECRET, shared=engine)

        @server.tool(task=Task(rerun="safe"))
        async def work(ctx: Context) -> str:
            what = await ctx.once("effect", effect)
            if ctx.attempt == 1:
                await asyncio.Event().wait()
            return what

        return server

    async with connect(make(), capabilities=KNOWS_TASKS) as one:
        task = await begin(one, "work")
        while not begun.is_set():
            await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    async with connect(make(), capabilities=KNOWS_TASKS) as two:
        assert (await until(two, task, "completed"))["result"]["structuredContent"] == "effect"
    assert did == ["begun"]


HOST = """
import asyncio, sys
from mcpkit import Context, Server, Sqlite, Task, Tasks

server = Server("lab", secret="a secret of sixteen and more", shared=Sqlite(sys.argv[1]), tasks=Tasks(lease=0.3))

@server.tool(task=Task(rerun="safe"))
async def safe(ctx: Context) -> int:
    await ctx.once("effect", lambda: sys.stdout.write("effect\\n"))
    sys.stdout.flush()
    await asyncio.Event().wait()

@server.tool(task=Task(rerun="never"))
async def held(ctx: Context) -> str:
    sys.stdout.write("held\\n"); sys.stdout.flush()
    return (await ctx.elicit("Name?", str)).value

async def main():
    async with server.running():
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_what_a_killed_process_has_begun_is_run_again_or_has_failed(tmp_path: Path) -> None:
    engine = Sqlite(tmp_path / "lab.db")
    front = Replica(engine, tasks="workers")
    async with connect(front.server, capabilities=KNOWS_TASKS) as client:
        safe, held = await begin(client, "safe"), await begin(client, "held")
        process = subprocess.Popen(
            [sys.executable, "-c", HOST, str(tmp_path / "lab.db")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = {(await asyncio.to_thread(process.stdout.readline)).strip() for _ in range(2)}
        assert said == {"effect", "held"}
        await until(client, held, "input_required")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        other = Replica(engine, tasks=Tasks(lease=0.3))
        other.gate.set()
        async with connect(other.server, capabilities=KNOWS_TASKS) as second:
            done = await until(second, safe, "completed")
            assert done["result"]["structuredContent"] == 2
            failed = await until(second, held, "failed")
            assert failed["error"]["code"] == -32603
            assert "cannot be told" in failed["error"]["message"]
            assert other.did.count("held") == 0
    engine.close()
