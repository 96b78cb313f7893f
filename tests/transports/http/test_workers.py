"""One session, several processes: beside each other, and after each other. Periods are upper limits only."""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client as OfficialClient
from mcp.client.streamable_http import streamable_http_client

from mcpkit import Memory, Server
from tests.helpers.asgi_client import Serve, Session
from tests.helpers.serving import PATIENCE, Served, from_file
from tests.helpers.session_server import SECRET, make_server, said
from tests.helpers.work import Work

pytestmark = pytest.mark.long

ACCEPT = {"Accept": "application/json, text/event-stream"}
CLIENT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "traveller", "version": "1"},
}

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="kills processes by signals")


def post(url: str, method: str, params: dict[str, Any], session: str | None = None) -> httpx2.Response:
    """Post a request on a connection of its own."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = ACCEPT | ({"Mcp-Session-Id": session} if session is not None else {})
    return httpx2.post(url, json=message, headers=headers, timeout=PATIENCE)


def who(url: str, session: str) -> tuple[str, str]:
    """Return the process that answers, and the name under which it knows the client."""
    answer = post(url, "tools/call", {"name": "who", "arguments": {}}, session)
    assert answer.status_code == 200, answer.text
    pid, _, name = answer.json()["result"]["content"][0]["text"].partition(" ")
    return pid, name


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def on_port(port: int) -> Served:
    server = Served([*from_file("tests.helpers.busy:app"), "--port", str(port)], MCPKIT_SECRET=SECRET)
    server.wait_for("Uvicorn running on")
    return server


def kill(server: Served) -> None:
    server.signal(signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL


# A process that dies


@needs_posix
def test_a_session_outlives_the_death_of_its_process() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with on_port(port) as first:
        session = post(url, "initialize", CLIENT).headers["mcp-session-id"]
        assert who(url, session) == (str(first.process.pid), "traveller")
        kill(first)
    with on_port(port) as second:
        assert who(url, session) == (str(second.process.pid), "traveller")


@needs_posix
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_the_next_call_of_the_official_client_succeeds_after_the_death_of_the_process() -> None:
    port = free_port()
    with on_port(port) as first:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp")
        async with OfficialClient(transport, mode="legacy") as client:
            before = await client.call_tool("who", {})
            kill(first)
            with on_port(port) as second:
                after = await client.call_tool("who", {})
                name = client_name(before)
                assert before.content[0].text == f"{first.process.pid} {name}"
                assert after.content[0].text == f"{second.process.pid} {name}"


def client_name(result: Any) -> str:
    text: str = result.content[0].text
    return text.partition(" ")[2]


# Processes beside each other


@needs_posix
@pytest.mark.parametrize("settings", [{"MCPKIT_SECRET": SECRET}, {}], ids=["a secret", "no secret"])
def test_all_workers_answer_one_session(settings: dict[str, str]) -> None:
    with Served(from_file("tests.helpers.busy:app", "--workers", "2"), **settings) as server:
        server.wait_for("Application startup complete", times=2)
        url = f"{server.origin}/mcp"
        session = post(url, "initialize", CLIENT).headers["mcp-session-id"]
        seen: set[str] = set()
        deadline = time.monotonic() + PATIENCE
        while len(seen) < 2 and time.monotonic() < deadline:  # the system picks who takes a connection
            pid, name = who(url, session)
            assert name == "traveller"
            seen.add(pid)
        assert len(seen) == 2, f"only {seen} has answered"
        assert str(server.process.pid) not in seen


@needs_posix
def test_a_worker_that_takes_the_place_of_a_dead_one_answers_its_sessions() -> None:
    with Served(from_file("tests.helpers.busy:app", "--workers", "2")) as server:
        server.wait_for("Application startup complete", times=2)
        url = f"{server.origin}/mcp"
        session = post(url, "initialize", CLIENT).headers["mcp-session-id"]
        dead, _ = who(url, session)
        server.kill_child(int(dead))
        server.wait_for("Application startup complete", times=3)
        pid, name = who(url, session)
        assert pid != dead
        assert name == "traveller"


# Two servers that share a broker, as two processes would


def sharing(broker: Memory | None) -> Server:
    return make_server(Work(), shared=broker)


@asynccontextmanager
async def two(serve: Serve, broker: Memory | None, **options: Any) -> AsyncIterator[tuple[Session, Session]]:
    """Open a session; give it as the server does that opened it, with these options, and as the other does."""
    async with serve(sharing(broker), **options) as one, serve(sharing(broker)) as other:
        session = await one.initialize()
        yield session, session.at(other)


@pytest.fixture
def broker() -> Memory:
    return Memory()


@pytest.mark.anyio
async def test_a_session_that_one_has_deleted_is_not_found_by_the_other(broker: Memory, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        assert (await there.ask("ping").whole()).status == 200
        assert (await session.delete()).status == 204
        assert (await there.ask("ping").whole()).status == 404
        assert (await session.ask("ping").whole()).status == 404


@pytest.mark.anyio
async def test_the_log_level_that_one_was_told_holds_for_the_other(broker: Memory, serve: Serve) -> None:
    async with two(serve, broker) as (session, there):
        assert await said(there) == ["quietly", "loudly"]
        await session.ask("logging/setLevel", {"level": "error"}).whole()
        assert await said(there) == ["loudly"]


@pytest.mark.anyio
async def test_what_one_was_asked_to_watch_is_told_on_a_stream_of_the_other(
    broker: Memory, serve: Serve
) -> None:
    here = sharing(broker)
    async with serve(here) as one, serve(sharing(broker)) as other:
        session = await one.initialize()
        await session.ask("resources/subscribe", {"uri": "weather://fixed"}).whole()
        stream = await session.at(other).listen().head()
        here.resource_updated("weather://fixed")
        assert (await stream.message())["params"]["uri"] == "weather://fixed"


@pytest.mark.anyio
async def test_an_unknown_state_is_taken_in_and_an_ended_one_is_not(serve: Serve) -> None:
    """Where nothing is shared, a session of the other's is served, and one of its own that was deleted is not."""
    async with two(serve, None) as (session, there):
        assert (await there.ask("ping").whole()).status == 200
        assert (await there.delete()).status == 204
        assert (await there.ask("ping").whole()).status == 404
        assert (await session.delete()).status == 204
        assert (await session.ask("ping").whole()).status == 404


@pytest.mark.anyio
async def test_a_session_taken_in_counts_for_the_cap(serve: Serve) -> None:
    async with serve(sharing(None)) as one, serve(sharing(None), max_sessions=1) as other:
        first, second = await one.initialize(), await one.initialize()
        assert (await first.at(other).ask("ping").whole()).status == 200
        refused = await second.at(other).ask("ping").whole()
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.anyio
async def test_a_session_ends_at_its_greatest_age_though_it_is_used(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(serve, None, session_max_age=60) as (session, there):
        assert (await session.ask("ping").whole()).status == 200
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 61)
        assert (await session.ask("ping").whole()).status == 404
        assert (await there.ask("ping").whole()).status == 404
