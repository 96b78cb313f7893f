"""Each kind of request at another replica than the one that a client has begun with, over HTTP, on each engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from mcpkit import Context, Memory, Redis, Server, Sqlite
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.event_streams import EventStream
from tests.helpers.replicas import BOTH, CLIENT, Replica, call, request
from tests.helpers.serving import PATIENCE, in_thread

pytestmark = pytest.mark.slow

TIMES = 12
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
RED = {"action": "accept", "content": {"value": "red"}}


class Gate:
    """What a call waits for, in whichever replica it runs."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)


def make_server(shared: Memory | Redis | Sqlite, gate: Gate, name: str) -> Server:
    server = Server("replicas", version="1", secret="a secret of the replicas", shared=shared)

    @server.tool
    async def where() -> str:
        return name

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("info", "quietly")
        await ctx.log("error", "loudly")
        return name

    @server.tool
    async def ask(ctx: Context) -> str:
        return f"{(await ctx.elicit('Which colour?', str)).value} {name}"

    @server.tool(single_use=True)
    async def once(ctx: Context) -> str:
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
        await ctx.log("error", "done")
        return name

    @server.tool
    async def murmur(ctx: Context) -> str:
        for number in itertools.count(1):
            while not gate.opened.acquire(blocking=False):
                await asyncio.sleep(0.002)
            await ctx.log("error", "a murmur")
            await ctx.progress(number)
        return name

    @server.tool
    async def touch(uri: str) -> str:
        server.resource_updated(uri)
        return name

    @server.resource("thing://{name}")
    async def thing(name: str) -> str:
        return name

    return server


class Turn(NamedTuple):
    """Where something is begun, where it goes on, and the third one."""

    here: Replica
    there: Replica
    third: Replica
    session: str


class Replicas:
    """Three servers that share an engine."""

    def __init__(self, gate: Gate, replicas: list[Replica]) -> None:
        self.gate = gate
        self.replicas = replicas

    def turns(self) -> Iterator[Turn]:
        """Give a new session for each turn, and each order of the replicas as often as each other."""
        orders = list(itertools.permutations(self.replicas))
        for number in range(TIMES):
            here, there, third = orders[number % len(orders)]
            session = here.open()
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert there.post(note, session).status_code == 202
            yield Turn(here, there, third, session)


@pytest.fixture(scope="module", params=ENGINES)
def replicas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder, gate = tmp_path_factory.mktemp("replicas"), Gate()
    with ExitStack() as stack:
        made: list[Replica] = []
        shared = make_engine(request.param, folder)
        stack.callback(close, shared)
        for name in ("one", "two", "three"):
            engine = shared if request.param == "memory" else another(request.param, folder, stack)
            url = stack.enter_context(in_thread(make_server(engine, gate, name).asgi()))
            made.append(Replica(name, url))
            stack.callback(made[-1].http.close)
        yield Replicas(gate, made)


def another(name: str, folder: Path, stack: ExitStack) -> Memory | Redis | Sqlite:
    """Return the same engine, as another process has it."""
    engine = make_engine(name, folder)
    stack.callback(close, engine)
    return engine


