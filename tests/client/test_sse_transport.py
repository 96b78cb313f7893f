"""The HTTP+SSE transport of 2024-11-05 at the client, and the parsers of event streams and challenges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from mcpkit.client.link.errors import StatusError, TransportError
from mcpkit.client.transports.http.challenge import read_challenges
from mcpkit.client.transports.http.event_stream import Event, EventStream, TooLargeEventError
from mcpkit.client.transports.http.sse import SseTransport
from mcpkit.protocol.client import ClientWire
from tests.helpers.raw_client import within
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio

ORIGIN = "http://localhost:8000"
PING = ClientWire("2024-11-05", info={}, capabilities={}).request("ping")


class Recorder:
    """What a transport has brought.

    Attributes:
        lines: The messages.
        losses: Why nothing comes any more.
        answered: The ids of requests that wait no more.
    """

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.losses: asyncio.Queue[Exception] = asyncio.Queue()
        self.answered: set[object] = set()

    def receive(self, line: bytes, request_id: object = None) -> None:
        self.lines.put_nowait(line)

    def is_pending(self, id_: object) -> bool:
        return id_ not in self.answered

    def connection_lost(self, error: Exception) -> None:
        self.losses.put_nowait(error)


class SseServer:
    """A server that does as a test says.

    Attributes:
        chunks: The parts of its event stream; None ends it.
        posted: The requests that came to its endpoint, with their bodies.
        answer: What they are answered with.
        gone: Set when the client has closed the stream.
    """

    def __init__(self, endpoint: str = "/messages?session_id=1") -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        if endpoint:
            self.say(f"event: endpoint\ndata: {endpoint}\n\n")
        self.opened: list[Request] = []
        self.posted: list[tuple[Request, bytes]] = []
        self.answer: Callable[[], Awaitable[Response]] = self.accept
        self.gone = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/sse", self.stream),
                Route("/old", lambda _: RedirectResponse("/sse", 307)),
                Route("/{path:path}", self.post, methods=["POST"]),
            ]
        )

    def say(self, text: str | None) -> None:
        self.chunks.put_nowait(None if text is None else text.encode())

    async def stream(self, request: Request) -> Response:
        self.opened.append(request)

        async def parts() -> AsyncIterator[bytes]:
            try:
                while (chunk := await self.chunks.get()) is not None:
                    yield chunk
            except asyncio.CancelledError:
                self.gone.set()
                raise

        return StreamingResponse(parts(), media_type="text/event-stream; charset=utf-8")

    async def post(self, request: Request) -> Response:
        self.posted.append((request, await request.body()))
        return await self.answer()

    async def accept(self) -> Response:
        return PlainTextResponse("Accepted", 202)

    async def nothing(self) -> Response:
        request, _ = self.posted[-1]
        while not await request.is_disconnected():
            await asyncio.sleep(0)
        return Response()


@asynccontextmanager
async def opened(
    app: Any, path: str = "/sse", **options: Any
) -> AsyncIterator[tuple[SseTransport, Recorder]]:
    """Give an open transport that leaves nothing behind."""
    before = asyncio.all_tasks()
    transport, recorder = SseTransport(ORIGIN + path, app=app, **options), Recorder()
    try:
        await within(transport.open(recorder))
        yield transport, recorder
    finally:
        await within(transport.close())
    await transport.close()
    assert asyncio.all_tasks() - before == set()
    assert recorder.losses.empty()


async def refusal(app: Any, path: str = "/sse", **options: Any) -> TransportError:
    """Return why a transport could not be opened."""
    with pytest.raises(TransportError) as reported:
        async with opened(app, path, **options):
            pass
    assert not reported.value.may_have_begun
    return reported.value


async def test_sse_posts_messages_and_reads_stream() -> None:
    server = SseServer()
    async with opened(server.app, headers={"X-Own": "1"}, token="secret") as (transport, recorder):
        await transport.send(PING)
        for chunk in (": keepalive\n\n", "event: message\nda", 'ta: {"id":1}\n\n', "data: 2\r\n\r\n"):
            server.say(chunk)
        assert [await within(recorder.lines.get()) for _ in range(2)] == [b'{"id":1}', b"2"]
    await within(server.gone.wait())
    ((posted, body),) = server.posted
    assert (posted.url.path, posted.url.query, body) == ("/messages", "session_id=1", PING.line)
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["mcp-protocol-version"] == "2024-11-05"
    assert server.opened[0].headers["accept"] == "text/event-stream"
    for request in (posted, server.opened[0]):
        assert (request.headers["x-own"], request.headers["authorization"]) == ("1", "Bearer secret")


@pytest.mark.parametrize("endpoint", [
    "http://localhost:9000/messages", "https://localhost:8000/messages", "//evil.example/messages",
    "http://user:password@localhost:8000/messages", "file:///etc/passwd", "http:////[",
])  # fmt: skip
async def test_sse_endpoint_of_other_origin_is_refused(endpoint: str) -> None:
    server = SseServer(endpoint)
    error = await refusal(server.app, token="secret")
    assert "as the endpoint for messages" in str(error)
    assert "which has another origin" in str(error)
    assert server.posted == []


async def test_sse_without_endpoint_times_out() -> None:
    server = SseServer(endpoint="")
    clock = LoopClock()
    opening = asyncio.ensure_future(refusal(server.app, connect_timeout=5.0))
    while not server.opened:
        await asyncio.sleep(0)
    clock.ahead += 5
    error = await within(opening)
    assert str(error) == f"{ORIGIN} did not send the endpoint for messages within 5 s"
    await within(server.gone.wait())


async def test_sse_session_gone() -> None:
    server = SseServer()

    async def forget() -> Response:
        return PlainTextResponse("Could not find session", 404)

    server.answer = forget
    async with opened(server.app) as (transport, _):
        with pytest.raises(StatusError) as reported:
            await transport.send(PING)
    assert reported.value.session_is_gone
    assert not reported.value.may_have_begun


async def test_sse_stream_end_is_loss_and_reopens() -> None:
    server = SseServer()
    transport, recorder = SseTransport(ORIGIN + "/sse", app=server.app), Recorder()
    await transport.open(recorder)
    server.say(None)
    lost = await within(recorder.losses.get())
    assert str(lost) == f"{ORIGIN} closed its event stream"
    assert isinstance(lost, TransportError)
    assert lost.may_have_begun
    await until(lambda: "mcpkit-sse" not in {task.get_name() for task in asyncio.all_tasks()})
    with pytest.raises(TransportError) as reported:
        await transport.send(PING)
    assert not reported.value.may_have_begun
    await transport.close()
    server.say("event: endpoint\ndata: /messages\n\n")
    await transport.open(recorder)
    await transport.send(PING)
    await transport.close()
    assert len(server.posted) == 1


async def test_sse_event_too_large_ends_stream() -> None:
    server = SseServer()
    async with opened(server.app, max_answer=1000) as (_, recorder):
        server.say("data: " + "x" * 990 + "\n\n")
        assert len(await within(recorder.lines.get())) == 990
        server.say("data: " + "x" * 1001)
        lost = await within(recorder.losses.get())
    assert "more than 1,000 bytes" in str(lost)


def read_events(*pieces: bytes, most: int = 1000) -> list[Event]:
    stream = EventStream(most)
    return [event for piece in pieces for event in stream.feed(piece)]


def data(*pieces: bytes) -> list[bytes]:
    return [event.data for event in read_events(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_event_stream_line_ends(end: bytes) -> None:
    text = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert read_events(text) == [(b"a", b"1\n2"), (b"message", b"3")]


@each_row(("pieces", "expected"), [
    ([b"data: 1\r", b"\ndata: 2\r\n\r", b"\ndata: 3\r", b"\n\r", b"\n"], [b"1\n2", b"3"]),
    ([b"data: 1\r", b"\r"], [b"1"]),
    ([b"data: 1\n\ndata: 2\n"], [b"1"]),
    ([b"data:1\n\ndata: 2\n\ndata:  3\n\n"], [b"1", b"2", b" 3"]),
    ([b"data\ndata\n\n"], [b"\n"]),
    ([b": hello\n:\nwhatever: x\ndata: 1\n\n:\n\n"], [b"1"]),
    ([b"id: 1\ndata:\n\nevent: ping\n\nretry: 10\n\n\n\n"], []),
    ([b"\xef\xbb", b"\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"], [b"1"]),
])  # fmt: skip
def test_event_stream_data(pieces: list[bytes], expected: list[bytes]) -> None:
    assert data(*pieces) == expected


@given(st.lists(st.integers(1, 12), max_size=30))
def test_event_stream_pieces_make_no_difference(sizes: list[int]) -> None:
    text = 'id: ä\r\ndata: {"é":\r\ndata: "日本"}\r\rretry: 5\n: c\n\ndata: 2\r\n\r\n'.encode()
    pieces = []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    stream = EventStream(1000)
    found = [event.data.decode() for piece in [*pieces, rest] for event in stream.feed(piece)]
    assert found == ['{"é":\n"日本"}', "2"]
    assert (stream.last_id, stream.retry) == ("ä".encode(), 0.005)


@pytest.mark.parametrize("line", [b"id:", b"id: \x01", b"id: a "])
def test_event_stream_id_unusable_as_header_is_none(line: bytes) -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"id: 1\n\n" + line + b"\n\n")) == []
    assert stream.last_id is None


@pytest.mark.parametrize(
    "text", [b"data: " + b"x" * 200, b"data\n" * 40, b"x" * 200, b"id: " + b"x" * 200 + b"\n"]
)
def test_event_stream_event_too_large_is_error(text: bytes) -> None:
    with pytest.raises(TooLargeEventError, match="100 bytes"):
        read_events(text[:90], text[90:], most=100)


@each_row(("values", "found"), [
    ([], []),
    ([""], []),
    (["Basic"], [("Basic", {})]),
    (['Basic realm="a, b"'], [("Basic", {"realm": "a, b"})]),
    (['Bearer realm = "a\\"b\\\\c" , SCOPE=read'], [("Bearer", {"realm": 'a"b\\c', "scope": "read"})]),
    (['Bearer error="invalid_token", Basic realm="x"'],
     [("Bearer", {"error": "invalid_token"}), ("Basic", {"realm": "x"})]),
    (["Negotiate", 'Bearer scope="a b"'], [("Negotiate", {}), ("Bearer", {"scope": "a b"})]),
    (["Negotiate a87421000492aa874209af8bc028==, Bearer"], [("Negotiate", {}), ("Bearer", {})]),
    (["Digest a=1, a=2,, ,b=3"], [("Digest", {"a": "1", "b": "3"})]),
    (['Bearer realm="never ended'], [("Bearer", {})]),
    (["=?!"], []),
    (['Bearer realm=""'], [("Bearer", {"realm": ""})]),
])  # fmt: skip
def test_challenges_are_parsed(values: list[str], found: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, dict(each.parameters)) for each in read_challenges(values)] == found
