"""A call that is over says nothing more: what its function logs then is dropped."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from mcpkit import LogHandler, Server
from mcpkit.testing import connect
from tests.helpers.log_records import CANCELLED, author_log, calling, heard
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    with author_log(LogHandler()) as log:
        yield log


@pytest.fixture
def server() -> Server:
    return Server("s", offers={"logging"})


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_that_was_cancelled_says_nothing_more(
    server: Server, log: logging.Logger, is_async: bool
) -> None:
    started, gate, over = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @server.tool
    async def in_loop() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.error("after the end")
            over.set()
        return ""

    @server.tool
    def in_thread() -> str:
        loop.call_soon_threadsafe(started.set)
        gate.wait(10)
        log.error("after the end")
        loop.call_soon_threadsafe(over.set)
        return ""

    async with calling(server, "in_loop" if is_async else "in_thread") as (connection, sent):
        await asyncio.wait_for(started.wait(), 10)
        connection.receive(CANCELLED)
        gate.set()
        await asyncio.wait_for(over.wait(), 10)
        await settle()
    assert sent == []


async def test_a_function_that_goes_on_after_its_time_says_nothing_more(
    server: Server, log: logging.Logger
) -> None:
    @server.tool(timeout=0.01)
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            log.error("out of time")
        return ""

    async with connect(server) as client:
        assert await heard(client, "work") == []
        await settle()
        assert client.notifications == []
