"""Tasks of several servers with one engine: requests at any server, and runs that continue at another."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Server, Task, TaskOptions, Timeouts
from mcpkit.storage import Sqlite
from mcpkit.testing import connect
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import Client, serving
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, look, until
from tests.helpers.waiting import until as eventually

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECRET = "a secret of sixteen and more"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = make_engine(request.param, tmp_path)
    yield made
    close(made)


class Replica:
    """A server beside others; `calls` is what its functions have done."""

    def __init__(self, engine: Any, **options: Any) -> None:
        self.server = server = Server("lab", secret_key=SECRET, storage=engine, **options)
        self.calls: list[str] = []
        self.gate = asyncio.Event()

        @server.tool(task=Task(rerun="safe"))
        async def safe(ctx: Context) -> int:
            self.calls.append("safe")
            await ctx.once("effect", lambda: self.calls.append("effect"))
            self.calls.append("kept")
            await self.gate.wait()
            return ctx.task.attempt

        @server.tool(task=Task(rerun="never"))
        async def held(ctx: Context) -> str:
            self.calls.append("held")
            return (await ctx.elicit("Name?", str)).value


async def test_any_server_answers_each_request(engine: Any) -> None:
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
        await wait_for_call(first, "kept")
        await two.request("tasks/cancel", {"taskId": task["taskId"]})
        assert (await look(one, task))["status"] == "cancelled"
    assert second.calls == []


async def wait_for_call(replica: Replica, what: str) -> None:
    while what not in replica.calls:
        await asyncio.sleep(0.005)


async def test_task_of_a_stopped_server_continues_at_another(engine: Any) -> None:
    first, second = Replica(engine), Replica(engine)
    second.gate.set()
    async with connect(first.server, capabilities=KNOWS_TASKS) as one:
        task = await begin(one, "safe")
        await wait_for_call(first, "kept")
    async with connect(second.server, capabilities=KNOWS_TASKS) as two:
        done = await until(two, task, "completed")
    assert done["result"]["structuredContent"] == 2
    assert second.calls == ["safe", "kept"]  # what was done once is not done again


HOST = """
import asyncio, sys
from mcpkit import Context, Server, Task, TaskOptions
from mcpkit.storage import Sqlite

server = Server(
    "lab", secret_key="a secret of sixteen and more", storage=Sqlite(sys.argv[1]), tasks=TaskOptions(lease=0.3)
)

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


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_tasks_of_a_killed_process_run_again_or_fail(tmp_path: Path) -> None:
    engine = Sqlite(tmp_path / "lab.db")
    front = Replica(engine, tasks="workers")
    async with connect(front.server, capabilities=KNOWS_TASKS) as client:
        safe, held = await begin(client, "safe"), await begin(client, "held")
        process = subprocess.Popen(
            [sys.executable, "-c", HOST, str(tmp_path / "lab.db")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = {(await asyncio.to_thread(process.stdout.readline)).strip() for _ in range(2)}
        assert lines == {"effect", "held"}
        await until(client, held, "input_required")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        other = Replica(engine, tasks=TaskOptions(lease=0.3))
        other.gate.set()
        async with connect(other.server, capabilities=KNOWS_TASKS) as second:
            done = await until(second, safe, "completed")
            assert done["result"]["structuredContent"] == 2
            failed = await until(second, held, "failed")
            assert failed["error"]["code"] == -32603
            assert "Check whether its work was done" in failed["error"]["message"]
            assert other.calls.count("held") == 0
    engine.close()


# HTTP


async def begin_from(client: Client, host: str, **meta: Any) -> tuple[int | None, Any]:
    meta |= {**stateless_meta(), "io.modelcontextprotocol/clientCapabilities": KNOWS_TASKS}
    params = {"name": "work", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
    answer = await client.post(message, headers, client=(host, 50000)).whole()
    return answer.status, json.loads(answer.body)


async def test_anonymous_tasks_are_limited_per_address(engine: Any, schema_dir: Path) -> None:
    server = Server(
        "lab",
        secret_key="a secret of sixteen and more",
        storage=engine,
        tasks=TaskOptions(max_open_per_owner=3, max_open=8),
    )
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
    assert [status for status, _ in eve] == [200] * 3 + [503] * 2
    assert "You have 3 open tasks" in eve[-1][1]["error"]["message"]
    assert [status for status, _ in ada] == [200] * 2
    assert [status for status, _ in here] == [200] * 3 + [503]


async def test_idempotency_key_of_another_address_creates_another_task(schema_dir: Path) -> None:
    server = Server("lab")

    @server.tool(task=True)
    async def work() -> None: ...

    key = {"mcpkit/idempotencyKey": "1"}
    async with serving(server, schema_dir, timeouts=Timeouts(shutdown=10)) as client:
        hosts = ["203.0.113.7", "203.0.113.7", "203.0.113.8"]
        ids = [(await begin_from(client, host, **key))[1]["result"]["taskId"] for host in hosts]
    assert ids[0] == ids[1] != ids[2]
