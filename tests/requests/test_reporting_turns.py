"""A function that reports lets others have their turn, however seldom its reports are sent, and can be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.testing import connect
from tests.helpers.waiting import LoopClock

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
ITEMS = 100


class Turns:
    """Counts the turns of the running event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self) -> None:
        self.count += 1
        self._handle = self._loop.call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()


async def items() -> AsyncIterator[int]:
    for number in range(ITEMS):
        yield number


async def reported(ctx: Context, way: str) -> AsyncIterator[None]:
    """Report so many items in some way."""
    if way == "progress":
        for number in range(ITEMS):
            yield
            await ctx.progress(number, ITEMS)
    else:
        tracked: Any = items() if way == "track an async generator" else range(ITEMS)
        async for _ in ctx.track(tracked):
            yield


WAYS = pytest.mark.parametrize("way", ["progress", "track", "track an async generator"])


@ERAS
@WAYS
@pytest.mark.parametrize("is_asked", [True, False])
async def test_others_run_every_ten_milliseconds_of_work(way: str, is_asked: bool, revision: str) -> None:
    server, clock, seen = Server("s"), LoopClock(), []

    @server.tool
    async def work(ctx: Context) -> None:
        turns = Turns()
        async for _ in reported(ctx, way):
            seen.append(turns.count)
            clock.ahead += 0.006
        turns.stop()

    async with connect(server, revision=revision) as client:
        await client.call("work", progress=(lambda *report: None) if is_asked else None)
    assert len(seen) == ITEMS
    assert all(later > now for now, later in zip(seen, seen[3:], strict=False))
