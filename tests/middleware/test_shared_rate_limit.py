"""So many requests for each client at all replicas together, while they have an engine, and at each alone while not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Principal, ProtocolError, Server
from mcpkit.middleware import RateLimit
from mcpkit.storage import Memory, Redis
from mcpkit.testing import connect
from tests.helpers.clock import Clock
from tests.helpers.engines import ENGINES, Engine
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import Client
from tests.helpers.redis_server import RedisServer, common_server
from tests.helpers.replicated import REPLICAS, engines, replicas
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "a secret of some length"
SLOW = 0.001


def make(shared: Any, *limits: RateLimit) -> Server:
    """Make one replica; where no limits are given, it has one that passes four."""
    server = Server("limited", secret_key=SECRET, storage=shared)
    for limit in limits or (RateLimit(SLOW, burst=4),):
        server.middleware(limit)

    @server.tool
    async def work() -> str:
        return "done"

    return server


@pytest.fixture(params=ENGINES)
def shares(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Engine]]:
    """One engine, as each replica has it."""
    with engines(request.param, tmp_path) as made:
        yield made


async def status(client: Client, host: str = "203.0.113.7", **headers: str) -> int | None:
    """Call the tool once, from an address."""
    params = {"name": "work", "arguments": {}, "_meta": stateless_meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    standard = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
    return (await client.post(message, {**standard, **headers}, client=(host, 50000)).whole()).status


async def test_rate_limit_is_shared_by_replicas_per_client(shares: list[Any], schema_dir: Path) -> None:
    async with replicas([make(each) for each in shares], schema_dir) as clients:
        for host in ("203.0.113.7", "203.0.113.8", "127.0.0.1"):
            found = [await status(clients[turn % REPLICAS], host) for turn in range(9)]
            assert found == [200] * 4 + [503] * 5


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_principal_is_one_client_on_all_connections(shares: list[Any], revision: str) -> None:
    taken = []
    for each in shares:
        async with connect(make(each), protocol_version=revision, principal=Principal("ada")) as client:
            taken.append(await allowed(client, 3))
    assert taken == [3, 1, 0]


async def allowed(client: Any, tries: int) -> int:
    taken = 0
    for _ in range(tries):
        try:
            await client.call_tool("work")
        except ProtocolError as error:
            assert "Rate limit exceeded" in str(error)  # noqa: PT017 - what else is raised fails, too
        else:
            taken += 1
    return taken


async def test_rate_limit_keys_do_not_contain_principal_names(
    shares: list[Any], schema_dir: Path, tmp_path: Path
) -> None:
    async with connect(make(shares[0]), principal=Principal("ada.lovelace")) as client:
        await client.call_tool("work")
    if isinstance(shares[0], Memory):
        kept = " ".join(shares[0]._buckets.beginning(""))
    elif isinstance(shares[0], Redis):
        start = f"{shares[0]._prefix.decode()}b:"
        kept = " ".join(
            each.decode().removeprefix(start) for each in common_server().ask("KEYS", f"{start}*")
        )
    else:
        rows = shares[0]._database.glance("SELECT key FROM claims")
        kept = " ".join(str(key) for (key,) in rows)
    assert kept.startswith("limited/limit/")
    assert "ada" not in kept


# The engine away


class Weak(Memory):
    """An engine that goes away.

    Attributes:
        mode: `up`, `down` or `hanging`.
        asked: How many times it has been asked to take something.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mode = "up"
        self.asked = 0

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        self.asked += 1
        if self.mode == "down":
            raise ConnectionError("the engine is down: a reason")
        if self.mode == "hanging":
            await asyncio.Event().wait()
        return await super().take_tokens(key, every=every, burst=burst, cost=cost)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mcpkit.middleware.buckets.monotonic", clock)
    monkeypatch.setattr("mcpkit.middleware.shared_buckets.monotonic", clock)
    return clock


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.limit("wait of a `RateLimit` for the shared store")
@pytest.mark.parametrize("mode", ["down", "hanging"])
async def test_rate_limit_without_its_engine_counts_locally_until_it_returns(
    mode: str, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.middleware.shared_buckets._TIMEOUT", 0.02)
    engine = Weak()
    async with connect(make(engine), principal=Principal("ada")) as client:
        assert await allowed(client, 2) == 2
        engine.mode = mode
        assert await allowed(client, 9) == 4  # a bucket of its own, which is full
        assert engine.asked == 3, "it is not asked for each of them"
        clock.now += 1
        assert await allowed(client, 1) == 0  # nobody waits for the look whether it is up
        await until(lambda: engine.asked == 4)
        engine.mode = "up"
        clock.now += 1
        assert await allowed(client, 1) == 0
        await until(lambda: len(warnings(caplog)) == 2)
        assert await allowed(client, 9) == 1  # of four: two before, and one while it was looked
        engine.mode = "down"
        assert await allowed(client, 9) == 0, "its own bucket is no other one each time"
    first, second, _ = warnings(caplog)
    assert first.startswith("the shared store does not answer (")
    assert second.startswith("the shared store answers again")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_limited_call_is_one_round_trip(tmp_path: Path, revision: str) -> None:
    with RedisServer(tmp_path) as redis, closing(Redis(redis.url)) as shared:
        server = make(shared, RateLimit(SLOW, burst=10))
        async with connect(server, protocol_version=revision, principal=Principal("ada")) as client:
            await allowed(client, 1)
            before = redis.calls()
            assert await allowed(client, 20) == 9
            after = redis.calls()
    changed = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name)}
    assert changed.pop("evalsha") == 20
    assert changed.keys() <= {"time", "get", "set", "info"}, (
        "within the script, but for `info`, which the test asks"
    )


@pytest.mark.parametrize("key", [object(), ("acme", frozenset({"a"})), Principal("ada")])
async def test_client_unknown_to_other_processes_is_counted_by_each_with_one_warning(
    shares: list[Any], key: Hashable, caplog: pytest.LogCaptureFixture
) -> None:
    for each in shares:
        limit = RateLimit(SLOW, burst=4, key=lambda ctx: key)
        async with connect(make(each, limit)) as client:
            assert await allowed(client, 6) == 4
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == REPLICAS
    assert all("Return a string, a number or a tuple of these" in each for each in said)
