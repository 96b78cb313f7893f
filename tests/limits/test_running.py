"""Bounds of what runs: requests, threads, processes, and time."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpkit import Server
from mcpkit.calls.workers import processes
from mcpkit.calls.workers.processes import Processes
from mcpkit.common.errors import ProcessEndedError
from tests.helpers.pipe import settle
from tests.helpers.process_work import add, wait_at_gate
from tests.helpers.waiting import until
from tests.limits.conftest import Ask
from tests.limits.ways import limit
from tests.wire.conftest import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.long]


class Hall:
    """A tool that holds its place until the test lets it go, in the event loop or in a thread."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()
        self._lock = threading.Lock()

    def enter(self, change: int = 1) -> None:
        with self._lock:
            self.inside += change
            self.most = max(self.most, self.inside)

    async def hold(self) -> str:
        self.enter()
        await self.gate.wait()
        self.enter(-1)
        return "held"

    def block(self) -> str:
        self.enter()
        assert self.thread_gate.wait(20)
        self.enter(-1)
        return "blocked"


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    made = Hall()
    yield made
    made.gate.set()
    made.thread_gate.set()


@limit("requests that run")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
async def test_max_running(count: int, hall: Hall, ask: Ask) -> None:
    server = Server("busy", max_running=4)
    server.tool(hall.hold)
    async with ask(server) as client:
        for _ in range(min(count, 4)):
            client.begin("hold")
        await until(lambda: hall.inside == min(count, 4))
        for _ in range(count - 4):
            answer = await client.call("hold")
            answer.refused(-32603, "Too many requests are running (4); try again later", 503)
            assert answer.status is None or answer.headers["retry-after"] == "1"
        assert hall.most <= 4
        await client.goes_on()  # lists take no place
        hall.gate.set()
        await until(lambda: hall.inside == 0)
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert (await client.call("hold")).text == "held"


@pytest.mark.long
@limit("worker threads")
@pytest.mark.parametrize("count", [3, 4, 5, 8, 400])
async def test_threads(count: int, hall: Hall, ask: Ask) -> None:
    server = Server("busy", threads=4)
    server.tool(hall.block)
    async with ask(server) as client:
        for _ in range(count):
            client.begin("block")
        await until(lambda: hall.inside == min(count, 4))
        await client.goes_on()
        hall.thread_gate.set()
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert hall.most == min(count, 4)
        assert (await client.call("block")).text == "blocked"


@limit("threads of calls that are over")
@pytest.mark.parametrize("count", [1, 2, 3, 10])
async def test_stuck_threads(count: int, hall: Hall, ask: Ask) -> None:
    server = Server("busy", stuck_threads=2)
    server.tool(hall.block, timeout=0.05)
    server.tool(lambda: "quick", name="quick")
    async with ask(server) as client:
        for number in range(count):
            answer = await client.call("block")
            if number < 3:
                answer.refused(None, "timed out after 0.05 s")
            else:
                assert "Too many worker threads are stuck" in answer.text
        answer = await client.call("quick")
        if count <= 2:
            assert answer.text == "quick"
        else:
            words = "Too many worker threads are stuck in functions whose calls are over (3; stuck_threads=2)"
            answer.refused(-32603, words, 503)
        await client.goes_on()
        hall.thread_gate.set()
        await until(lambda: server.engine.runtime.threads.given_up == 0)
        assert (await client.call("quick")).text == "quick"


@limit("worker processes")
async def test_processes() -> None:
    bounded = Processes(1)
    found = await asyncio.gather(*(bounded.run(add, {"a": number, "b": 1}) for number in range(100)))
    assert found == list(range(1, 101))
    assert len(bounded._idle) == 1, "one served them all, one after the other"


