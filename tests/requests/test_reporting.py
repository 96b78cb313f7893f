"""Going through items, and reporting how many are done (how often that is told is in wire/test_progress)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from mcpkit import Context, Server, ToolError
from mcpkit.testing import connect
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio

Reports = list[tuple[float, float | None, str | None]]


@pytest.fixture
def server() -> Server:
    return Server("s")


async def pages(count: int) -> AsyncIterator[int]:
    for number in range(count):
        await asyncio.sleep(0)
        yield number


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


async def test_one_loop_after_another_goes_on_from_what_was_reported_before(server: Server) -> None:
    @server.tool
    async def in_loop(ctx: Context) -> None:
        first, second = ctx.track("ab"), ctx.track("cde", "again")
        async for _ in first:
            pass
        async for letter in second:
            if letter == "d":
                break
        await ctx.progress(3.5)
        async for _ in ctx.track(iter("f")):
            pass

    @server.tool
    def in_thread(ctx: Context) -> None:
        list(ctx.sync.track("ab"))
        for letter in ctx.sync.track("cde", "again"):
            if letter == "d":
                break
        ctx.sync.progress(3.5)
        list(ctx.sync.track(iter("f")))

    async with connect(server) as client:
        for name in ("in_loop", "in_thread"):
            seen: Reports = []
            assert not (await client.call(name, progress=lambda *report: seen.append(report))).is_error
            assert seen == [
                (0, 2, None),
                (1, 2, None),
                (2, 2, None),
                (3, 5, "again"),
                (3.5, None, None),
                (4.5, None, None),
            ]
            assert not (await client.call(name)).is_error  # for nobody who hears of it


async def test_tracking_takes_what_comes_by_and_by(server: Server) -> None:
    seen: Reports = []

    @server.tool
    async def read(ctx: Context) -> int:
        return sum([page async for page in ctx.track(pages(3), total=3)])

    async with connect(server) as client:
        result = await client.call("read", progress=lambda *report: seen.append(report))
        assert result.structured == 3
    assert seen == [(done, 3, None) for done in range(4)]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_loop_may_be_left_early(server: Server, kind: str) -> None:
    seen: Reports = []

    @server.tool
    async def find(ctx: Context) -> int:
        items = range(9) if kind == "sync" else pages(9)
        async for item in ctx.track(items, "Looking"):
            if item == 2:
                return item
        raise ToolError("not found")

    async with connect(server) as client:
        before = asyncio.all_tasks()
        result = await client.call("find", progress=lambda *report: seen.append(report))
        assert result.structured == 2
        await settle()
        assert asyncio.all_tasks() <= before
    assert [done for done, *_ in seen] == [0, 1, 2]


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
