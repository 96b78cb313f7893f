"""Bounds of what a client is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.calls.asking import multi_round as rounds
from mcpkit.calls.asking.pending import _TRIES, MOST_OPEN
from mcpkit.engine.connection import Connection
from mcpkit.testing import connect
from tests.helpers.raw_client import Serve, initialize, open_eliciting_session, within
from tests.limits.ways import around, limit

pytestmark = pytest.mark.anyio

ELICITATION = {"elicitation": {}}
YES = {"action": "accept", "content": {"value": "yes"}}


@pytest.fixture
def asking() -> Server:
    server = Server("asking", question_timeout=0.05)

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", str, key="sure")).value

    return server


class Raw:
    """A session on a pipe, which is asked, and says what it likes."""

    def __init__(self, server: Server) -> None:
        self._out: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.connection = Connection(server, lambda line: self._out.put_nowait(json.loads(line)))

    def send(self, **message: Any) -> None:
        self.connection.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def call(self, id_: Any = "call") -> None:
        self.send(id=id_, method="tools/call", params={"name": "ask", "arguments": {}})

    async def receive(self) -> Any:
        return await within(self._out.get())

    async def goes_on(self) -> None:
        self.send(id="ping", method="ping")
        assert (await self.receive())["result"] == {}


@asynccontextmanager
async def raw(server: Server) -> AsyncIterator[Raw]:
    async with server.running():
        pipe = Raw(server)
        pipe.send(
            **{key: value for key, value in initialize(capabilities=ELICITATION).items() if key != "jsonrpc"}
        )
        assert "result" in await pipe.receive()
        pipe.send(method="notifications/initialized")
        yield pipe
        await pipe.connection.aclose()


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


WORDS = "Too many questions to this client are open (100); answer some first"


@pytest.fixture
def patient() -> Server:
    server = Server("asking", max_running=100_000)

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", str)).value

    return server


@pytest.mark.long
@limit("questions that a client leaves open")
@pytest.mark.parametrize("count", around(MOST_OPEN))
async def test_open_questions_on_a_pipe(count: int, patient: Server) -> None:
    async with raw(patient) as pipe:
        for number in range(count):
            pipe.call(number)
        messages = [await pipe.receive() for _ in range(count)]
        refused = [each["error"] for each in messages if "error" in each]
        assert len(refused) == max(0, count - MOST_OPEN)
        assert all((each["code"], each["message"]) == (-32603, WORDS) for each in refused)
        question = next(each["id"] for each in messages if "method" in each)
        pipe.send(id=question, result=YES)
        assert text_of(await pipe.receive()) == "yes"
        pipe.call("again")
        assert (await pipe.receive())["method"] == "elicitation/create"


@limit("questions that a client leaves open")
@pytest.mark.parametrize("count", [MOST_OPEN - 1, MOST_OPEN, MOST_OPEN + 1, 2 * MOST_OPEN])
async def test_open_questions_over_http(count: int, patient: Server, serve: Serve) -> None:
    async with serve(patient) as client:
        session = await open_eliciting_session(client)
        calls = [session.call("ask") for _ in range(count)]
        for call in calls[MOST_OPEN:]:
            assert (await call.response())["error"] == {"code": -32603, "message": WORDS}
        question = await calls[0].message()
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
        assert (await session.post(answer).whole()).status == 202
        assert text_of(await calls[0].message()) == "yes"
        assert (await session.call("ask").message())["method"] == "elicitation/create"
        await session.delete()  # which ends what still waits for an answer


@limit("time for an answer")
@pytest.mark.parametrize("is_in_time", [True, False])
async def test_question_timeout(is_in_time: bool, asking: Server) -> None:
    asking.question_timeout = 3600 if is_in_time else 0.05
    async with raw(asking) as pipe:
        pipe.call()
        question = await pipe.receive()
        if is_in_time:
            pipe.send(id=question["id"], result=YES)
            assert text_of(await pipe.receive()) == "yes"
        else:
            assert (await pipe.receive())["method"] == "notifications/cancelled"
            answer = await pipe.receive()
            assert answer["result"]["isError"]
            assert "The client did not answer within 0.05 s" in text_of(answer)
            pipe.send(id=question["id"], result=YES)  # too late, and ignored
        await pipe.goes_on()


@limit("time for an answer")
@pytest.mark.parametrize(("seconds", "is_in_time"), [(0.0, True), (0.04, True), (0.06, False), (1e6, False)])
async def test_expiry(
    seconds: float, is_in_time: bool, asking: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(rounds, "time", SimpleNamespace(time=lambda: now[0]))
    async with connect(asking, capabilities=ELICITATION) as client:
        params = {"name": "ask", "arguments": {}}
        state = (await client.request("tools/call", params))["requestState"]
        now[0] += seconds
        params |= {"requestState": state, "inputResponses": {"sure": YES}}
        if is_in_time:
            assert (await client.request("tools/call", params))["content"][0]["text"] == "yes"
        else:
            with pytest.raises(ProtocolError, match="requestState cannot be taken: it has expired") as error:
                await client.request("tools/call", params)
            assert error.value.code == -32602


@limit("times that a form is asked again")
@pytest.mark.parametrize("wrong", [_TRIES - 1, _TRIES, _TRIES + 1, 100])
async def test_tries(wrong: int, patient: Server) -> None:
    async with raw(patient) as pipe:
        pipe.call()
        for _ in range(min(wrong, _TRIES)):
            question = await pipe.receive()
            pipe.send(id=question["id"], result={"action": "accept", "content": {"value": 5}})
        last = await pipe.receive()
        if wrong < _TRIES:
            pipe.send(id=last["id"], result=YES)
            assert text_of(await pipe.receive()) == "yes"
        else:
            assert last["result"]["isError"]
            assert "value: expected" in text_of(last)
        await pipe.goes_on()
