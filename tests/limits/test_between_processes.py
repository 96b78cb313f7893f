"""Bounds of what processes that share a broker tell each other."""

from __future__ import annotations

import asyncio

import pytest

from limits.ways import around, limit
from mcpkit import MemoryBroker, Server
from mcpkit.updates.fan_out import MOST_ASKED, MOST_WAITING, Publisher
from wire.pipe import settle

pytestmark = pytest.mark.anyio


class Silent(MemoryBroker):
    """A broker that does not answer."""

    async def publish(self, topic: str, message: str) -> None:
        await asyncio.Event().wait()


@limit("changes that wait for the broker")
@pytest.mark.parametrize("count", [MOST_WAITING - 1, MOST_WAITING, MOST_WAITING + 1, 3 * MOST_WAITING])
async def test_what_waits_for_a_broker_that_does_not_answer_is_bounded(count: int) -> None:
    server = Server("s")
    publisher = Publisher(server, Silent())
    server.resource_updated("data://first")
    await settle()
    for number in range(count):
        server.resource_updated(f"data://{number}")
    server.tool(lambda: "", name="new")  # for a list there is always room
    assert len(publisher._waiting) == min(count, MOST_WAITING) + 1
    publisher.close()
    assert server._watchers == []


@limit("updates for some users that other processes are asked about")
@pytest.mark.parametrize("count", around(MOST_ASKED)[:-1])
async def test_who_is_meant_is_asked_about_so_many_updates(count: int) -> None:
    server = Server("s")
    publisher = Publisher(server, MemoryBroker())
    for _ in range(count):
        server.resource_updated("data://x", to=lambda who: False)
        await settle()
    assert len(publisher._asked) == min(count, MOST_ASKED)
    assert max(publisher._asked) == count, "the oldest go"
    publisher.close()
