"""The filter of `subscriptions/listen` is open: an extension adds a member, and tells those who listen to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from mcpkit import Memory, Principal, Server
from mcpkit.transports import Connection
from tests.helpers.pipe import META, stateless_meta
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio

KNOWS = {"extensions": {"com.example/jobs": {}}}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "subscriptions/listen",
}


def make(jobs: Any, **options: Any) -> Server:
    server = Server("jobs", **options)
    server.include(jobs)
    return server


@pytest.fixture
def jobs() -> Any:
    from tests.wings.jobs import Jobs

    return Jobs()


def listen(*ids: str, capabilities: dict[str, Any] = KNOWS, **wanted: Any) -> bytes:
    meta = stateless_meta(**{META + "clientCapabilities": capabilities})
    params = {"notifications": {"jobIds": list(ids), **wanted}, "_meta": meta}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}
    ).encode()


@asynccontextmanager
async def piped(server: Server) -> AsyncIterator[tuple[Connection, asyncio.Queue[Any]]]:
    messages: asyncio.Queue[Any] = asyncio.Queue()
    async with server.running():
        connection = Connection(
            server, lambda line: messages.put_nowait(json.loads(line)), principal=Principal("ada")
        )
        yield connection, messages
        await connection.aclose()


async def received(messages: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(messages.get(), 10)


async def test_what_is_accepted_is_acknowledged_and_told(jobs: Any) -> None:
    async with piped(make(jobs)) as (connection, messages):
        connection.receive(listen("ada/1", "bob/1", toolsListChanged=False))
        acknowledged = await received(messages)
        assert acknowledged["params"]["notifications"] == {"jobIds": ["ada/1"]}
        await asyncio.to_thread(jobs.set_state, "bob/1", "done")
        await asyncio.to_thread(jobs.set_state, "ada/1", "done")
        assert await received(messages) == {
            "jsonrpc": "2.0",
            "method": "notifications/jobs",
            "params": {"jobId": "ada/1", "state": "done", "_meta": {META + "subscriptionId": 7}},
        }


async def test_of_what_comes_together_the_latest_is_told(jobs: Any) -> None:
    async with piped(make(jobs)) as (connection, messages):
        connection.receive(listen("ada/1"))
        await received(messages)
        for state in ("begun", "half", "done"):
            jobs.set_state("ada/1", state)
        assert (await received(messages))["params"]["state"] == "done"
        assert messages.empty()


async def test_processes_that_share_a_broker_hear_of_it(jobs: Any) -> None:
    broker, elsewhere = Memory(), type(jobs)()
    async with make(elsewhere, shared=broker).running(), piped(make(jobs, shared=broker)) as (pipe, messages):
        pipe.receive(listen("ada/1"))
        await received(messages)
        elsewhere.set_state("ada/1", "done")
        assert (await received(messages))["params"]["state"] == "done"
        assert messages.empty()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (listen("ada/1", capabilities={}), -32021),
        (listen("ada/1").replace(b'["ada/1"]', b'"ada/1"'), -32602),
        (listen("ada/1").replace(b'["ada/1"]', b"[1]"), -32602),
    ],
)
async def test_what_cannot_be_listened_to_is_refused(jobs: Any, message: bytes, code: int) -> None:
    async with piped(make(jobs)) as (connection, messages):
        connection.receive(message)
        assert (await received(messages))["error"]["code"] == code


async def test_a_stream_over_http_is_told(jobs: Any) -> None:
    def hear() -> list[Any]:
        connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/mcp", listen("ada/1"), HEADERS)
        response = connection.getresponse()
        lines = (line for line in iter(response.readline, b"") if line.startswith(b"data: "))
        first = json.loads(next(lines)[6:])
        jobs.set_state("ada/1", "done")
        second = json.loads(next(lines)[6:])
        connection.close()
        return [first["params"]["notifications"], second["params"]["state"]]

    with in_thread(make(jobs).asgi(principal=Principal("ada"))) as url:
        assert await asyncio.to_thread(hear) == [{"jobIds": ["ada/1"]}, "done"]
