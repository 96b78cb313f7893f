"""Limits on running requests, streams and sessions, which one client cannot use up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Principal, Server
from tests.helpers.raw_client import PING, Answer, Client, Serve, initialize
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
ADA: dict[str, Any] = {"client": ("203.0.113.8", 50000)}
PLACES = 8


class Gate:
    """Tool that keeps its place until the gate opens."""

    def __init__(self) -> None:
        self.count = 0
        self.opened = asyncio.Event()

    async def hold(self) -> str:
        self.count += 1
        await self.opened.wait()
        return "held"


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture
async def limited(gate: Gate) -> Server:
    server = Server("fair", max_running=PLACES)
    server.tool(gate.hold)
    server.tool(lambda: "quick", name="quick")
    return server


def by_user(scope: Any) -> Principal | None:
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode())


async def call(http: Client, name: str, era: str, headers: Any = None, **scope: Any) -> Answer:
    """Post a tool call, in a new session where there are sessions."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    headers = dict(headers or {})
    if era == "stateless":
        fields = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
        params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in fields.items()}
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    elif era == "guests":
        headers["mcp-protocol-version"] = "2025-06-18"
    else:
        opening = await http.post(initialize(), headers, **scope).whole()
        headers["mcp-session-id"] = opening.headers["mcp-session-id"]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await http.post(message, headers, **scope).whole()


@pytest.mark.parametrize(
    ("era", "eve", "ada", "name"),
    [
        ("stateless", EVE, ADA, "address 203.0.113.7"),
        ("sessions", EVE, ADA, "address 203.0.113.7"),
        (
            "guests",
            {"headers": {"x-user": "eve"}} | EVE,
            {"headers": {"x-user": "ada"}} | EVE,
            "principal 'eve'",
        ),
    ],
    ids=["address", "session", "principal"],
)
async def test_calls_of_one_client_leave_places_for_others(
    limited: Server, gate: Gate, serve: Serve, era: str, eve: dict[str, Any], ada: dict[str, Any], name: str
) -> None:
    async with serve(limited, principal=by_user, stateless=era == "guests") as client:
        calls = [asyncio.create_task(call(client, "hold", era, **eve)) for _ in range(PLACES)]
        await until(lambda: gate.count + sum(each.done() for each in calls) == PLACES)
        assert (await call(client, "quick", era, **ada)).status == 200
        assert gate.count == PLACES // 2
        gate.opened.set()
        answers = await asyncio.gather(*calls)
    assert sorted(answer.status or 0 for answer in answers) == [200] * 4 + [503] * 4
    excess = f"4 from {name}; one client has at most as many of 8 as are left for others"
    refused = [answer for answer in answers if answer.status == 503]
    assert {answer.error()["message"] for answer in refused} == {
        f"Too many requests are running ({excess}); try again later"
    }
    assert all(answer.headers["retry-after"] for answer in refused)


async def test_calls_from_loopback_may_use_all_places(limited: Server, gate: Gate, serve: Serve) -> None:
    async with serve(limited) as client:
        calls = [asyncio.create_task(call(client, "hold", "stateless")) for _ in range(PLACES)]
        await until(lambda: gate.count == PLACES)
        refused = await call(client, "quick", "stateless")
        gate.opened.set()
        assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
    assert refused.error()["message"] == "Too many requests are running (8); try again later"


@pytest.mark.limit("places of one client")
async def test_streams_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async def listen(http: Client, **scope: Any) -> Answer:
        opening = await http.post(initialize(), **scope).whole()
        headers = {"accept": "text/event-stream", "mcp-session-id": opening.headers["mcp-session-id"]}
        return await http.open("GET", headers=headers, **scope).head()

    async with serve(limited, max_streams=PLACES) as client:
        for _ in range(2):  # closed streams release their places
            streams = [
                await (listen(client, **EVE) if number % 2 else client.open("GET", "/sse", **EVE).head())
                for number in range(PLACES)
            ]
            assert [stream.status for stream in streams] == [200] * 4 + [503] * 4
            assert b"(4 from address 203.0.113.7; one client" in (await streams[-1].whole()).body
            streams.append(await listen(client, **ADA))
            assert streams[-1].status == 200
            await client.aclose()
        assert client.app.door()._begin().environment.streams.taken == 0  # type: ignore[attr-defined]


async def test_sessions_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async with serve(limited, max_sessions=PLACES) as client:
        opening = [await client.post(initialize(), **EVE).whole() for _ in range(4)]
        for each in opening:
            session = {"mcp-session-id": each.headers["mcp-session-id"]}
            assert (await client.post(PING, session, **EVE).whole()).status == 200
        refused = await client.post(initialize(), **EVE).whole()
        assert refused.status == 503
        assert b"Too many sessions are open (4 from address 203.0.113.7; one client has" in refused.body
        assert (await client.post(initialize(), **ADA).whole()).status == 200
        await client.open("DELETE", headers=session, **EVE).whole()
        assert (await client.post(initialize(), **EVE).whole()).status == 200
