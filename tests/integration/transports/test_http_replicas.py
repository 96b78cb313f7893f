"""Sessions of one replica at another that shares its store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import httpx2
import pytest

from mcpkit import Context, Server
from tests.helpers.engines import close, make_engine
from tests.helpers.process_client import EventStream
from tests.helpers.raw_client import request
from tests.helpers.serving import DEFAULT_TIMEOUT, in_thread

pytestmark = pytest.mark.slow

HEADERS = {"accept": "application/json, text/event-stream"}


class Replicas(NamedTuple):
    urls: list[str]
    released: threading.Event
    cancelled: threading.Event

    def post(self, index: int, message: Any, **headers: str) -> httpx2.Response:
        url = self.urls[index]
        return httpx2.post(
            url, json=message, headers=HEADERS | headers, timeout=DEFAULT_TIMEOUT, trust_env=False
        )


def make_server(name: str, engine: Any, released: threading.Event, cancelled: threading.Event) -> Server:
    server = Server("replicas", version="1", secret_key="a secret of the replicas", storage=engine)

    @server.tool
    async def ask(ctx: Context) -> str:
        return f"{(await ctx.elicit('Which colour?', str)).value} {name}"

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.log("error", "begun")
        try:
            while not released.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return name

    return server


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def started_replicas(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    replicas = Replicas([], threading.Event(), threading.Event())
    with ExitStack() as stack:
        for name in ("one", "two"):
            engine = make_engine(request.param, folder)
            stack.callback(close, engine)
            app = make_server(name, engine, replicas.released, replicas.cancelled).asgi()
            replicas.urls.append(stack.enter_context(in_thread(app)) + "/mcp")
        yield replicas


@pytest.fixture
def replicas(started_replicas: Replicas) -> Replicas:
    started_replicas.released.clear()
    started_replicas.cancelled.clear()
    return started_replicas


@pytest.fixture
def session(replicas: Replicas) -> dict[str, str]:
    """Headers of a new session of the first replica."""
    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }
    headers = replicas.post(0, request("initialize", client)).headers
    session = {"Mcp-Session-Id": headers["mcp-session-id"]}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert replicas.post(1, note, **session).status_code == 202
    return session


def call(replicas: Replicas, tool: str, session: dict[str, str]) -> EventStream:
    message = request("tools/call", {"name": tool, "arguments": {}}, id=7)
    return EventStream(replicas.urls[0], "POST", message, session)


def test_replica_accepts_response_to_question_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with call(replicas, "ask", session) as stream:
        question = stream.message()
        assert question["method"] == "elicitation/create"
        result = {"action": "accept", "content": {"value": "red"}}
        wrong, right = (
            {"jsonrpc": "2.0", "id": id, "result": result} for id in (f"{question['id']}0", question["id"])
        )
        assert replicas.post(1, wrong, **session).status_code == 400
        assert replicas.post(1, right, **session).status_code == 202
        assert stream.message()["result"]["content"][0]["text"] == "red one"


def test_replica_resumes_call_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with call(replicas, "wait", session) as stream:
        first = stream.event()["id"]
        assert stream.message()["params"]["data"] == "begun"
    with EventStream(replicas.urls[1], "GET", None, session | {"Last-Event-ID": first}) as resumed:
        assert resumed.message()["params"]["data"] == "begun"
        replicas.released.set()
        *_, last = resumed.rest()
    assert (last["id"], last["result"]["content"][0]["text"]) == (7, "one")


def test_replica_cancels_call_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with call(replicas, "wait", session) as stream:
        assert stream.message()["params"]["data"] == "begun"
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert replicas.post(1, note, **session).status_code == 202
        assert replicas.cancelled.wait(DEFAULT_TIMEOUT)
        assert stream.rest() == []
