"""Limits of forms, of what runs at a time, and of tasks: at the bound and just above."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpkit import Context, Principal, ProtocolError, Server, Sqlite, Task, Tasks
from mcpkit.calls.asking import multi_round
from mcpkit.calls.asking.multi_round import _MAX_ANSWERS, MAX_STATE
from mcpkit.calls.asking.pending import _TRIES, MOST_OPEN
from mcpkit.calls.workers import processes
from mcpkit.calls.workers.processes import Processes
from mcpkit.common.errors import ProcessEndedError
from mcpkit.components import completion
from mcpkit.tasks import ledger
from mcpkit.tasks.pen import Pen
from mcpkit.testing import connect
from tests.helpers.pipe import settle
from tests.helpers.process_functions import add, wait_at_gate
from tests.helpers.raw_client import Serve
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, look
from tests.helpers.task_client import until as until_task
from tests.helpers.waiting import LoopClock, until
from tests.transports.limits.conftest import Outcome, Wire, limit, limit_client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


# Requests to the client

ELICITATION = {"elicitation": {}}
YES = {"action": "accept", "content": {"value": "yes"}}


def make_form_server(**options: Any) -> Server:
    server = Server("forms", max_running=100_000, secret="a secret of sixteen bytes", **options)

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", str, key="sure")).value

    @server.tool
    async def book(ctx: Context, size: int = 0) -> str:
        await ctx.once("kept", lambda: "x" * size)
        first = await ctx.elicit("First?", str, key="first")
        second = await ctx.elicit("Second?", str, key="second")
        return f"{first} {second}" if size == 0 else "booked"

    return server


@pytest.fixture
def form_server() -> Server:
    return make_form_server()


@limit("`requestState` that a client brings")
@pytest.mark.parametrize("length", [MAX_STATE, MAX_STATE + 1])
async def test_unknown_request_state_of_any_length_is_invalid_params(
    length: int, form_server: Server, serve: Serve
) -> None:
    params = {"requestState": "A" * length}
    async with limit_client(form_server) as client:
        (await client.call("book", **params)).check_error(-32602, "it is none that this server has given")
    async with serve(form_server) as web:
        answer = await web.ask("tools/call", {"name": "book", "arguments": {}, **params}).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32602)


@limit("`requestState` that a client brings")
async def test_request_state_above_limit_fails_the_call(form_server: Server) -> None:
    async with limit_client(form_server) as client:

        async def state_of(size: int, **params: Any) -> dict[str, Any]:
            params = {"name": "book", "arguments": {"size": size}, **params}
            return await client.client.request("tools/call", params)

        room = (MAX_STATE - len((await state_of(8000))["requestState"])) // 4 * 3 + 8000
        slack = 12  # bytes by which the length varies, as the state has the time in it
        state = (await state_of(room - slack))["requestState"]
        assert MAX_STATE - 3 * slack <= len(state) <= MAX_STATE
        answers = {"inputResponses": {"first": YES, "second": YES}}
        done = await state_of(room - slack, requestState=state, **answers)
        assert done["resultType"] == "complete"
        for size in (room + slack, 100 * room):
            (await client.call("book", {"size": size})).check_error(-32603, "Internal error")


@limit("answers where more is asked")
@pytest.mark.parametrize("excess", [0, 1])
async def test_input_responses_above_limit_are_invalid_params(excess: int, form_server: Server) -> None:
    overhead = len('{"first":["0123456789abcdef",{"action":"accept","content":{"value":""}}]}')
    value = "x" * (_MAX_ANSWERS - overhead + excess)
    responses = {"first": {"action": "accept", "content": {"value": value}}}
    async with limit_client(form_server) as client:
        result = await client.call("book", inputResponses=responses)
        if excess:
            result.check_error(-32602, "at most 8,192 bytes where more is asked")
        else:
            assert not result.is_error


@limit("questions that a client leaves open")
async def test_open_requests_above_limit_fail_the_call(form_server: Server, wire: Wire) -> None:
    async with wire(form_server, initialize=False) as pipe:
        await pipe.initialize(capabilities=ELICITATION)
        for _ in range(MOST_OPEN + 1):
            pipe.start("tools/call", {"name": "ask"})
        messages = [await pipe.receive() for _ in range(MOST_OPEN + 1)]
        errors = [each["error"] for each in messages if "error" in each]
        expected = "Too many questions to this client are open (100); answer some first"
        assert errors == [{"code": -32603, "message": expected}]
        question = next(each for each in messages if "method" in each)
        pipe.reply(question, YES)
        assert (await pipe.receive())["result"]["content"][0]["text"] == "yes"
        pipe.start("tools/call", {"name": "ask"})
        assert (await pipe.receive())["method"] == "elicitation/create"


@limit("time for an answer")
async def test_answer_after_question_timeout_is_ignored(wire: Wire) -> None:
    async with wire(make_form_server(question_timeout=1000), initialize=False) as pipe:
        await pipe.initialize(capabilities=ELICITATION)
        pipe.start("tools/call", {"name": "ask"})
        question = await pipe.receive()
        clock = LoopClock()
        clock.ahead = 950
        await settle()
        assert pipe.out.empty()
        clock.ahead = 1050
        assert (await pipe.receive())["method"] == "notifications/cancelled"
        result = (await pipe.receive())["result"]
        assert result["isError"]
        assert "The client did not answer within 1000 s" in result["content"][0]["text"]
        pipe.reply(question, YES)
        await pipe.quiet()


@limit("time for an answer")
@pytest.mark.parametrize("seconds", [0.04, 0.06])
async def test_request_state_expires_after_question_timeout(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(multi_round, "time", SimpleNamespace(time=lambda: now[0]))
    async with limit_client(make_form_server(question_timeout=0.05)) as client:
        first = await client.client.request("tools/call", {"name": "ask", "arguments": {}})
        now[0] += seconds
        result = await client.call("ask", requestState=first["requestState"], inputResponses={"sure": YES})
        if seconds < 0.05:
            assert result.text == "yes"
        else:
            result.check_error(-32602, "requestState cannot be taken: it has expired")


@limit("times that a form is asked again")
@pytest.mark.parametrize("wrong", [_TRIES - 1, _TRIES])
async def test_form_with_wrong_entries_is_repeated_up_to_limit(
    wrong: int, form_server: Server, wire: Wire
) -> None:
    async with wire(form_server, initialize=False) as pipe:
        await pipe.initialize(capabilities=ELICITATION)
        pipe.start("tools/call", {"name": "ask"})
        for _ in range(wrong):
            pipe.reply(await pipe.receive(), {"action": "accept", "content": {"value": 5}})
        last = await pipe.receive()
        if wrong < _TRIES:
            pipe.reply(last, YES)
            assert (await pipe.receive())["result"]["content"][0]["text"] == "yes"
        else:
            assert last["result"]["isError"]
            assert "value: expected" in last["result"]["content"][0]["text"]


# What runs at a time


class Gate:
    """Tools that wait at a gate, in the event loop or in a thread.

    Attributes:
        inside: How many wait now.
        most: How many have waited at a time.
    """

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()
        self._lock = threading.Lock()

    def enter(self, change: int = 1) -> None:
        with self._lock:
            self.inside += change
            self.most = max(self.most, self.inside)

    async def wait(self) -> str:
        self.enter()
        await self.gate.wait()
        self.enter(-1)
        return "ended"

    async def swallow(self) -> str:
        self.enter()
        while not self.gate.is_set():
            with suppress(asyncio.CancelledError):
                await self.gate.wait()
        self.enter(-1)
        return "ended"

    def block(self) -> str:
        self.enter()
        assert self.thread_gate.wait(20)
        self.enter(-1)
        return "ended"

    async def items(self) -> AsyncIterator[str]:
        self.enter()
        yield "ended"
        await self.gate.wait()

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
    server = Server("busy", max_running=4)
    server.tool(gate.wait)
    async with wire(server) as pipe, serve(server) as client:
        for _ in range(4):
            pipe.start("tools/call", {"name": "wait"})
        await until(lambda: gate.inside == 4)
        expected = "Too many requests are running (4); try again later"
        assert await pipe.error("tools/call", {"name": "wait"}) == {"code": -32603, "message": expected}
        answer = await client.call("wait").whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error()["message"] == expected
        assert await pipe.result("tools/list"), "lists are not counted"
        gate.open()
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert (await client.call("wait").whole()).status == 200


@pytest.mark.parametrize(
    ("tool", "options", "tool_options"),
    [
        pytest.param("block", {"threads": 2}, {}, marks=limit("worker threads")),
        pytest.param("wait", {}, {"concurrency": 2}, marks=limit("calls of one component")),
    ],
)
async def test_calls_above_threads_or_concurrency_wait(
    tool: str, options: dict[str, Any], tool_options: dict[str, Any], gate: Gate, wire: Wire
) -> None:
    server = Server("busy", **options)
    server.tool(getattr(gate, tool), **tool_options)
    async with wire(server) as pipe:
        for _ in range(5):
            pipe.start("tools/call", {"name": tool})
        await until(lambda: gate.inside == 2)
        await pipe.result("tools/list")
        gate.open()
        assert len(await pipe.answered()) == 5
        assert gate.most == 2


@limit("threads of calls that are over")
@pytest.mark.parametrize("count", [2, 3])
async def test_stuck_threads_above_limit_reject_calls(count: int, gate: Gate) -> None:
    server = Server("busy", stuck_threads=2)
    server.tool(gate.block, timeout=0.05)
    server.tool(lambda: "quick", name="quick")
    async with limit_client(server) as client:
        for _ in range(count):
            (await client.call("block")).check_error(None, "timed out after 0.05 s")
        result = await client.call("quick")
        if count == 2:
            assert result.text == "quick"
        else:
            words = "Too many worker threads are stuck in functions whose calls are over (3; stuck_threads=2)"
            result.check_error(-32603, words)
        gate.open()
        await until(lambda: server.engine.runtime.threads.given_up == 0)
        assert (await client.call("quick")).text == "quick"


@pytest.mark.long
@limit("worker processes")
async def test_calls_above_processes_wait_and_can_be_cancelled(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    workers = Processes(2)
    calls = [
        asyncio.ensure_future(workers.run(wait_at_gate, {"folder": str(tmp_path), "number": number}))
        for number in range(9)
    ]
    await until(lambda: len([*tmp_path.glob("*.begun")]) == 2)
    await settle()
    assert len([*tmp_path.glob("*.begun")]) == 2
    for call in calls[2::2]:
        call.cancel()
    await asyncio.gather(*calls[2::2], return_exceptions=True)
    gate = os.open(tmp_path / "gate", os.O_RDWR)
    try:
        results = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        os.close(gate)
    assert sum(isinstance(each, asyncio.CancelledError) for each in results) == 4
    process_ids = [each for each in results if isinstance(each, int)]
    assert (len(process_ids), len({*process_ids})) == (5, 2)
    assert len(workers._idle) == 2


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
    with pytest.raises(ProcessEndedError, match=r"it was not ready after 0\.2 s"):
        await workers.run(done, {})
    monkeypatch.undo()
    assert await workers.run(add, {"a": 1, "b": 1}) == 2


@limit("time of a call")
@pytest.mark.parametrize("tool", ["wait", "swallow", "block", "items"])
async def test_call_after_timeout_fails(tool: str, gate: Gate, wire: Wire) -> None:
    server = Server("timed", timeout=1000)
    for function in (gate.wait, gate.swallow, gate.block, gate.items):
        server.tool(function)
    async with wire(server) as pipe:
        pipe.start("tools/call", {"name": tool})
        await until(lambda: gate.inside == 1)
        clock = LoopClock()
        clock.ahead = 950
        await settle()
        assert pipe.out.empty()
        clock.ahead = 1050
        result = (await pipe.receive())["result"]
        assert result["isError"]
        assert "timed out after 1000 s" in result["content"][0]["text"]
        gate.open()
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert "ended" in await pipe.text(tool)


@limit("time of a call")
async def test_read_prompt_and_completion_after_timeout_fail(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("timed", timeout=0.05)
    server.resource("busy://it")(gate.wait)
    server.prompt(gate.wait)
    server.tool(lambda: "", name="tool")

    async def cities(value: str) -> list[str]:
        await gate.gate.wait()
        return [value]

    server.prompt(lambda city: city, name="plan", complete={"city": cities})
    monkeypatch.setattr(completion, "TIMEOUT", 0.05)
    argument = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
    async with limit_client(server) as client:
        for method, params in (
            ("resources/read", {"uri": "busy://it"}),
            ("prompts/get", {"name": "wait"}),
            ("completion/complete", argument),
        ):
            result = await client.request(method, params)
            assert isinstance(result, Outcome), method
            result.check_error(-32603, "timed out after 0.05 s")


@limit("wait for the lifespan")
@pytest.mark.parametrize("seconds", [950, 1050])
async def test_list_waits_for_lifespan_up_to_limit(seconds: float, wire: Wire) -> None:
    entered = asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        await entered.wait()
        server.tool(lambda: "done", name="late")
        yield

    server = Server("slow", lifespan=lifespan, lifespan_wait=1000)
    server.tool(lambda: "done", name="early")
    async with wire(server, "2026-07-28") as pipe:
        pipe.start("tools/list")
        clock = LoopClock()
        clock.ahead = seconds
        await settle()
        assert pipe.out.empty() == (seconds < 1000)
        if seconds < 1000:
            entered.set()
        names = [each["name"] for each in (await pipe.receive())["result"]["tools"]]
        assert names == (["early", "late"] if seconds < 1000 else ["early"])
        entered.set()
        assert await pipe.text("early") == "done"


# Tasks


class Waiting:
    """A server with a tool that waits at a gate in a task."""

    def __init__(self, tasks: Tasks) -> None:
        self.server = Server("lab", tasks=tasks)
        self.gate = asyncio.Event()
        self.running = 0

        @self.server.tool(task=True)
        async def work() -> None:
            self.running += 1
            await self.gate.wait()


@limit("tasks that one process runs at a time")
async def test_tasks_above_slots_wait() -> None:
    waiting = Waiting(Tasks(slots=2))
    async with connect(waiting.server, capabilities=KNOWS_TASKS) as client:
        tasks = [await begin(client, "work") for _ in range(4)]
        await until(lambda: waiting.running == 2)
        assert {(await look(client, task))["status"] for task in tasks} == {"working"}
        assert waiting.running == 2
        waiting.gate.set()
        for task in tasks:
            await until_task(client, task, "completed")


@limit("tasks that one principal, or one address of strangers, has open")
@limit("tasks that are open")
@pytest.mark.parametrize(
    ("tasks", "error"),
    [(Tasks(per_owner=3), "You have 3 tasks open"), (Tasks(most=3), "Too many tasks are open")],
)
async def test_open_tasks_above_limit_get_error(tasks: Tasks, error: str) -> None:
    waiting = Waiting(tasks)
    async with connect(waiting.server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as client:
        for _ in range(3):
            last = await begin(client, "work")
        with pytest.raises(ProtocolError, match=error) as caught:
            await begin(client, "work")
        assert caught.value.code == -32603
        await client.request("tasks/cancel", {"taskId": last["taskId"]})
        await begin(client, "work")


@limit("work on one task")
async def test_task_timeout_counts_all_runs_without_waiting_for_input() -> None:
    server = Server("lab")

    @server.tool(task=Task(timeout=0.2, rerun="safe"))
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(0.05)
        await ctx.elicit("Sure?", bool)
        await asyncio.sleep(60)

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await until_task(client, task, "input_required")
        await asyncio.sleep(0.2)
        await answer(client, task, **{"#1": True})
        failed = await until_task(client, task, "failed")
        assert failed["error"]["code"] == -32603
        assert failed["error"]["message"].startswith("The task timed out after 0.")


@limit("runs of a task that end with their process")
@limit("lease of a task")
async def test_task_fails_after_its_process_has_ended_three_times(tmp_path: Path) -> None:
    engine = Sqlite(tmp_path / "lab.db")
    tasks = Tasks(by="workers", lease=0.05)
    server = Server("lab", secret="a secret of sixteen and more", shared=engine, tasks=tasks)
    server.tool(lambda: None, name="work", task=Task(rerun="safe", attempts=3))

    async def run(service: Any) -> tuple[int, bool]:
        """Take the job and abandon it, as a process that is killed does."""
        while not (jobs := (await engine.take(service.runs.queues(), most=1, lease=0.05)).jobs):
            await asyncio.sleep(0.01)
        record = service.ledger.opened(jobs[0])
        return jobs[0].fence, await service.runs._begin(Pen(service.ledger, record, 0.0), record)

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        service: Any = server.engine.methods.tasks
        for number in range(1, 4):
            assert await run(service) == (number, True)
            assert (await look(client, task))["status"] == "working"
        assert not (await run(service))[1]
        failed = await until_task(client, task, "failed")
        assert failed["error"]["message"] == "Its process has ended 3 times before it was done"
    engine.close()


@limit("keeping of a task that has ended")
async def test_ended_task_is_unknown_after_keep() -> None:
    server = Server("lab")
    server.tool(lambda: None, name="work", task=Task(keep=0.2))
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        done = await until_task(client, task, "completed")
        assert 200 <= done["ttlMs"] < 60_000

        async def look_until_unknown() -> None:
            while True:
                await look(client, task)
                await asyncio.sleep(0.01)

        with pytest.raises(ProtocolError, match="Unknown task"):
            await look_until_unknown()


@limit("record of a task")
async def test_task_record_above_limit_gets_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_RECORD", 5000)
    server = Server("lab")

    @server.tool(task=True)
    def double(text: str) -> str:
        return text * 2

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        await until_task(client, await begin(client, "double", {"text": "x" * 500}), "completed")
        failed = await until_task(client, await begin(client, "double", {"text": "x" * 3000}), "failed")
        assert failed["error"]["code"] == -32603
        assert "the tool ran, but" in failed["error"]["message"].lower()
        with pytest.raises(ProtocolError) as caught:
            await begin(client, "double", {"text": "x" * 5000})
        assert caught.value.code == -32602


@limit("idempotency key")
@pytest.mark.parametrize("length", [200, 201])
async def test_idempotency_key_above_limit_is_invalid_params(length: int) -> None:
    server = Server("lab")
    server.tool(lambda: None, name="work", task=True)
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        meta = {"mcpkit/idempotencyKey": "x" * length}
        if length == 200:
            assert (await begin(client, "work", _meta=meta))["resultType"] == "task"
        else:
            with pytest.raises(ProtocolError) as caught:
                await begin(client, "work", _meta=meta)
            assert caught.value.code == -32602