def soon(condition: Callable[[], bool]) -> None:
    """Wait until something is known everywhere: within a second, and longer only where the machine is slow."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.005)


def test_requests_of_a_session(replicas: Replicas) -> None:
    for here, there, third, session in replicas.turns():
        for replica in (here, there, third):
            assert replica.call(session, "where") == replica.name
            assert replica.ask(session, "ping") == {}
            assert len(replica.ask(session, "tools/list")["tools"]) == 7
            assert replica.ask(session, "resources/read", uri="thing://a")["contents"]


def test_an_answer_to_a_question(replicas: Replicas) -> None:
    for here, there, third, session in replicas.turns():
        with here.stream(call("ask"), session) as stream:
            question = stream.message()
            assert question["method"] == "elicitation/create"
            wrong = {"jsonrpc": "2.0", "id": f"{question['id']}0", "result": RED}
            assert third.post(wrong, session).status_code == 400
            right = {"jsonrpc": "2.0", "id": question["id"], "result": RED}
            assert there.post(right, session).status_code == 202
            assert stream.message()["result"]["content"][0]["text"] == f"red {here.name}"


def test_a_log_level(replicas: Replicas) -> None:
    for here, there, third, session in replicas.turns():
        assert here.ask(session, "logging/setLevel", level="error") == {}

        def levels(replica: Replica, session: str = session) -> list[str]:
            with replica.stream(call("speak"), session) as stream:
                return [each["params"]["data"] for each in stream.rest() if "method" in each]

        for replica in (there, third):
            soon(lambda replica=replica: levels(replica) == ["loudly"])  # type: ignore[misc]  # one of the loop


def test_a_log_level_of_a_call_that_runs(replicas: Replicas) -> None:
    for here, there, _, session in replicas.turns():
        message = call("murmur", 8)
        message["params"]["_meta"] = {"progressToken": 1}

        def murmurs(stream: EventStream) -> bool:
            replicas.gate.opened.release()
            messages = [stream.message()]
            while messages[-1]["method"] != "notifications/progress":
                messages.append(stream.message())
            return len(messages) > 1

        with here.stream(message, session) as stream:
            assert murmurs(stream)
            assert there.ask(session, "logging/setLevel", level="emergency") == {}
            soon(lambda stream=stream: not murmurs(stream))  # type: ignore[misc]  # one of the loop
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}
            assert here.post(note, session).status_code == 202
            assert stream.rest() == []


def test_subscriptions_and_a_stream_that_listens(replicas: Replicas) -> None:
    for number, (here, there, third, session) in enumerate(replicas.turns()):
        uri = f"thing://{number}"
        here.ask(session, "resources/subscribe", uri=uri)
        with there.listen(session) as stream:
            stream.event()
            assert third.call(session, "touch", uri=uri) == third.name
            assert stream.message()["params"]["uri"] == uri
            later = f"thing://later-{number}"
            third.ask(session, "resources/subscribe", uri=later)
            here.ask(session, "resources/unsubscribe", uri=uri)
            soon(lambda later=later: heard(stream, third, session, later))  # type: ignore[misc]  # those of the loop


def heard(stream: EventStream, replica: Replica, session: str, uri: str) -> bool:
    replica.call(session, "touch", uri=uri)
    return bool(stream.message()["params"]["uri"] == uri)


def test_the_newest_stream_is_told(replicas: Replicas) -> None:
    for number, (here, there, third, session) in enumerate(replicas.turns()):
        uri = f"thing://newest-{number}"
        third.ask(session, "resources/subscribe", uri=uri)
        with here.listen(session) as old, there.listen(session) as new:
            old.event()
            new.event()
            third.call(session, "touch", uri=uri)
            assert new.message()["params"]["uri"] == uri


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "ended"])
def test_a_client_that_comes_back_for_a_call(replicas: Replicas, is_over: bool) -> None:
    for here, there, third, session in replicas.turns():
        with here.stream(call("wait", 7), session) as stream:
            first = stream.event()["id"]
            assert stream.message()["params"]["data"] == "begun"
            assert replicas.gate.started.acquire(timeout=PATIENCE)
        if is_over:
            replicas.gate.opened.release()
            with there.listen(session, first) as back:
                kinds = [each.get("params", each).get("data", "result") for each in back.rest()]
        else:
            with there.listen(session, first) as back:
                assert back.message()["params"]["data"] == "begun"
                replicas.gate.opened.release()
                kinds = ["begun", *(each.get("params", each).get("data", "result") for each in back.rest())]
        assert kinds == ["begun", "done", "result"]
        with third.listen(session, first) as again:
            *_, last = again.rest()
        assert (last["id"], last["result"]["content"][0]["text"]) == (7, here.name)


def test_a_client_that_comes_back_for_what_it_listens_to(replicas: Replicas) -> None:
    for number, (here, there, third, session) in enumerate(replicas.turns()):
        uri = f"thing://back-{number}"
        here.ask(session, "resources/subscribe", uri=uri)
        with here.listen(session) as stream:
            seen = stream.event()["id"]
        with there.listen(session, seen) as back:
            third.call(session, "touch", uri=uri)
            assert back.message()["params"]["uri"] == uri


def test_a_cancellation(replicas: Replicas) -> None:
    for here, there, _, session in replicas.turns():
        with here.stream(call("wait", 9), session) as stream:
            assert stream.message()["params"]["data"] == "begun"
            assert replicas.gate.started.acquire(timeout=PATIENCE)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
            assert there.post(note, session).status_code == 202
            assert replicas.gate.cancelled.acquire(timeout=PATIENCE)
            assert stream.rest() == []


def test_the_end_of_a_session(replicas: Replicas) -> None:
    for here, there, third, session in replicas.turns():
        for replica in (here, there, third):
            assert replica.ask(session, "ping") == {}
        with here.listen(session) as stream:
            stream.event()
            assert there.delete(session) == 204
            assert stream.rest() == []
        for replica in (here, there, third):
            soon(
                lambda replica=replica, session=session: (  # type: ignore[misc]  # those of the loop
                    replica.post(request("ping"), session).status_code == 404
                )
            )


def test_a_round_of_the_stateless_era(replicas: Replicas) -> None:
    def post(replica: Replica, **more: Any) -> httpx2.Response:
        message = request("tools/call", name="once", arguments={}, _meta=META, **more)
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "once"}
        return replica.http.post("/mcp", json=message, headers=BOTH | headers)

    for here, there, third, _ in replicas.turns():
        asked = post(here).json()["result"]
        (key,) = asked["inputRequests"]
        answer = {"inputResponses": {key: RED}, "requestState": asked["requestState"]}
        told = post(there, **answer).json()["result"]
        assert told["content"][0]["text"] == f"red {there.name}"
        assert post(third, **answer).status_code == 400, "it was used"


def test_a_listener_of_the_stateless_era(replicas: Replicas) -> None:
    for number, (here, there, _, session) in enumerate(replicas.turns()):
        uri = f"thing://stateless-{number}"
        message = request("subscriptions/listen", notifications={"resourceSubscriptions": [uri]}, _meta=META)
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
        with EventStream(here.url, "POST", message, headers) as stream:
            assert stream.message()["method"] == "notifications/subscriptions/acknowledged"
            there.call(session, "touch", uri=uri)
            assert stream.message()["params"]["uri"] == uri


def test_a_batch(replicas: Replicas) -> None:
    for here, there, _, _ in replicas.turns():
        params = CLIENT | {"protocolVersion": "2025-03-26"}
        opened = here.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        batch = [request("ping", "a"), call("where", "b")]
        answers = json.loads(there.post(batch, opened.headers["mcp-session-id"]).text)
        assert sorted(each["id"] for each in answers) == ["a", "b"]
