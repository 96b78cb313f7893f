"""So many requests for each client, and no more."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Principal, ProtocolError, Server
from mcpkit.middlewares import RateLimit
from mcpkit.testing import Client, connect
from tests.helpers.clock import Clock
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import serving

pytestmark = pytest.mark.anyio

EVERY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mcpkit.middlewares.buckets.monotonic", clock)
    return clock


def make(*args: Any, **options: Any) -> Server:
    server = Server("limited")
    server.middleware(RateLimit(*args, **options))

    @server.tool
    async def work() -> str:
        return "done"

    return server


async def allowed(client: Client, tries: int) -> int:
    """Count the calls that are taken."""
    taken = 0
    for _ in range(tries):
        try:
            await client.call("work")
        except ProtocolError as error:
            assert "Rate limit exceeded" in str(error)  # noqa: PT017 - what else is raised fails, too
        else:
            taken += 1
    return taken


@pytest.mark.parametrize("revision", EVERY)
async def test_a_burst_passes_and_then_the_rate(revision: str, clock: Clock) -> None:
    async with connect(make(2, burst=5), revision=revision) as client:
        assert await allowed(client, 8) == 5
        clock.now += 1
        assert await allowed(client, 8) == 2
        clock.now += 3600
        assert await allowed(client, 8) == 5


@pytest.mark.parametrize("rate", [0.1, 0.3, 1 / 3, 7, 1000])
async def test_a_client_that_keeps_to_the_rate_is_never_refused(rate: float, clock: Clock) -> None:
    async with connect(make(rate, burst=1)) as client:
        for _ in range(100):
            assert await allowed(client, 1) == 1
            clock.now += 1 / rate


async def test_the_refusal_says_how_often_and_when_to_try_again(clock: Clock) -> None:
    async with connect(make(0.1, burst=1)) as client:
        await client.call("work")
        clock.now += 2.5
        with pytest.raises(ProtocolError) as refused:
            await client.call("work")
    assert refused.value.code == -32603
    assert refused.value.message == "Rate limit exceeded (one every 10 seconds); try again in 8 seconds"
    assert refused.value.data == {"retryAfterSeconds": 8}


async def test_refused_requests_do_not_count(clock: Clock) -> None:
    async with connect(make(1, burst=1)) as client:
        assert await allowed(client, 50) == 1
        clock.now += 1
        assert await allowed(client, 1) == 1


async def test_sessions_are_counted_apart(clock: Clock) -> None:
    server = make(1, burst=2)
    async with connect(server, revision="2025-11-25") as one, connect(server, revision="2025-11-25") as two:
        assert await allowed(one, 3) == 2
        assert await allowed(two, 3) == 2


async def test_clients_without_a_session_are_counted_together(clock: Clock) -> None:
    server = make(1, burst=2)
    async with connect(server) as one, connect(server, info={"name": "b", "version": "1"}) as two:
        assert await allowed(one, 3) == 2
        assert await allowed(two, 3) == 0


async def test_over_http_clients_without_a_session_are_told_apart_by_their_address(
    clock: Clock, schema_dir: Path
) -> None:
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


async def test_only_what_runs_code_counts_where_nothing_else_is_said(clock: Clock) -> None:
    async with connect(make(1, burst=1)) as client:
        for _ in range(5):
            await client.list_tools()
        assert await allowed(client, 2) == 1
    async with connect(make(1, burst=1, methods=["tools/list"])) as client:
        assert await allowed(client, 5) == 5
        await client.list_tools()
        with pytest.raises(ProtocolError, match="Rate limit"):
            await client.list_tools()


async def test_the_buckets_have_an_end(clock: Clock) -> None:
    names = iter(range(100))
    limit = RateLimit(1, key=lambda ctx: next(names), most_clients=10)
    server = Server("crowded")
    server.middleware(limit)

    @server.tool
    async def work() -> str:
        return "done"

    async with connect(server) as client:
        assert await allowed(client, 100) == 100
    assert len(limit._here) == 10


async def test_the_bucket_that_is_used_is_kept(clock: Clock) -> None:
    names = iter(["busy", "other", "busy", "another", "busy"])
    async with connect(make(1, burst=2, key=lambda ctx: next(names), most_clients=2)) as client:
        assert await allowed(client, 5) == 4


async def test_over_http_the_refusal_has_the_status_and_the_header_for_it(
    schema_dir: Any, clock: Clock
) -> None:
    server = make(0.5, burst=1, key=lambda ctx: ctx.headers["x-user"])
    async with serving(server, schema_dir) as client:
        for user, status in [("ada", 200), ("ada", 503), ("bob", 200)]:
            answer = client.call("work", headers={"x-user": user})
            assert (await answer.whole()).status == status
            assert answer.headers.get("retry-after") == ("2" if status == 503 else None)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0,), {}, "rate must be a number of requests a second above 0, got 0"),
        ((float("inf"),), {}, "rate must be"),
        ((1,), {"burst": 0}, "burst must be at least 1, got 0"),
        ((1,), {"most_clients": 0}, "most_clients must be at least 1, got 0"),
        (
            (1,),
            {"methods": ["tools/cal"]},
            "methods: 'tools/cal' cannot be counted; write a list of initialize",
        ),
        ((1,), {"methods": "tools/call"}, "methods: '/' cannot be counted; write a list of"),
        ((1,), {"methods": ["ping"]}, "methods: 'ping' cannot be counted"),
        ((1,), {"methods": ["subscriptions/listen"]}, "methods: 'subscriptions/listen' cannot be counted"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RateLimit(*arguments, **options)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_principal_has_a_bucket(revision: str, clock: Clock) -> None:
    server = make(1, burst=2)
    for name in ("ada", "bob"):
        for count in (2, 0):  # a second connection of the same principal finds the bucket empty
            async with connect(server, revision=revision, principal=Principal(name)) as client:
                assert await allowed(client, 3) == count


async def test_methods_outside_the_core_protocol_count_unless_others_are_named(clock: Clock) -> None:
    for named, taken in ((None, 2), (["tools/call"], 5)):
        server = make(1, burst=2, methods=named)

        @server.method("thing/do")
        async def do() -> dict[str, int]:
            return {}

        done = 0
        async with connect(server) as client:
            for _ in range(5):
                with suppress(ProtocolError):
                    await client.request("thing/do")
                    done += 1
        assert done == taken


async def test_hidden_methods_do_not_show_in_the_rate() -> None:
    server = Server("s")
    server.middleware(RateLimit(0.001, burst=1))

    @server.method("thing/hidden", visible=lambda who: "admin" in who.scopes)
    async def hidden() -> None: ...

    async with connect(server, principal=Principal("bob")) as client:
        for method in ("thing/hidden", "thing/absent"):
            for _ in range(2):
                with pytest.raises(ProtocolError, match=f"Method not found: {method}"):
                    await client.request(method)
    async with connect(server, principal=Principal("ada", {"admin"})) as client:
        await client.request("thing/hidden")
        with pytest.raises(ProtocolError, match="Rate limit exceeded"):
            await client.request("thing/hidden")
