"""Going through items, and reporting how many are done (how often that is told is in wire/test_progress)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

Reports = list[tuple[float, float | None, str | None]]


@pytest.fixture
def server() -> Server:
    return Server("s")


@pytest.mark.parametrize(
    ("items", "options", "told"),
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
async def test_tracking_tells_how_many_items_are_done(
    server: Server, items: Callable[[], Any], options: dict[str, Any], told: Reports
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
            result = await client.call(name, progress=lambda *report: seen.append(report))
            assert result.structured == list(items())
            assert seen == told


async def test_an_item_is_done_when_the_next_one_is_asked_for(server: Server) -> None:
    order: list[Any] = []

    def items() -> Iterator[int]:
        for item in (1, 2):
            order.append(f"make {item}")
            yield item

    @server.tool
    async def work(ctx: Context) -> None:
        async for item in ctx.track(items()):
            order.append(f"use {item}")

    async with connect(server) as client:
        await client.call("work", progress=lambda done, *_: order.append(done))
    assert order == [0, "make 1", "use 1", 1, "make 2", "use 2", 2]


async def test_what_cannot_be_gone_through_is_refused(server: Server) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        with pytest.raises(TypeError, match="not iterable"):
            ctx.track(5)  # type: ignore[arg-type]  # the mistake
        return "refused"

    async with connect(server) as client:
        assert (await client.call("work")).text == "refused"
