"""Sessions over HTTP: session ids, the stream of notifications, and responses resumed after a break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpkit import Client, Retries
from mcpkit.client.transports.http import stream as http_stream
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.exceptions import StatusError, TransportError
from tests.helpers.scripted_http import SESSION, Asked, Reply, Script, greeting, scripted, text
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

REVISION = "2025-11-25"
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def call_done(asked: Asked, reply: Reply) -> None:
    await reply.result(text("done"))


def over(url: str, revision: str = REVISION) -> tuple[HttpTransport, Client]:
    transport = HttpTransport(url)
    return transport, Client(transport, protocol_version=revision, retries=Retries(attempts=1))


class Listening:
    """A server's stream, which is scripted connection by connection; the last step is repeated."""

    def __init__(self, *steps: Script) -> None:
        self.steps = list(steps)
        self.asked: list[Asked] = []
        self.times: list[float] = []

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        self.times.append(time.monotonic())
        await (self.steps.pop(0) if len(self.steps) > 1 else self.steps[0])(asked, reply)
        self.times.append(time.monotonic())


async def stays(asked: Asked, reply: Reply) -> None:
    await reply.begin_stream()
    await reply.event(CHANGED)
    await reply.hang_up()


def tells(**event: Any) -> Script:
    async def step(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(CHANGED, **event)
        await reply.end_stream()

    return step


def answers(status: int) -> Script:
    async def step(asked: Asked, reply: Reply) -> None:
        await reply.send(status)

    return step


async def test_session_id_is_sent_and_session_deleted() -> None:
    async with scripted(greeting(call_done)) as server:
        _, client = over(server.url)
        async with client:
            await client.call_tool("bake")
    first, *rest = server.asked
    assert first.rpc == "initialize"
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    assert {asked.headers["mcp-session-id"] for asked in rest} == {SESSION}
    assert {asked.headers["mcp-protocol-version"] for asked in rest} == {REVISION}
    assert [asked.method for asked in rest].count("GET") == 1
    assert rest[-1].method == "DELETE"


@pytest.mark.parametrize("id_", ["a b"])
async def test_session_id_invalid_is_refused(id_: str) -> None:
    async with scripted(greeting(call_done, session=id_)) as server:
        with pytest.raises(TransportError, match="visible ASCII"):
            await over(server.url)[1].__aenter__()


async def test_session_stream_resumes_with_last_event_id() -> None:
    listening = Listening(tells(id_="a", retry=120), tells(retry=60), stays)
    async with scripted(greeting(call_done, stream=listening)) as server:
        transport, client = over(server.url)
        missed: list[None] = []
        transport.missed.add(lambda: missed.append(None))
        async with client:
            await until(lambda: len(listening.asked) == 3)
    assert [asked.headers.get("last-event-id") for asked in listening.asked] == [None, "a", "a"]
    assert missed == []
    _, ended, began, ended_again, began_again, *_ = listening.times
    assert 0.118 <= began - ended < http_stream.RETRY
    assert 0.058 <= began_again - ended_again < http_stream.RETRY


async def test_session_stream_404_means_session_gone() -> None:
    async def waits(asked: Asked, reply: Reply) -> None:
        await reply.hang_up()

    listening = Listening(tells(retry=50), answers(404))
    async with scripted(greeting(waits, stream=listening)) as server:
        client = over(server.url)[1]
        async with client:
            call = asyncio.ensure_future(client.call_tool("bake", retry=True))
            with pytest.raises(StatusError, match="session") as caught:
                await call
            assert caught.value.session_is_gone
            assert not client._link.is_open
        assert not server.of("DELETE")
        await until(lambda: not server.open)


def connection(server: HttpTransport, revision: str = REVISION) -> Client:
    return Client(server, protocol_version=revision, retries=Retries(attempts=1))


class Stream:
    """A tool whose stream comes on several connections.

    Args:
        steps: What is sent on each: the answer to the POST, then those to the GETs.

    Attributes:
        message: The request that the stream answers.
        joined: The GETs that came back for it.
        times: When each connection ended, and when the next began.
    """

    def __init__(self, *steps: Callable[[Stream, Reply], Awaitable[None]]) -> None:
        self.message: Any = None
        self.joined: list[Asked] = []
        self.times: list[float] = []
        self._steps = list(steps)

    async def post(self, asked: Asked, reply: Reply) -> None:
        self.message = asked.message
        await self._next(reply)

    async def get(self, asked: Asked, reply: Reply) -> None:
        if "last-event-id" not in asked.headers:
            await reply.send(405)
            return
        self.joined.append(asked)
        self.times.append(time.monotonic())
        await self._next(reply)

    async def _next(self, reply: Reply) -> None:
        await self._steps.pop(0)(self, reply)
        self.times.append(time.monotonic())

    def answer(self, output: str = "done") -> Any:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": text(output)}

    def script(self, **options: Any) -> Script:
        return greeting(self.post, stream=self.get, **options)

    async def call(self, revision: str = REVISION, **options: Any) -> Any:
        async with (
            scripted(self.script(**options)) as server,
            connection(HttpTransport(server.url), revision) as client,
        ):
            return await client.call_tool("bake", retry=True)

    async def failure(self, revision: str = REVISION, **options: Any) -> TransportError:
        with pytest.raises(TransportError) as caught:
            await self.call(revision, **options)
        assert caught.value.may_have_begun
        return caught.value


async def polls(stream: Stream, reply: Reply) -> None:
    """Give an event to come back to, and end."""
    await reply.begin_stream()
    await reply.event(id_="place-1", retry=10)
    await reply.end_stream()


async def breaks(stream: Stream, reply: Reply) -> None:
    """Give an event to come back to, half of another, and break off."""
    await reply.begin_stream()
    await reply.event(id_="place-1", retry=0)
    await reply.chunk(b"id: place-2\ndata: {")
    reply.cut()


async def sends_answer(stream: Stream, reply: Reply) -> None:
    await reply.begin_stream()
    await reply.event(stream.answer(), id_="place-3")
    await reply.end_stream()


def refuses(status: int, body: bytes = b"") -> Callable[[Stream, Reply], Awaitable[None]]:
    async def step(stream: Stream, reply: Reply) -> None:
        await reply.send(status, body)

    return step


@pytest.mark.parametrize(("first", "revision"), [(polls, "2025-03-26"), (breaks, "2025-11-25")])
async def test_response_resumes_on_next_connection(first: Any, revision: str) -> None:
    stream = Stream(first, sends_answer)
    assert (await stream.call(revision)).text == "done"
    [joined] = stream.joined
    assert joined.headers["last-event-id"] == "place-1"
    assert joined.headers["mcp-session-id"] == SESSION
    assert joined.headers["mcp-protocol-version"] == revision
    assert joined.headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(("revision", "ends"), [("2025-11-25", True), ("2026-07-28", False)])
async def test_response_without_ids_is_lost(revision: str, ends: bool) -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event({"jsonrpc": "2.0", "method": "notifications/x"})
        await (reply.end_stream() if ends else asyncio.sleep(0))
        reply.cut()

    stream = Stream(first)
    error = await stream.failure(revision)
    assert ("ended before the response" if ends else "was lost before the response") in str(error)
    assert stream.joined == []


@pytest.mark.parametrize("step", [refuses(503)])
async def test_response_resume_gives_up(step: Any) -> None:
    stream = Stream(polls, *[step] * http_stream.MOST_FAILURES)
    await stream.failure()
    assert len(stream.joined) == http_stream.MOST_FAILURES
