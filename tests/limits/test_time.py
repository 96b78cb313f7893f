"""Bounds of time, just before them, just behind them, and for what would never end; the clock is the test's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mcpkit import Context, Server
from mcpkit.transports.http import exchange as exchanges
from tests.helpers.pipe import META, settle
from tests.helpers.raw_client import Client, Judge, Serve, initialize
from tests.helpers.waiting import LoopClock, until
from tests.limits.conftest import Ask
from tests.limits.ways import Asker, PipeAsker, Told, WebAsker, limit, told

pytestmark = pytest.mark.anyio

BOUND = 1000
NEAR = 50
"""Seconds, so many that a busy machine makes no difference."""
MOMENTS = [BOUND - NEAR, BOUND + NEAR, 100 * BOUND]

HEADERS = {"content-type": "application/json", "content-length": "2000000"}


@limit("time for a body")
@pytest.mark.parametrize("sent", [[], [b"{"], [b"{", b" "]])
@pytest.mark.parametrize("seconds", MOMENTS)
async def test_body(seconds: int, sent: list[bytes], server: Server, serve: Serve) -> None:
    async with serve(server, body_timeout=BOUND) as client:
        answer = client.open("POST", headers=HEADERS, body=None)
        await settle()
        clock = LoopClock()
        for part in sent:  # what comes does not prolong the time
            clock.ahead += seconds / (len(sent) + 1)
            await settle()
            answer.feed(part, more=True)
            await settle()
        clock.ahead = seconds
        await settle()
        if seconds < BOUND:
            assert not answer.task.done()
            answer.feed(b"", more=False)
            assert (await answer.whole()).status == 400, "it is read, and is no JSON"
        else:
            clock.ahead += BOUND  # and what still comes is not waited for
            await settle()
            assert (await answer.head()).status == 408
            assert answer.body == b"the body did not arrive within 1000 seconds\n"
            assert answer.headers["connection"] == "close"
        assert (await client.ask("tools/list").whole()).status == 200


class Stubborn:
    """Tools that end only when the test lets them."""

    def __init__(self, server: Server) -> None:
        self.inside = 0
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()
        for tool in (self.wait, self.swallow, self.block, self.items):
            server.tool(tool)

    async def wait(self) -> str:
        self.inside += 1
        await self.gate.wait()
        return "ended"

    async def swallow(self) -> str:
        self.inside += 1
        while not self.gate.is_set():
            with suppress(asyncio.CancelledError):
                await self.gate.wait()
        return "ended"

    def block(self) -> str:
        self.inside += 1
        assert self.thread_gate.wait(30)
        return "ended"

    async def items(self) -> AsyncIterator[str]:
        self.inside += 1
        yield "ended"
        await self.gate.wait()

    def release(self) -> None:
        self.gate.set()
        self.thread_gate.set()


@limit("time of a call")
@pytest.mark.parametrize("tool", ["wait", "swallow", "block", "items"])
@pytest.mark.parametrize("seconds", MOMENTS)
async def test_call(seconds: int, tool: str, ask: Ask) -> None:
    server = Server("timed", timeout=BOUND)
    stubborn = Stubborn(server)
    async with ask(server, stream_after=1000 * BOUND, keep_alive=1000 * BOUND) as client:
        try:
            client.begin(tool)
            await until(lambda: stubborn.inside == 1)
            LoopClock().ahead = seconds
            await settle()
            if seconds > BOUND:
                (await begun(client)).refused(None, "timed out after 1000 s")
                await client.goes_on()
            stubborn.release()
            if seconds < BOUND:
                assert "ended" in (await begun(client)).text
            await until(lambda: server.engine.runtime.running.taken == 0)
            assert "ended" in (await client.call(tool)).text
        finally:
            stubborn.release()


async def begun(client: Asker) -> Told:
    """Return what is told to the call that was begun last."""
    if isinstance(client, WebAsker):
        return await told(client.client.opened[-1])
    assert isinstance(client, PipeAsker)
    return Told(None, await client.pipe.receive())


@limit("wait for the lifespan")
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize("seconds", MOMENTS)
async def test_lifespan(seconds: int, method: str, schema_dir: Path) -> None:
    gate = asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        await gate.wait()
        yield

    server = Server("slow", lifespan=lifespan, lifespan_wait=BOUND)
    server.tool(lambda: "there", name="tool")
    app = server.asgi(grace=0)
    client = Client(app, schema_dir)  # nobody has told the app that it begins, as when it is mounted
    judge = Judge(schema_dir, "2025-11-25")
    answers = [
        client.post(initialize(), judge=judge) if method == "initialize" else client.ask(method)
        for _ in range(50)
    ]
    await settle()
    clock = LoopClock()
    clock.ahead = seconds
    await settle()
    assert [answer.is_over for answer in answers] == [seconds > BOUND] * 50
    if seconds < BOUND:
        gate.set()
    for answer in answers:
        assert "result" in (await told(answer)).message
    late = client.call("tool")  # it may need the state, which may never be there
    await settle()
    assert late.is_over == gate.is_set()
    (service,) = app.door()._services.values()
    await service.aclose()
    await client.aclose()


@limit("client that does not read")
@pytest.mark.parametrize("seconds", MOMENTS)
async def test_reader(seconds: int, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_PATIENCE", BOUND)
    server = Server("patient")
    text = "x" * 5 * exchanges._PIECE
    gate = asyncio.Event()

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "x")
        await gate.wait()
        return text

    async with serve(server, keep_alive=1000 * BOUND) as client:
        answer = client.call("speak", meta={META + "logLevel": "info"})
        await answer.message()
        answer.stop_reading()
        gate.set()
        await settle()
        clock = LoopClock()
        while not answer.task.done():
            clock.ahead += seconds
            await settle()
            if seconds < BOUND:
                answer.read_on()
                answer.stop_reading()  # one piece was let through
            await settle()
        if seconds < BOUND:
            assert (await answer.message())["result"]["content"][0]["text"] == text
            assert clock.ahead > 4 * seconds, "each piece has its own time"
        else:
            client.opened.remove(answer)
        assert (await client.ask("tools/list").whole()).status == 200


@limit("time to finish at the end")
@pytest.mark.parametrize("tool", ["wait", "swallow", "block", "items"])
async def test_grace(tool: str, schema_dir: Path) -> None:
    server = Server("ending")
    stubborn = Stubborn(server)
    app = server.asgi(grace=BOUND, stream_after=1000 * BOUND)
    client = Client(app, schema_dir)
    calls = [client.call(tool) for _ in range(30)]
    await until(lambda: stubborn.inside == 30)
    (service,) = app.door()._services.values()
    ending = asyncio.ensure_future(service.aclose())
    await settle()
    clock = LoopClock()
    try:
        clock.ahead = 0.8 * BOUND - NEAR  # the rest is for what there is to say
        await settle()
        assert not any(call.is_over for call in calls)
        clock.ahead += 2 * NEAR
        await until(lambda: all(call.is_over for call in calls))
        assert {call.error()["message"] for call in calls} == {
            "The server has ended before the call was finished"
        }
        clock.ahead = 100 * BOUND
    finally:
        stubborn.release()
    await ending
    await client.aclose()
    await until(lambda: server.engine.runtime.running.taken == 0)
