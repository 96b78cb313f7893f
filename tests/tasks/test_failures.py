"""Tasks when engine calls fail or processes end, in any order: none is lost, run twice or stuck."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcpkit import Context, ProtocolError, Server, Task, TaskOptions, Timeouts
from mcpkit.state.queue import Job
from mcpkit.storage import Memory
from mcpkit.tasks import runner
from mcpkit.tasks.handshake import TasksOfBoth
from mcpkit.tasks.runner import DRAINED, LOST
from mcpkit.testing import TestClient, connect
from tests.helpers.clock import Clock
from tests.helpers.engines import FailingMemory, When
from tests.helpers.task_client import KNOWS_TASKS, OVER, accepted, begin, look
from tests.helpers.waiting import DEFAULT_TIMEOUT

pytestmark = [pytest.mark.anyio, pytest.mark.long]

LEASE = 600.0


async def retry(client: TestClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request, and once more if the error says that it may succeed later."""
    try:
        return await client.request(method, params)
    except ProtocolError as error:
        if (error.code, error.message) != (-32603, "The state of tasks is not available. Try again later"):
            raise
    return await client.request(method, params)


async def run_to_end(
    client: TestClient, tool: str, act: Callable[[dict[str, Any]], Awaitable[Any]]
) -> dict[str, Any]:
    """Run a tool as a task to its end, and return its last status."""
    meta = {"mcpkit/idempotencyKey": "one"}
    made = await retry(client, "tools/call", {"name": tool, "arguments": {}, "_meta": meta})
    params = {"taskId": made["taskId"]}
    deadline = time.monotonic() + DEFAULT_TIMEOUT
    while (seen := await retry(client, "tasks/get", params))["status"] not in OVER:
        assert time.monotonic() < deadline, f"it is still {seen}"
        await act(seen)
        await asyncio.sleep(0.005)
    same = await retry(client, "tools/call", {"name": tool, "arguments": {}, "_meta": meta})
    assert (same["taskId"], same["status"]) == (made["taskId"], seen["status"])
    await asyncio.sleep(0.005)
    assert await retry(client, "tasks/get", params) == seen
    return seen


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

    async def act(seen: dict[str, Any]) -> None:
        nonlocal idle
        for key in seen.get("inputRequests", ()):
            responses = {key: accepted("yes")}
            await retry(client, "tasks/update", {"taskId": seen["taskId"], "inputResponses": responses})
        idle = 0 if running or seen["status"] != "working" else idle + 1
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
async def test_task_completes_whichever_engine_call_fails(
    rerun: Any, when: When, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_INTERVAL", 0.05)
    last, calls = 0, 1
    while last < calls:
        numbers = range(last + 1, last + 9)
        *_, calls = await asyncio.gather(*(run_with_failing_call(each, when, rerun) for each in numbers))
        last = numbers[-1]


T = TypeVar("T")

INDEX = st.integers(0, 100)


class Hold:
    """A lease that is not extended."""

    is_lost = False

    def until(self, seconds: float | None) -> None:
        """Do nothing."""


class Worker:
    """One run in one process."""

    def __init__(self, service: TasksOfBoth, job: Job, now: float) -> None:
        self.hold: Any = Hold()
        self.task = asyncio.ensure_future(service.runs.run(job, now, self.hold))


class Interleavings(RuleBasedStateMachine):
    """Clients, workers and their deaths, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.engine = Memory(self.clock)
        self.server = Server(
            "lab", storage=self.engine, tasks="workers", timeouts=Timeouts(client_request=100)
        )
        self.begun: list[str] = []
        self.committed: set[str] = set()
        self.gates: list[asyncio.Event] = []
        self.is_open = False
        self.workers: list[Worker] = []
        self.tasks: list[dict[str, Any]] = []
        self.ends: dict[str, Any] = {}
        for rerun in ("safe", "never"):
            self.server.tool(self.work, name=rerun, task=Task(rerun=rerun, attempts=3, timeout=50))
        self.stack = AsyncExitStack()
        self.client = self.run(self.stack.enter_async_context(connect(self.server, capabilities=KNOWS_TASKS)))
        service = self.server.engine.methods.tasks
        assert isinstance(service, TasksOfBoth)
        self.service = service

    async def work(self, ctx: Context) -> int:
        self.begun.append(ctx.idempotency_key)
        await self.step()

        async def effect() -> int:
            assert ctx.idempotency_key not in self.committed
            await self.step()
            return 1

        await ctx.once("effect", effect)
        self.committed.add(ctx.idempotency_key)
        await self.step()
        await ctx.elicit("Go on?", bool, key="go")
        await self.step()
        return ctx.task.attempt

    async def step(self) -> None:
        if not self.is_open:
            self.gates.append(gate := asyncio.Event())
            await gate.wait()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        async def settled() -> T:
            result = await coroutine
            for _ in range(30):
                await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(settled())

    @precondition(lambda self: len(self.tasks) < 4)
    @rule(rerun=st.sampled_from(["safe", "never"]))
    def create(self, rerun: str) -> None:
        self.tasks.append(self.run(begin(self.client, rerun)))

    @rule(seconds=st.sampled_from([1.0, 11.0, 60.0, 120.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def take(self) -> None:
        async def take() -> int:
            taken = await self.engine.take(self.service.runs.queues(), limit=1, lease=10.0)
            self.workers += [Worker(self.service, job, taken.now) for job in taken.jobs]
            return len(taken.jobs)

        self.run(take())

    @precondition(lambda self: self.gates)
    @rule(index=INDEX)
    def go_on(self, index: int) -> None:
        async def go_on() -> None:
            self.gates.pop(index % len(self.gates)).set()

        self.run(go_on())

    @precondition(lambda self: self.workers)
    @rule(index=INDEX, is_crash=st.booleans())
    def stop(self, index: int, is_crash: bool) -> None:
        async def stop() -> None:
            worker = self.workers.pop(index % len(self.workers))
            worker.hold.is_lost = is_crash
            worker.task.cancel(LOST if is_crash else DRAINED)

        self.run(stop())

    @precondition(lambda self: self.tasks)
    @rule(index=INDEX)
    def answer(self, index: int) -> None:
        task = self.tasks[index % len(self.tasks)]
        seen = self.run(look(self.client, task))
        responses = {key: accepted(True) for key in seen.get("inputRequests", ())}
        params = {"taskId": task["taskId"], "inputResponses": responses}
        self.run(self.client.request("tasks/update", params))

    @precondition(lambda self: self.tasks)
    @rule(index=INDEX)
    def cancel(self, index: int) -> None:
        task = self.tasks[index % len(self.tasks)]
        self.run(self.client.request("tasks/cancel", {"taskId": task["taskId"]}))

    @invariant()
    def ends_stay(self) -> None:
        for task in self.tasks:
            seen = self.run(look(self.client, task))
            if task["taskId"] in self.ends:
                assert seen == self.ends[task["taskId"]]
            elif seen["status"] in OVER:
                self.ends[task["taskId"]] = seen

    @invariant()
    def begun_once(self) -> None:
        for task in self.tasks:
            held = self.run(self.service.ledger.look(task["taskId"]))
            assert held is not None
            if held.record.rerun == "never":
                assert self.begun.count(held.record.call_id) <= 1

    def teardown(self) -> None:
        """All workers die; then each task ends when workers take it, though no client answers."""
        while self.workers:
            self.stop(0, is_crash=True)
        self.is_open = True
        for _ in range(8 * len(self.tasks)):
            self.pass_time(120.0)
            self.take()
        while self.workers:
            self.stop(0, is_crash=True)
        self.ends_stay()
        try:
            assert len(self.ends) == len(self.tasks)
        finally:
            self.run(self.close())
            self.loop.close()

    async def close(self) -> None:
        await self.stack.aclose()
        while rest := asyncio.all_tasks() - {asyncio.current_task()}:
            for each in rest:
                each.cancel()
            await asyncio.wait(rest)


TestInterleavings = Interleavings.TestCase

TestInterleavings.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)
