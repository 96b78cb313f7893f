"""Timing tells how long a request took."""

from __future__ import annotations

import asyncio

import pytest

from mcpkit import ProtocolError, Server
from mcpkit.middlewares import Timed, Timing
from mcpkit.testing import connect
from tests.helpers.waiting import over

pytestmark = pytest.mark.anyio


async def test_each_request_is_reported_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return now

    monkeypatch.setattr("mcpkit.middlewares.timing.time", Clock)
    reported: list[Timed] = []
    server = Server("timed")
    server.middleware(Timing(reported.append))

    @server.tool
    async def work() -> str:
        nonlocal now
        now += 2.5
        await asyncio.sleep(0)
        return "done"

    @server.prompt
    async def fail() -> str:
        nonlocal now
        now += 1.5
        raise KeyError

    async with connect(server) as client:
        await client.call("work")
        with pytest.raises(ProtocolError):
            await client.get_prompt("fail")
    assert [(timed.request.method, timed.seconds, timed.outcome, timed.code) for timed in reported] == [
        ("server/discover", 0, "ok", None),
        ("tools/call", 2.5, "ok", None),
        ("prompts/get", 1.5, "error", -32603),
    ]
    assert isinstance(reported[2].error, KeyError)


async def test_what_a_cancelled_request_raises_is_no_error_of_its() -> None:
    reported: list[Timed] = []
    server = Server("timed")
    server.middleware(Timing(reported.append))
    begun = asyncio.Event()

    @server.prompt
    async def wait() -> str:
        begun.set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            raise KeyError

    async with connect(server) as client:
        asking = asyncio.ensure_future(client.get_prompt("wait"))
        await begun.wait()
        await over(asking)
        await client.list_prompts()
    assert [timed.outcome for timed in reported[1:]] == ["cancelled", "ok"]
