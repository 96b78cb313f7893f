"""Tasks when engine calls fail or workers die: none is lost, run twice or stuck."""

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server, Task, TaskOptions, Timeouts
from mcpkit.storage import Memory
from mcpkit.tasks import queue_polling_and_leases as runner
from mcpkit.tasks.queue_polling_and_leases import LOST
from mcpkit.testing import TestClient, connect
from tests.helpers.engines import FailingMemory, When
from tests.helpers.task_client import KNOWS_TASKS, OVER, accepted, begin, get_task
from tests.helpers.waiting import DEFAULT_TIMEOUT, Clock, until

pytestmark = pytest.mark.long

LEASE = 600.0


async def retry(client: TestClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request, and once more if the error asks to try later."""
    try:
        return await client.request(method, params)
    except ProtocolError as error:
        if (error.code, error.message) != (-32603, "The state of tasks is not available. Try again later"):
            raise
    return await client.request(method, params)


async def run_to_end(client, tool, act) -> dict[str, Any]:
    """Run a tool as a task to its end, and return its last status."""
    meta = {"mcpkit/idempotencyKey": "one"}
    made = await retry(client, "tools/call", {"name": tool, "arguments": {}, "_meta": meta})
    params = {"taskId": made["taskId"]}
    deadline = time.monotonic() + DEFAULT_TIMEOUT
    while (latest := await retry(client, "tasks/get", params))["status"] not in OVER:
        assert time.monotonic() < deadline, f"it is still {latest}"
        await act(latest)
        await asyncio.sleep(0.005)
    same = await retry(client, "tools/call", {"name": tool, "arguments": {}, "_meta": meta})
    assert (same["taskId"], same["status"]) == (made["taskId"], latest["status"])
    await asyncio.sleep(0.005)
    assert await retry(client, "tasks/get", params) == latest
    return latest


async def run_with_failing_call(number: int, when: When, rerun: Any) -> int:
    """Run a task of which one engine call fails, and return the number of engine calls.

    The lease of a job that no run holds any more ends as the clock of the engine is moved.
    """
    clock = Clock(time.time())
    engine = FailingMemory(number, when, clock=clock)
    options = {"tasks": TaskOptions(lease=LEASE), "timeouts": Timeouts(client_request=1e6)}
    server = Server("lab", storage=engine, **options)
    did: list[str] = []
    running = idle = 0

    @server.tool(task=Task(rerun=rerun, attempts=20))
    async def work(ctx: Context) -> str:
        nonlocal running
        running += 1
        try:
            did.append("run")
            await ctx.report_progress(1, 3, "first")
            await asyncio.gather(*(ctx.once(key, partial(did.append, key)) for key in "ab"))
            one, two = await asyncio.gather(ctx.once("c", partial(did.append, "c")), ctx.elicit("?", str))
            await ctx.once("d", partial(did.append, "d"))
        finally:
            running -= 1
        return f"{one} {two.value}"

    async def act(latest: dict[str, Any]) -> None:
        nonlocal idle
        for key in latest.get("inputRequests", ()):
            responses = {key: accepted("yes")}
            await retry(client, "tasks/update", {"taskId": latest["taskId"], "inputResponses": responses})
        idle = 0 if running or latest["status"] != "working" else idle + 1
        if idle == 20:
            idle, clock.now = 0, clock.now + LEASE + 1

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await run_to_end(client, "work", act)
    calls = len(engine.called)
    call = f"call {number} of {calls}, {engine.called[number - 1 : number]}"
    assert done["status"] == "completed", (call, done)
    assert done["result"]["structuredContent"] == "None yes", call
    assert sorted(each for each in did if each != "run") == [*"abcd"], call
    runs = did.count("run")
    assert runs >= 2 if rerun == "safe" else runs == 1, (call, runs)  # a safe one runs again with its input
    return calls


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_task_completes_whichever_engine_call_fails(rerun: Any, when: When, monkeypatch) -> None:
    monkeypatch.setattr(runner, "_INTERVAL", 0.05)
    last, calls = 0, 1
    while last < calls:
        numbers = range(last + 1, last + 9)
        *_, calls = await asyncio.gather(*(run_with_failing_call(each, when, rerun) for each in numbers))
        last = numbers[-1]


class RecordedLease:
    """A lease that is not extended, and lost as its worker dies."""

    is_lost = False

    def limit_to(self, seconds: float) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("rerun", "runs"), [("safe", 3), ("never", 1)])
async def test_task_of_dying_workers_fails_after_its_attempts(rerun: Any, runs: int) -> None:
    clock = Clock()
    engine = Memory(clock)
    server = Server("lab", storage=engine, tasks="workers")
    attempts: list[int] = []
    effects: list[str] = []

    @server.tool(task=Task(rerun=rerun, attempts=3))
    async def work(ctx: Context) -> None:
        attempts.append(ctx.task.attempt)
        await ctx.once("effect", lambda: effects.append("done"))
        await asyncio.Event().wait()

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        service: Any = server.engine.methods.tasks
        work = service.here.runs
        while (latest := await get_task(client, task))["status"] == "working":
            taken = await engine.take(work.queues(), limit=1, lease=10.0)
            for job in taken.jobs:
                count, lease = len(attempts), RecordedLease()
                run = asyncio.ensure_future(work.run(job, taken.now, lease))
                await until(lambda: run.done() or (len(attempts) > count and effects))
                lease.is_lost = True
                run.cancel(LOST)
                await asyncio.wait([run])
            clock.now += 11
        assert latest["status"] == "failed"
        assert attempts == [*range(1, runs + 1)]
        assert effects == ["done"]
        clock.now += 60
        assert (await engine.take(work.queues(), limit=1, lease=10.0)).jobs == []
        assert await get_task(client, task) == latest
