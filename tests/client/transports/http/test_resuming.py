"""Streams of the handshake era that break, or end, before their answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpkit import Client, TransportError
from mcpkit.client.transports.http import stream as http_stream
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.scripted_http import SESSION, Asked, Reply, Script, greeting, scripted, text
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

REVISION = "2025-11-25"

Step = Callable[[Reply], Awaitable[None]]


def connection(server: HttpTransport, revision: str = REVISION) -> Client:
    return Client(server, revision=revision, tries=1)


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

    def answer(self, said: str = "done") -> Any:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": text(said)}

    def script(self, **options: Any) -> Script:
        return greeting(self.post, stream=self.get, **options)

    async def call(self, revision: str = REVISION, **options: Any) -> Any:
        async with (
            scripted(self.script(**options)) as server,
            connection(HttpTransport(server.url), revision) as client,
        ):
            return await client.call("bake", retry=True)

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


async def answers(stream: Stream, reply: Reply) -> None:
    await reply.begin_stream()
    await reply.event(stream.answer(), id_="place-3")
    await reply.end_stream()


async def ends_empty(stream: Stream, reply: Reply) -> None:
    await reply.begin_stream()
    await reply.end_stream()


def refuses(status: int, body: bytes = b"") -> Callable[[Stream, Reply], Awaitable[None]]:
    async def step(stream: Stream, reply: Reply) -> None:
        await reply.send(status, body)

    return step


@pytest.mark.parametrize("first", [polls, breaks])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_the_answer_comes_on_the_next_connection(first: Any, revision: str) -> None:
    stream = Stream(first, answers)
    assert (await stream.call(revision)).text == "done"
    [joined] = stream.joined
    assert joined.headers["last-event-id"] == "place-1"
    assert joined.headers["mcp-session-id"] == SESSION
    assert joined.headers["mcp-protocol-version"] == revision
    assert joined.headers["accept"] == "text/event-stream"


async def test_it_works_without_a_session_too() -> None:
    stream = Stream(polls, answers)
    assert (await stream.call(session=None)).text == "done"
    assert "mcp-session-id" not in stream.joined[0].headers


async def test_it_is_joined_as_often_as_it_goes_on() -> None:
    stream = Stream(*[polls] * (2 * http_stream.MOST_FAILURES), answers)
    assert (await stream.call()).text == "done"


async def test_messages_before_the_break_and_after_it_come_once() -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(progress(stream, 1), id_="a", retry=0)
        reply.cut()

    async def second(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(progress(stream, 2), id_="b")
        await reply.event(stream.answer())
        await reply.end_stream()

    def progress(stream: Stream, done: int) -> Any:
        token = stream.message["params"]["_meta"]["progressToken"]
        return {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": done},
        }

    stream = Stream(first, second)
    heard: list[float] = []
    async with scripted(stream.script()) as server, connection(HttpTransport(server.url)) as client:
        await client.call("bake", progress=lambda done, *_: heard.append(done))
    assert heard == [1, 2]


@pytest.mark.parametrize("retry", [0, 150, 400])
async def test_the_server_says_how_long_to_wait(retry: int) -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(id_="a", retry=retry)
        await reply.end_stream()

    stream = Stream(first, answers)
    await stream.call()
    waited = stream.times[1] - stream.times[0]
    assert retry / 1000 - 0.002 <= waited < http_stream.RETRY  # which would be waited if nothing were said


async def test_a_second_is_waited_where_it_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(id_="a")
        await reply.end_stream()

    assert http_stream.RETRY == 1
    monkeypatch.setattr(http_stream, "RETRY", 0.1)
    stream = Stream(first, answers)
    await stream.call()
    assert stream.times[1] - stream.times[0] >= 0.098


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("ends", [True, False])
async def test_a_stream_without_ids_cannot_be_joined_again(revision: str, ends: bool) -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event({"jsonrpc": "2.0", "method": "notifications/x"})
        await (reply.end_stream() if ends else asyncio.sleep(0))
        reply.cut()

    stream = Stream(first)
    error = await stream.failure(revision)
    assert ("ended before the answer" if ends else "broke before the answer") in str(error)
    assert stream.joined == []


async def test_in_the_stateless_era_ids_mean_nothing() -> None:
    stream = Stream(polls)
    await stream.failure("2026-07-28")
    assert stream.joined == []


async def test_404_means_that_the_session_has_gone_and_nobody_knows() -> None:
    error = await Stream(polls, refuses(404)).failure()
    assert error.session_is_gone


@pytest.mark.parametrize("status", [400, 401, 403, 405, 302])
async def test_a_server_that_does_not_have_the_stream_is_not_asked_twice(status: int) -> None:
    error = await Stream(polls, refuses(status)).failure()
    assert not error.session_is_gone
    assert "the answer is lost" in str(error)
    assert str(status) in str(error)


async def test_something_else_than_a_stream_is_not_asked_for_twice() -> None:
    async def page(stream: Stream, reply: Reply) -> None:
        await reply.send(200, b"<title>hello</title>", {"Content-Type": "text/html"})

    assert "web page" in str(await Stream(polls, page).failure())


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
async def test_a_server_that_is_away_for_a_while_is_asked_again(status: int) -> None:
    stream = Stream(polls, refuses(status), refuses(status), answers)
    assert (await stream.call()).text == "done"
    assert [joined.headers["last-event-id"] for joined in stream.joined] == ["place-1"] * 3


@pytest.mark.parametrize("step", [refuses(503), ends_empty])
async def test_it_is_given_up_when_nothing_comes_of_it(step: Any) -> None:
    stream = Stream(polls, *[step] * http_stream.MOST_FAILURES)
    await stream.failure()
    assert len(stream.joined) == http_stream.MOST_FAILURES


async def test_a_server_that_has_gone_is_given_up() -> None:
    async def dies(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(id_="a", retry=0)
        server.die()

    async with scripted(Stream(dies).script()) as server, connection(HttpTransport(server.url)) as client:
        with pytest.raises(TransportError, match=r"the answer is lost.*cannot connect") as caught:
            await client.call("bake", retry=True)
    assert caught.value.may_have_begun


@pytest.mark.slow
async def test_what_the_server_wants_by_retry_after_is_heeded() -> None:
    async def busy(stream: Stream, reply: Reply) -> None:
        await reply.send(503, headers={"Retry-After": "1"})

    stream = Stream(polls, busy, answers)
    await stream.call()
    assert stream.times[3] - stream.times[2] >= 0.99


async def test_a_server_that_is_away_for_long_is_not_waited_for() -> None:
    async def closed(stream: Stream, reply: Reply) -> None:
        await reply.send(503, headers={"Retry-After": "3600"})

    stream = Stream(polls, closed)
    assert "HTTP 503" in str(await stream.failure())
    assert len(stream.joined) == 1


async def test_an_answer_in_the_last_event_without_its_end_is_none() -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(id_="a", retry=0)
        await reply.chunk(b'id: b\ndata: {"jsonrpc": "2.0", "id": %d, "result": {}}\n' % stream.message["id"])
        await reply.end_stream()

    stream = Stream(first, answers)
    assert (await stream.call()).text == "done"
    assert stream.joined[0].headers["last-event-id"] == "a"


async def test_it_is_cancelled_while_it_waits_to_join_again() -> None:
    async def first(stream: Stream, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(id_="a", retry=3_600_000)
        await reply.end_stream()

    stream = Stream(first)
    async with scripted(stream.script()) as server, connection(HttpTransport(server.url)) as client:
        with pytest.raises(TimeoutError):
            await client.call("bake", timeout=0.2)
        await until(lambda: server.of("POST", "notifications/cancelled"))


async def test_initialize_is_joined_again_as_well() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize":
            stream.message = asked.message
            await reply.begin_stream({"Mcp-Session-Id": SESSION})
            await reply.event(id_="a", retry=0)
            await reply.end_stream()
        elif asked.method == "GET" and "last-event-id" in asked.headers:
            stream.joined.append(asked)
            told = {
                "protocolVersion": REVISION,
                "capabilities": {},
                "serverInfo": {"name": "x", "version": "1"},
            }
            await reply.begin_stream()
            await reply.event(stream.answer() | {"result": told})
            await reply.end_stream()
        else:
            await greeting(script)(asked, reply)

    stream = Stream()
    async with scripted(script) as server, connection(HttpTransport(server.url)):
        assert stream.joined[0].headers["mcp-session-id"] == SESSION
