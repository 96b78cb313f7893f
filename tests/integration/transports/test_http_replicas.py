"""Two replicas that share a store: each kind of request at the other replica than the one it began at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import httpx2
import pytest

from mcpkit import Context, Server, ServerOptions
from mcpkit.storage import Memory, Redis, Sqlite
from tests.helpers.engines import close, make_engine
from tests.helpers.process_client import EventStream
from tests.helpers.serving import DEFAULT_TIMEOUT, in_thread

pytestmark = pytest.mark.slow

BOTH = {"accept": "application/json, text/event-stream"}
CLIENT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
RED = {"action": "accept", "content": {"value": "red"}}


def request(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(tool: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", id, name=tool, arguments=arguments)


class Replica:
    """Client of one replica."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url + "/mcp"
        self.http = httpx2.Client(base_url=url, timeout=DEFAULT_TIMEOUT, trust_env=False)

    def post(self, message: Any, session: str | None = None, **headers: str) -> httpx2.Response:
        headers = BOTH | headers | ({} if session is None else {"mcp-session-id": session})
        return self.http.post("/mcp", json=message, headers=headers)

    def ask(self, session: str, method: str, **params: Any) -> Any:
        response = self.post(request(method, **params), session)
        assert response.status_code == 200, response.text
        return response.json()["result"]

    def stream(self, message: Any, session: str) -> EventStream:
        return EventStream(self.url, "POST", message, {"Mcp-Session-Id": session})

    def listen(self, session: str, after: str | None = None) -> EventStream:
        more = {} if after is None else {"Last-Event-ID": after}
        return EventStream(self.url, "GET", None, {"Mcp-Session-Id": session, **more})


class Gate:
    """Semaphores of the tool `wait`, in any replica."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)


def make_server(shared: Memory | Redis | Sqlite, gate: Gate, name: str) -> Server:
    server = Server(
        "replicas",
        version="1",
        secret_key="a secret of the replicas",
        storage=shared,
        options=ServerOptions(single_use_state=True),
    )

    @server.tool
    async def log_levels(ctx: Context) -> str:
        await ctx.log("info", "quiet")
        await ctx.log("error", "loud")
        return name

    @server.tool
    async def ask(ctx: Context) -> str:
        return f"{(await ctx.elicit('Which colour?', str)).value} {name}"

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.log("error", "begun")
        gate.started.release()
        try:
            while not gate.opened.acquire(blocking=False):
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            gate.cancelled.release()
            raise
        return name

    @server.tool
    async def touch(uri: str) -> str:
        server.notify_resource_updated(uri)
        return name

    @server.resource("thing://{name}")
    async def thing(name: str) -> str:
        return name

    return server


class Setup(NamedTuple):
    gate: Gate
    here: Replica
    there: Replica
    session: str


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def replicas(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gate, Replica, Replica]]:
    folder, gate = tmp_path_factory.mktemp("replicas"), Gate()
    with ExitStack() as stack:
        clients = []
        for name in ("one", "two"):
            engine = make_engine(request.param, folder)
            stack.callback(close, engine)
            url = stack.enter_context(in_thread(make_server(engine, gate, name).asgi()))
            clients.append(Replica(name, url))
            stack.callback(clients[-1].http.close)
        yield gate, clients[0], clients[1]


@pytest.fixture
def setup(replicas: tuple[Gate, Replica, Replica]) -> Setup:
    """New session of the first replica."""
    gate, here, there = replicas
    opening = here.post(request("initialize", 0, **CLIENT))
    session = opening.headers["mcp-session-id"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert there.post(note, session).status_code == 202
    return Setup(gate, here, there, session)


def test_replica_accepts_response_to_question_of_other(setup: Setup) -> None:
    _, here, there, session = setup
    with here.stream(call("ask"), session) as stream:
        question = stream.message()
        assert question["method"] == "elicitation/create"
        wrong = {"jsonrpc": "2.0", "id": f"{question['id']}0", "result": RED}
        assert there.post(wrong, session).status_code == 400
        right = {"jsonrpc": "2.0", "id": question["id"], "result": RED}
        assert there.post(right, session).status_code == 202
        assert stream.message()["result"]["content"][0]["text"] == "red one"


def test_replica_resumes_call_of_other(setup: Setup) -> None:
    gate, here, there, session = setup
    with here.stream(call("wait", 7), session) as stream:
        first = stream.event()["id"]
        assert stream.message()["params"]["data"] == "begun"
        assert gate.started.acquire(timeout=DEFAULT_TIMEOUT)
    with there.listen(session, first) as resumed:
        assert resumed.message()["params"]["data"] == "begun"
        gate.opened.release()
        *_, last = resumed.rest()
    assert (last["id"], last["result"]["content"][0]["text"]) == (7, "one")


def test_replica_cancels_call_of_other(setup: Setup) -> None:
    gate, here, there, session = setup
    with here.stream(call("wait", 9), session) as stream:
        assert stream.message()["params"]["data"] == "begun"
        assert gate.started.acquire(timeout=DEFAULT_TIMEOUT)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        assert there.post(note, session).status_code == 202
        assert gate.cancelled.acquire(timeout=DEFAULT_TIMEOUT)
        assert stream.rest() == []


def test_replica_uses_single_use_state_of_other_once(setup: Setup) -> None:
    _, here, there, _ = setup

    def post(replica: Replica, **more: Any) -> httpx2.Response:
        message = request("tools/call", name="ask", arguments={}, _meta=META, **more)
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "ask"}
        return replica.post(message, **headers)

    round_ = post(here).json()["result"]
    (key,) = round_["inputRequests"]
    responses = {"inputResponses": {key: RED}, "requestState": round_["requestState"]}
    assert post(there, **responses).json()["result"]["content"][0]["text"] == "red two"
    assert [post(each, **responses).status_code for each in (here, there)] == [400, 400]
