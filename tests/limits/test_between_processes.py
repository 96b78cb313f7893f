"""Bounds of what processes that share a broker tell each other."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Memory, Redis, Server, Sqlite
from mcpkit.engine.subscriptions.relay import MOST_ASKED, MOST_WAITING, Publisher
from mcpkit.state.bulletin import _MOST_MESSAGES
from mcpkit.state.redis_log import LONG, MOST_MESSAGES
from tests.helpers.clock import Clock
from tests.helpers.listening import hearing
from tests.helpers.pipe import settle
from tests.helpers.raw_client import Serve, initialize
from tests.helpers.redis_server import RedisServer
from tests.helpers.waiting import until
from tests.limits.ways import around, limit

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


@pytest.mark.slow
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


@pytest.mark.slow
@limit("messages in a `Sqlite` that processes have not fetched yet")
@pytest.mark.parametrize("end", ["number", "age"])
async def test_messages_that_nobody_has_fetched_are_forgotten(end: str, tmp_path: Path) -> None:
    clock = Clock()
    with closing(Sqlite(tmp_path / "shared.db", clock=clock)) as shared:
        if end == "age":
            for age in (30, 29.9, 0):
                clock.now = 1000 - age
                await shared.publish("t", str(age))
            with closing(Sqlite(tmp_path / "shared.db", clock=clock)) as other:  # which looks when it begins
                await other.publish("t", "last")
                await other.erase("nothing")
            assert kept(tmp_path) == ["29.9", "0", "last"]
        else:
            for number in range(_MOST_MESSAGES + 2500):
                await shared.publish("t", str(number))
                if number % 500 == 0:
                    assert len(kept(tmp_path)) <= 1.1 * _MOST_MESSAGES
            assert kept(tmp_path)[-_MOST_MESSAGES:] == [str(2500 + each) for each in range(_MOST_MESSAGES)]


def kept(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "shared.db")) as connection:
        return [message for (message,) in connection.execute("SELECT message FROM messages ORDER BY id")]


@limit("wait for a `Sqlite` that another process has locked")
async def test_a_file_that_is_locked_is_waited_for(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.state.database.PATIENCE", 0.1)
    with (
        closing(Sqlite(tmp_path / "shared.db")) as shared,
        closing(sqlite3.connect(tmp_path / "shared.db", isolation_level=None)) as other,
    ):
        await shared.erase("nothing")
        async with serve(Server("s", shared=shared, secret="s" * 32)) as client:
            other.execute("BEGIN EXCLUSIVE")
            assert (await client.post(initialize()).whole()).status == 503
            other.execute("ROLLBACK")
            await client.initialize()


@pytest.mark.slow
@limit("messages in a `Redis` that processes have not read yet")
async def test_what_waits_in_a_redis_is_bounded(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, closing(Redis(server.url, prefix="own:")) as shared:
        await shared.publish("t", "a" * LONG)
        assert server.ask("KEYS", "own:m:*") == []
        await shared.publish("t", "a" * (LONG + 1))
        (beside,) = server.ask("KEYS", "own:m:*")
        assert 0 < server.ask("PTTL", beside) <= 30_000
        for _ in range(4):
            await asyncio.gather(*(shared.publish("t", "m") for _ in range(MOST_MESSAGES // 3)))
        assert MOST_MESSAGES <= server.ask("XLEN", "own:log") < MOST_MESSAGES + 200


@limit("wait for a `Redis` that does not answer")
async def test_a_redis_that_does_not_answer_is_waited_for(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.state.redis_link.PATIENCE", 0.1)
    with RedisServer(tmp_path / "redis") as redis, closing(Redis(redis.url)) as shared:
        await until_it_answers(shared)
        async with serve(Server("s", shared=shared, secret="s" * 32)) as client:
            redis.pause()
            try:
                assert (await client.post(initialize()).whole()).status == 503
            finally:
                redis.resume()
            await until_it_answers(shared)
            await client.initialize()


async def until_it_answers(shared: Redis) -> None:
    for _ in range(100):
        with suppress(OSError):
            await shared.erase("nothing")
            return
    pytest.fail("it does not answer")


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
        answer = {"number": question["number"], "principals": [["ada", [], None, None, None]]}
        await broker.publish("s/changes/here", json.dumps(answer))
    await settle()
    told = [message["uri"] for message in broker.published if "to" in message]
    assert told == [question["uri"] for question in asked][-MOST_ASKED:], "the oldest go"
    publisher.close()
