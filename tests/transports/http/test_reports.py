"""What handlers report over HTTP: progress and log records, on the stream of the call, in both eras."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mcpkit import Context, LogHandler, Server
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.pipe import HANDSHAKE, META, settle

pytestmark = pytest.mark.anyio

SESSIONS = [revision for revision in HANDSHAKE if revision != "2024-11-05"]
STATELESS = "2026-07-28"


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.getLogger("archive")
    log.setLevel(logging.DEBUG)
    log.addHandler(handler := LogHandler())
    yield log
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


@pytest.fixture
def server(log: logging.Logger) -> Server:
    server = Server("s")

    @server.tool
    async def index(ctx: Context) -> str:
        async for page in ctx.track(range(3), "Indexing"):
            await asyncio.sleep(0)
            log.debug("page %d", page)
        return "indexed"

    @server.tool
    def index_in_thread(ctx: Context) -> str:
        for page in ctx.sync.track(range(3), "Indexing"):
            log.debug("page %d", page)
        return "indexed"

    @server.tool
    async def hurry(ctx: Context) -> str:
        for done in range(1000):
            await ctx.progress(done)
        return "done"

    return server


def reports(messages: list[dict[str, Any]]) -> list[Any]:
    """Return what was told: the numbers, the texts, and `answer` for the response."""
    return [
        each["params"].get("progress", each["params"].get("data")) if "method" in each else "answer"
        for each in messages
    ]


async def call(client: Client, revision: str, name: str, level: str | None) -> list[dict[str, Any]]:
    """Call a tool, with a progress token and a log level, and return all that comes."""
    if revision == STATELESS:
        meta = {"progressToken": "p"} | ({} if level is None else {META + "logLevel": level})
        return await client.call(name, meta=meta).messages()
    session = await client.initialize(revision)
    if level is not None:
        await session.ask("logging/setLevel", {"level": level}).response()
    return await session.call(name).messages()


@pytest.mark.parametrize("revision", [*SESSIONS, STATELESS])
@pytest.mark.parametrize("name", ["index", "index_in_thread"])
async def test_reports_come_in_order_before_the_response(
    server: Server, serve: Serve, revision: str, name: str
) -> None:
    async with serve(server) as client:
        messages = await call(client, revision, name, "debug")
        assert reports(messages) == [0, "page 0", 1, "page 1", 2, "page 2", 3, "answer"]


@pytest.mark.parametrize("revision", [*SESSIONS, STATELESS])
async def test_records_below_the_level_asked_for_are_not_sent(
    server: Server, serve: Serve, revision: str
) -> None:
    async with serve(server) as client:
        assert reports(await call(client, revision, "index", "info")) == [0, 1, 2, 3, "answer"]
        assert reports(await call(client, revision, "index", None)) == [0, 1, 2, 3, "answer"]


@pytest.mark.parametrize("revision", [SESSIONS[-1], STATELESS])
async def test_the_latest_of_what_comes_too_fast_goes_before_the_response(
    server: Server, serve: Serve, revision: str
) -> None:
    async with serve(server) as client:
        told = reports(await call(client, revision, "hurry", None))
        assert told[-2:] == [999, "answer"]
        assert told[:-1] == sorted(told[:-1])
        assert len(told) < 500, "most of a thousand in a moment are held back"


async def test_a_record_of_a_call_whose_client_has_gone_is_dropped(
    server: Server, serve: Serve, log: logging.Logger
) -> None:
    started, gate, over = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @server.tool
    def work() -> str:
        loop.call_soon_threadsafe(started.set)
        gate.wait(10)
        log.error("to nobody")
        loop.call_soon_threadsafe(over.set)
        return ""

    async with serve(server) as client:
        answer = client.call("work", meta={META + "logLevel": "debug"})
        await asyncio.wait_for(started.wait(), 10)
        answer.disconnect()
        await answer.whole()
        gate.set()
        await asyncio.wait_for(over.wait(), 10)
        await settle()
        assert answer.waiting() == []
