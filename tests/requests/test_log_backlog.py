"""Log records that a client does not read cost a bounded amount, and no time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from mcpkit import LogHandler, Server
from mcpkit.calls import reports as reporting
from tests.helpers.log_records import author_log, calling
from tests.helpers.pipe import settle
from tests.helpers.waiting import kept_busy

pytestmark = pytest.mark.anyio

LINE = "x" * 1000
COUNT = 2 * reporting.MOST_WAITING // len(LINE)
"""How many of them are more than what may wait."""


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    with author_log(LogHandler()) as log:
        yield log


@pytest.fixture
def server() -> Server:
    return Server("s", offers={"logging"})


async def test_a_client_that_does_not_read_costs_a_bounded_amount_and_no_time(
    server: Server, log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    room, gate = asyncio.Event(), asyncio.Event()

    @server.tool
    async def speak() -> str:
        for _ in range(COUNT):
            log.info(LINE)
        await gate.wait()
        return ""

    async with calling(server, "speak", ready=room.wait) as (connection, sent):
        await settle()
        assert sum(map(len, sent)) < reporting.MOST_UNREAD + 2 * len(LINE)
        room.set()
        for _ in range(20):
            await settle()
        assert reporting.MOST_WAITING < sum(map(len, sent)) < reporting.MOST_WAITING * 1.2
        gate.set()
        await connection.drain()
    (warning,) = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert int(warning.split()[0]) == COUNT - (len(sent) - 1)


async def test_a_thread_that_logs_while_the_event_loop_is_busy_costs_a_bounded_amount(
    server: Server, log: logging.Logger
) -> None:
    loop = asyncio.get_running_loop()

    @server.tool
    def speak() -> str:
        with kept_busy(loop):
            for _ in range(COUNT):
                log.info(LINE)
        return ""

    async with calling(server, "speak") as (connection, sent):
        await connection.drain()
    assert reporting.MOST_WAITING < sum(map(len, sent)) < reporting.MOST_WAITING * 1.2
    assert b'"result"' in sent[-1]
