"""So many requests for each client, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Principal, ProtocolError, Server
from mcpkit.middleware import RateLimit
from mcpkit.testing import TestClient, connect
from tests.helpers.clock import Clock
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import serving

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mcpkit.middleware.buckets.monotonic", clock)
    return clock


def make(*args: Any, **options: Any) -> Server:
    server = Server("limited")
    server.middleware(RateLimit(*args, **options))

    @server.tool
    async def work() -> str:
        return "done"

    return server


async def allowed(client: TestClient, tries: int) -> int:
    """Count the calls that are taken."""
    taken = 0
    for _ in range(tries):
        try:
            await client.call_tool("work")
        except ProtocolError as error:
            assert "Rate limit exceeded" in str(error)  # noqa: PT017 - what else is raised fails, too
        else:
            taken += 1
    return taken


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_burst_passes_and_then_the_rate(revision: str, clock: Clock) -> None:
    async with connect(make(2, burst=5), protocol_version=revision) as client:
        assert await allowed(client, 8) == 5
        clock.now += 1
        assert await allowed(client, 8) == 2
        clock.now += 3600
        assert await allowed(client, 8) == 5


async def test_rate_limit_error_has_the_rate_and_retry_after(clock: Clock) -> None:
    async with connect(make(0.1, burst=1)) as client:
        await client.call_tool("work")
        clock.now += 2.5
        with pytest.raises(ProtocolError) as refused:
            await client.call_tool("work")
    assert refused.value.code == -32603
    assert refused.value.message == "Rate limit exceeded (one every 10 seconds). Try again in 8 seconds"
    assert refused.value.data == {"retryAfterSeconds": 8}


async def test_rate_limit_counts_sessions_separately(clock: Clock) -> None:
    server = make(1, burst=2)
    async with (
        connect(server, protocol_version="2025-11-25") as one,
        connect(server, protocol_version="2025-11-25") as two,
    ):
        assert await allowed(one, 3) == 2
        assert await allowed(two, 3) == 2


async def test_rate_limit_counts_stateless_http_clients_by_address(clock: Clock, schema_dir: Path) -> None:
    async def statuses(client: Any, host: str) -> list[int]:
        peer = {"client": (host, 50000)}
        params = {"name": "work", "arguments": {}, "_meta": stateless_meta()}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
        return [(await client.post(message, headers, **peer).whole()).status for _ in range(3)]

    async with serving(make(1, burst=2), schema_dir) as client:
        for host in ("203.0.113.7", "203.0.113.8", "127.0.0.1"):
            assert await statuses(client, host) == [200, 200, 503]
        assert await statuses(client, "127.0.0.2") == [503, 503, 503]  # of this machine, as 127.0.0.1 is


async def test_the_buckets_have_an_end(clock: Clock) -> None:
    names = iter(range(100))
    limit = RateLimit(1, key=lambda ctx: next(names), max_clients=10)
    server = Server("crowded")
    server.middleware(limit)

    @server.tool
    async def work() -> str:
        return "done"

    async with connect(server) as client:
        assert await allowed(client, 100) == 100
    assert len(limit._here) == 10


async def test_over_http_the_refusal_has_the_status_and_the_header_for_it(
    schema_dir: Any, clock: Clock
) -> None:
    server = make(0.5, burst=1, key=lambda ctx: ctx.headers["x-user"])
    async with serving(server, schema_dir) as client:
        for user, status in [("ada", 200), ("ada", 503), ("bob", 200)]:
            answer = client.call_tool("work", headers={"x-user": user})
            assert (await answer.whole()).status == status
            assert answer.headers.get("retry-after") == ("2" if status == 503 else None)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0,), {}, "rate must be a finite number of requests per second above 0, got 0"),
        ((1,), {"burst": 0}, "burst must be at least 1, got 0"),
        (
            (1,),
            {"methods": ["tools/cal"]},
            "'tools/cal' is not a method that can be limited. Supported are initialize",
        ),
        (
            (1,),
            {"methods": ["subscriptions/listen"]},
            "methods: 'subscriptions/listen' is not a method that can be limited",
        ),
    ],
)
def test_rate_limit_wrong_option_is_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RateLimit(*arguments, **options)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_principal_has_a_bucket(revision: str, clock: Clock) -> None:
    server = make(1, burst=2)
    for name in ("ada", "bob"):
        for count in (2, 0):  # a second connection of the same principal finds the bucket empty
            async with connect(server, protocol_version=revision, principal=Principal(name)) as client:
                assert await allowed(client, 3) == count
