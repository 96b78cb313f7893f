"""Timing tells how long a request took."""

from __future__ import annotations

import asyncio

import pytest

from mcpkit import ProtocolError, Server
from mcpkit.middlewares import Timed, Timing
from mcpkit.testing import connect

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
