"""Rates that a real Redis counts: what a call costs it, and what happens when it is killed or paused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Principal, ProtocolError, Redis, Server
from mcpkit.middlewares import RateLimit
from mcpkit.testing import Client, connect
from tests.helpers.redis_server import RedisServer
from tests.helpers.waiting import PATIENCE

pytestmark = pytest.mark.anyio

SLOW = 0.001


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


def make(shared: Redis, limit: RateLimit) -> Server:
    server = Server("limited", secret="a secret of some length", shared=shared)
    server.middleware(limit)

    @server.tool
    async def work() -> str:
        return "done"

    return server


async def allowed(client: Client, tries: int) -> int:
    taken = 0
    for _ in range(tries):
        try:
            await client.call("work")
        except ProtocolError as error:
            assert "Rate limit exceeded" in str(error)  # noqa: PT017 - what else is raised fails, too
        else:
            taken += 1
    return taken


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_limited_call_is_one_round_trip(redis: RedisServer, revision: str) -> None:
    with closing(Redis(redis.url)) as shared:
        server = make(shared, RateLimit(SLOW, burst=10))
        async with connect(server, revision=revision, principal=Principal("ada")) as client:
            await allowed(client, 1)
            before = redis.calls()
            assert await allowed(client, 20) == 9
            after = redis.calls()
    changed = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name)}
    assert changed.pop("evalsha") == 20
    assert changed.keys() <= {"time", "get", "set", "info"}, (
        "within the script, but for `info`, which the test asks"
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", ["killed", "paused"])
async def test_it_goes_on_while_redis_is_away_and_counts_together_again(
    redis: RedisServer, way: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.middlewares.shared_buckets._AGAIN", 0.05)
    with closing(Redis(redis.url)) as shared:
        async with connect(make(shared, RateLimit(SLOW, burst=20)), principal=Principal("ada")) as client:
            assert await allowed(client, 12) == 12
            if way == "killed":
                redis.kill()
            else:
                redis.pause()
            assert await allowed(client, 30) == 20  # its own bucket
            if way == "killed":
                redis.start()
            else:
                redis.resume()
            deadline = asyncio.get_running_loop().time() + PATIENCE
            taken = 0
            while len(said(caplog)) < 2:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.01)
                taken += await allowed(client, 1)
            taken += await allowed(client, 20)
            assert taken <= 8, "what was taken before is not forgotten"
            assert await allowed(client, 1) == 0
    away, back, *_ = said(caplog)
    assert away.startswith("the shared store does not answer (")
    assert back.startswith("the shared store answers again")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [each for each in caplog.records if each.levelno >= logging.WARNING]
    return [text for each in records if "limits are" in (text := each.getMessage()) or " of a client" in text]
