"""Bounds of what processes that share a broker tell each other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from limits.ways import around, limit
from listening import hearing
from mcpkit import Memory, Server
from mcpkit.engine.subscriptions.relay import MOST_ASKED, MOST_WAITING, Publisher
from pipe import settle
from waiting import until

pytestmark = pytest.mark.anyio


class Gated(Memory):
    """A broker that does not answer until its gate is open.

    Attributes:
        published: What has been published, by topic.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.published: list[dict[str, Any]] = []

    async def publish(self, topic: str, message: str) -> None:
        await self.gate.wait()
        self.published.append(json.loads(message))
        await super().publish(topic, message)


@limit("changes that wait for the shared store")
@pytest.mark.parametrize("count", [MOST_WAITING - 1, MOST_WAITING, MOST_WAITING + 1, 3 * MOST_WAITING])
async def test_what_waits_for_a_broker_that_does_not_answer_is_bounded(count: int) -> None:
    server, broker = Server("s"), Gated()
    publisher = Publisher(server.listeners, broker, "s/changes", "here")
    server.resource_updated("data://first")
    await settle()
    for number in range(count):
        server.resource_updated(f"data://{number}")
    server.tool(lambda: "", name="new")  # for a list there is always room
    broker.gate.set()
    await until(lambda: broker.published[-1:] == [{"origin": "here", "what": "tools", "uri": None}])
    assert len(broker.published) == 1 + min(count, MOST_WAITING) + 1
    publisher.close()
    assert hearing(server) == 0


@limit("updates for some users that other processes are asked about")
@pytest.mark.parametrize("count", around(MOST_ASKED)[:-1])
async def test_who_is_meant_is_asked_about_so_many_updates(count: int) -> None:
    server, broker = Server("s"), Gated()
    broker.gate.set()
    publisher = Publisher(server.listeners, broker, "s/changes", "here")
    for number in range(count):
        server.resource_updated(f"data://{number}", to=lambda who: True)
    await until(lambda: len(broker.published) == count)
    asked, broker.published = broker.published, []
    for question in asked:
        answer = {"number": question["number"], "principals": [["ada", []]]}
        await broker.publish("s/changes/here", json.dumps(answer))
    await settle()
    told = [message["uri"] for message in broker.published if "to" in message]
    assert told == [question["uri"] for question in asked][-MOST_ASKED:], "the oldest go"
    publisher.close()
