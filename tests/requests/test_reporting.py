"""Going through items, and reporting how many are done (how often that is told is in wire/test_progress)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.testing import connect
from tests.helpers.waiting import LoopClock

pytestmark = pytest.mark.anyio

Reports = list[tuple[float, float | None, str | None]]


@pytest.fixture
def server() -> Server:
    return Server("s")


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        (lambda: ["a", "b"], {}, [(0, 2, "Indexing"), (1, 2, "Indexing"), (2, 2, "Indexing")]),
        (lambda: {"a": 1}, {}, [(0, 1, "Indexing"), (1, 1, "Indexing")]),
        (lambda: iter(["a"]), {}, [(0, None, "Indexing"), (1, None, "Indexing")]),
        (lambda: iter(["a"]), {"total": 1}, [(0, 1, "Indexing"), (1, 1, "Indexing")]),
        (lambda: ["a"], {"total": 4}, [(0, 4, "Indexing"), (1, 4, "Indexing")]),
        (list, {}, [(0, 0, "Indexing")]),
    ],
    ids=["list", "dict", "iterator", "iterator with a total", "list with another total", "nothing"],
)
async def test_track_reports_the_number_of_items_done(
    server: Server, items: Callable[[], Any], options: dict[str, Any], message: Reports
) -> None:
    @server.tool
    async def in_loop(ctx: Context) -> list[str]:
        return [item async for item in ctx.track(items(), "Indexing", **options)]

    @server.tool
    def in_thread(ctx: Context) -> list[str]:
        return list(ctx.sync.track(items(), "Indexing", **options))

    async with connect(server) as client:
        for name in ("in_loop", "in_thread"):
            seen: Reports = []
            result = await client.call_tool(name, progress=lambda *report: seen.append(report))
            assert result.structured_content == list(items())
            assert seen == message


async def test_track_of_a_value_that_is_not_iterable_is_refused(server: Server) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        with pytest.raises(TypeError, match="not iterable"):
            ctx.track(5)  # type: ignore[arg-type]  # the mistake
        return "refused"

    async with connect(server) as client:
        assert (await client.call_tool("work")).text == "refused"


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
            await ctx.report_progress(number, ITEMS)
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

    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("work", progress=(lambda *report: None) if is_asked else None)
    assert len(seen) == ITEMS
    assert all(later > now for now, later in zip(seen, seen[3:], strict=False))
