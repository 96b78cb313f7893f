"""Room for sessions: whoever opens many locks nobody out, and what is kept of each is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import Memory, Server
from tests.helpers.asgi_client import Client, Serve, initialize
from tests.helpers.session_server import PING, make_server
from tests.helpers.waiting import LoopClock
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

BRIEF = 60.0


class SlowStore(Memory):
    """A store whose writes wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await self.gate.wait()
        await super().write(key, changes, ttl)


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def server(work: Work, clock: LoopClock) -> Server:
    return make_server(work, shared=Memory(clock))


async def flood(client: Client, times: int) -> list[Any]:
    """Open sessions and use none of them."""
    return [await client.post(initialize()).whole() for _ in range(times)]


def living(client: Client) -> int:
    return len(client.app.door()._begin().sessions)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def ping(client: Client, opened: Any) -> int | None:
    return (await client.post(PING, {"mcp-session-id": opened.headers["mcp-session-id"]}).whole()).status


# Floods


async def test_sessions_that_nobody_uses_lock_nobody_out(server: Server, serve: Serve) -> None:
    async with serve(server, max_sessions=10) as client:
        honest = await client.initialize()
        assert {answer.status for answer in await flood(client, 50)} == {200}
        assert living(client) == 10
        assert await honest.text("envelope") == "handshake 2025-11-25 test"
        late = await client.initialize()
        await flood(client, 50)
        for session in (honest, late):
            assert await session.text("envelope") == "handshake 2025-11-25 test"


async def test_sessions_that_are_used_once_and_left_lock_nobody_out_for_long(
    server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server, max_sessions=10) as client:
        honest = await client.initialize()
        for _ in range(9):
            await client.initialize()
        refused = await client.post(initialize()).whole()
        assert refused.status == 503
        clock.ahead += int(refused.headers["retry-after"])
        assert (await client.post(initialize()).whole()).status == 200
        assert await honest.text("envelope") == "handshake 2025-11-25 test"


async def test_a_refusal_says_when_there_is_room(server: Server, serve: Serve, clock: LoopClock) -> None:
    async with serve(server, max_sessions=2) as client:
        await client.initialize()
        clock.ahead += 45
        await client.initialize()
        refused = await client.post(initialize()).whole()
        assert (refused.status, refused.headers["retry-after"]) == (503, "15")


async def test_a_session_that_makes_room_is_taken_in_again(
    server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server, max_sessions=1) as client:
        first = await client.initialize()
        await first.ask("resources/subscribe", {"uri": "weather://fixed"}).whole()
        clock.ahead += BRIEF
        second = await client.initialize()
        assert living(client) == 1
        clock.ahead += BRIEF
        stream = await first.listen().head()
        server.resource_updated("weather://fixed")
        assert (await stream.message())["params"]["uri"] == "weather://fixed"
        refused = await second.ask("ping").whole()
        assert refused.status == 503, "the only place is taken by one that listens"


async def test_what_runs_or_listens_keeps_its_place(
    server: Server, serve: Serve, clock: LoopClock, work: Work
) -> None:
    async with serve(server, max_sessions=3, keep_alive=10 * BRIEF) as client:
        listening, running, idle = [await client.initialize() for _ in range(3)]
        stream, call = await listening.listen().head(), running.call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
        clock.ahead += BRIEF
        await client.initialize()
        sessions = client.app.door()._begin().sessions
        assert {listening.id, running.id} < set(sessions._by_id)
        assert idle.id not in sessions._by_id
        work.gate.set()
        assert "result" in await call.response()
        assert not stream.is_over


async def test_a_session_that_makes_room_while_it_is_looked_for_is_found(
    work: Work, serve: Serve, clock: LoopClock
) -> None:
    store = SlowStore()
    async with serve(make_server(work, shared=store), max_sessions=2) as client:
        session, _ = await client.initialize(), await client.initialize()
        clock.ahead += BRIEF
        store.gate.clear()
        asked = session.ask("ping")  # the store is told that it lives on
        await turns()
        opened = client.post(initialize())
        await turns()
        assert session.id not in client.app.door()._begin().sessions._by_id
        store.gate.set()
        assert ((await asked.whole()).status, (await opened.whole()).status) == (200, 200)


@pytest.mark.parametrize("limit", [1, 5])
async def test_sessions_that_are_opened_at_once_keep_to_the_limit(
    limit: int, work: Work, serve: Serve
) -> None:
    store = SlowStore()
    async with serve(make_server(work, shared=store), max_sessions=limit) as client:
        store.gate.clear()
        answers = [client.post(initialize()) for _ in range(4 * limit)]
        await turns()
        store.gate.set()
        statuses = [(await answer.whole()).status for answer in answers]
        assert statuses.count(200) == living(client) == limit
        assert statuses.count(503) == 3 * limit
        assert (await client.post(initialize()).whole()).status == 200, (
            "those that were refused hold no place"
        )


# Sessions that nobody uses


async def test_a_session_that_nobody_uses_lives_briefly(
    server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server) as client:
        unused, used = await flood(client, 2)
        clock.ahead += BRIEF - 1
        assert await ping(client, used) == 200
        clock.ahead += 1
        assert await ping(client, unused) == 404
        clock.ahead += 3000
        assert await ping(client, used) == 200


async def test_the_memory_of_a_session_that_nobody_uses_is_given_back(
    server: Server, serve: Serve, clock: LoopClock
) -> None:
    async with serve(server) as client:
        await flood(client, 5)
        await client.initialize()
        clock.ahead += BRIEF
        client.app.door()._begin().sessions._sweep()
        assert living(client) == 1
        assert len(server.engine.runtime.shared) == 1  # type: ignore[arg-type]  # it is in memory


# What is kept of the client


async def test_each_process_knows_of_the_client_what_its_id_says(work: Work, serve: Serve) -> None:
    info = {"name": "n" * 2000, "version": "1", "title": "t" * 100_000}
    broker = Memory()
    async with (
        serve(make_server(work, shared=broker)) as here,
        serve(make_server(work, shared=broker)) as there,
    ):
        session = await here.initialize(
            clientInfo=info, capabilities={"experimental": {"x": {"y": "z" * 9999}}}
        )
        assert await session.text("envelope") == await session.at(there).text("envelope")
        clients = [
            each.app.door()._begin().sessions._by_id[session.id].session.client for each in (here, there)
        ]
        assert clients[0].info == clients[1].info
        assert clients[0].capabilities == clients[1].capabilities == {}
        assert len(repr(clients[0].info)) < 1024