@pytest.mark.long
@limit("worker processes")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 200])
async def test_processes_that_are_held(count: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    bounded = Processes(2)
    calls = [
        asyncio.ensure_future(bounded.run(wait_at_gate, {"folder": str(tmp_path), "number": number}))
        for number in range(count)
    ]
    begun = min(count, 2)
    await until(lambda: len([*tmp_path.glob("*.begun")]) == begun)
    await settle()
    assert len([*tmp_path.glob("*.begun")]) == begun, "the others wait"
    for call in calls[begun::2]:
        call.cancel()  # one that waits for a process can be cancelled, and costs none
    await asyncio.gather(*calls[begun::2], return_exceptions=True)  # before another takes its turn
    gate = os.open(tmp_path / "gate", os.O_RDWR)  # whoever opens it from now on goes on
    try:
        found = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        os.close(gate)
    cancelled = [each for each in found if isinstance(each, asyncio.CancelledError)]
    assert len(cancelled) == len(calls[begun::2])
    assert len({each for each in found if isinstance(each, int)}) <= begun
    assert len(cancelled) + sum(isinstance(each, int) for each in found) == count
    assert len(bounded._idle) == begun


@limit("start of a worker process")
async def test_start(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = Processes(1)
    monkeypatch.setattr(processes, "_START_LIMIT", 0.0)
    with pytest.raises(ProcessEndedError, match=r"has ended without a result \(it was not ready after 0 s\)"):
        await bounded.run(add, {"a": 1, "b": 1})
    monkeypatch.undo()
    assert await bounded.run(add, {"a": 1, "b": 1}) == 2


@limit("start of a worker process")
async def test_start_that_never_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What its module does while a worker imports it takes an hour."""
    (tmp_path / "starts_for_ever.py").write_text(
        "import multiprocessing, time\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    time.sleep(3600)\n"
        "def done():\n"
        "    return 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    done = importlib.import_module("starts_for_ever").done
    bounded = Processes(1)
    monkeypatch.setattr(processes, "_START_LIMIT", 0.2)
    with pytest.raises(ProcessEndedError, match=r"it was not ready after 0\.2 s"):
        await bounded.run(done, {})
    monkeypatch.undo()
    assert await bounded.run(add, {"a": 1, "b": 1}) == 2, "its place is free again"


@limit("time of a call")
@pytest.mark.parametrize("is_in_time", [True, False])
async def test_timeout(is_in_time: bool, hall: Hall, ask: Ask) -> None:
    server = Server("busy", timeout=3600 if is_in_time else 0.05)
    server.tool(hall.hold)
    server.resource("busy://it")(hall.hold)
    server.prompt(hall.hold)
    if is_in_time:
        hall.gate.set()
    async with ask(server) as client:
        answer = await client.call("hold")
        others = [
            await client.ask("resources/read", {"uri": "busy://it"}),
            await client.ask("prompts/get", {"name": "hold"}),
        ]
        if is_in_time:
            assert answer.text == "held"
            assert not any(each.is_refused for each in others)
        else:
            answer.refused(None, "timed out after 0.05 s")
            for each in others:
                each.refused(-32603, "timed out after 0.05 s")
        await client.goes_on()


@limit("calls of one component")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 200])
async def test_concurrency(count: int, hall: Hall, ask: Ask) -> None:
    server = Server("busy")
    server.tool(hall.hold, concurrency=2)
    async with ask(server) as client:
        for _ in range(count):
            client.begin("hold")
        await until(lambda: hall.inside == min(count, 2))
        await client.goes_on()
        hall.gate.set()
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert hall.most == min(count, 2)


@limit("wait for the lifespan")
@pytest.mark.parametrize("seconds", [3600, 0.05, 0])
async def test_lifespan_wait(seconds: float, wire: Wire) -> None:
    gate = asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[int]:
        await gate.wait()
        server.tool(tool, name="late")
        yield 5

    async def tool() -> str:
        return "done"

    server = Server("slow", lifespan=lifespan, lifespan_wait=seconds)
    server.tool(tool, name="early")
    async with wire(server, "2026-07-28") as pipe:
        id_ = pipe.start("tools/list")
        if seconds == 3600:
            await settle()
            assert pipe.out.empty()
            gate.set()
        answer = await pipe.receive()
        assert answer["id"] == id_
        names = [each["name"] for each in answer["result"]["tools"]]
        assert names == (["early", "late"] if seconds == 3600 else ["early"])
        gate.set()
        assert await pipe.text("early") == "done"
        assert len((await pipe.result("tools/list"))["tools"]) == 2
