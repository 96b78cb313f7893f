"""The HTTP+SSE transport of 2024-11-05, the transport to ASGI apps, and parsers of event streams and challenges."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from mcpkit._utils.exceptions import StatusError, TransportError
from mcpkit.client.client_messages import ClientWire
from mcpkit.client.http.asgi_transport import AsgiTransport
from mcpkit.client.http.event_stream_reader import Event, EventParser, TooLargeEventError
from mcpkit.client.http.headers_and_errors import read_challenges
from mcpkit.client.http.http_transports import SseTransport
from tests.helpers.processes import Received
from tests.helpers.raw_client import within
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, until

ORIGIN = "http://localhost:8000"
PING = ClientWire("2024-11-05", info={}, capabilities={}).request("ping")


class SseServer:
    """A server with an event stream and responses that a test sets.

    Attributes:
        chunks: The parts of its event stream; None ends it.
        opened: The requests for the stream.
        posted: The requests that came to its endpoint, with their bodies.
        answer: The text and status of its answers to messages.
        gone: Set when the client has closed the stream.
    """

    def __init__(self, endpoint: str = "/messages?session_id=1") -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        if endpoint:
            self.send(f"event: endpoint\ndata: {endpoint}\n\n")
        self.opened: list[Request] = []
        self.posted: list[tuple[Request, bytes]] = []
        self.answer = ("Accepted", 202)
        self.gone = asyncio.Event()
        self.app = Starlette(
            routes=[Route("/sse", self._stream), Route("/{path:path}", self._post, methods=["POST"])]
        )

    def send(self, text: str) -> None:
        self.chunks.put_nowait(text.encode())

    async def _stream(self, request: Request) -> Response:
        self.opened.append(request)

        async def parts() -> AsyncIterator[bytes]:
            try:
                while (chunk := await self.chunks.get()) is not None:
                    yield chunk
            except asyncio.CancelledError:
                self.gone.set()
                raise

        return StreamingResponse(parts(), media_type="text/event-stream; charset=utf-8")

    async def _post(self, request: Request) -> Response:
        self.posted.append((request, await request.body()))
        return PlainTextResponse(*self.answer)


@asynccontextmanager
async def opened(app: Any, **options: Any) -> AsyncIterator[tuple[SseTransport, Received]]:
    """Give an open transport that leaves nothing behind."""
    before = asyncio.all_tasks()
    transport, received = SseTransport(f"{ORIGIN}/sse", app=app, **options), Received()
    try:
        await within(transport.open(received))
        yield transport, received
    finally:
        await within(transport.close())
    await transport.close()
    assert asyncio.all_tasks() - before == set()


async def refusal(app: Any, **options: Any) -> TransportError:
    """Return why a transport could not be opened."""
    with pytest.raises(TransportError) as reported:
        async with opened(app, **options):
            pass
    assert not reported.value.may_have_begun
    return reported.value


async def test_sse_posts_messages_and_reads_stream() -> None:
    server = SseServer()
    async with opened(server.app, headers={"X-Own": "1"}, token="secret") as (transport, received):
        await transport.send(PING)
        for chunk in (": keepalive\n\n", "event: message\nda", 'ta: {"id":1}\n\n', "data: 2\r\n\r\n"):
            server.send(chunk)
        assert [await received.next() for _ in range(2)] == [{"id": 1}, 2]
    await within(server.gone.wait())
    assert received.error is None
    ((posted, body),) = server.posted
    assert (posted.url.path, posted.url.query, body) == ("/messages", "session_id=1", PING.line)
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["mcp-protocol-version"] == "2024-11-05"
    assert server.opened[0].headers["accept"] == "text/event-stream"
    for request in (posted, server.opened[0]):
        assert (request.headers["x-own"], request.headers["authorization"]) == ("1", "Bearer secret")


@each_row("endpoint", [
    "http://localhost:9000/messages", "https://localhost:8000/messages", "//evil.example/messages",
    "http://user:password@localhost:8000/messages", "file:///etc/passwd", "http:////[",
])  # fmt: skip
async def test_sse_endpoint_of_other_origin_is_refused(endpoint: str) -> None:
    server = SseServer(endpoint)
    error = str(await refusal(server.app, token="secret"))
    assert "as the endpoint for messages" in error
    assert "which has another origin" in error
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
    server.answer = ("Could not find session", 404)
    async with opened(server.app) as (transport, _):
        with pytest.raises(StatusError) as reported:
            await transport.send(PING)
    assert reported.value.session_is_gone
    assert not reported.value.may_have_begun


async def test_sse_stream_end_is_loss_and_reopens() -> None:
    server = SseServer()
    transport, received = SseTransport(ORIGIN + "/sse", app=server.app), Received()
    await transport.open(received)
    server.chunks.put_nowait(None)
    lost = await received.end()
    assert str(lost) == f"{ORIGIN} closed its event stream"
    assert isinstance(lost, TransportError)
    assert lost.may_have_begun
    # No task of the stream is left, so sending fails at once.
    assert "mcpkit-sse" not in {task.get_name() for task in asyncio.all_tasks()}
    with pytest.raises(TransportError) as reported:
        await transport.send(PING)
    assert not reported.value.may_have_begun
    await transport.close()
    server.send("event: endpoint\ndata: /messages\n\n")
    await transport.open(received)
    await transport.send(PING)
    await transport.close()
    assert len(server.posted) == 1


async def test_sse_event_too_large_ends_stream() -> None:
    server = SseServer()
    async with opened(server.app, max_answer=1000) as (_, received):
        server.send(f'data: "{"x" * 988}"\n\n')
        assert len(await received.next()) == 988
        server.send("data: " + "x" * 1001)
        assert "more than 1,000 bytes" in str(await received.end())


def read_events(*pieces: bytes, max_size: int = 1000) -> list[Event]:
    stream = EventParser(max_size)
    return [event for piece in pieces for event in stream.feed(piece)]


@each_row(("pieces", "expected"), [
    *[([end.join([b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])], [b"1\n2", b"3"])
      for end in (b"\n", b"\r", b"\r\n")],
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
    assert [event.data for event in read_events(*pieces)] == expected


@given(st.lists(st.integers(1, 12), max_size=30))
def test_event_stream_pieces_make_no_difference(sizes: list[int]) -> None:
    text = 'id: ä\r\ndata: {"é":\r\ndata: "日本"}\r\rretry: 5\n: c\n\ndata: 2\r\n\r\n'.encode()
    ends = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    pieces = [text[begin:end] for begin, end in zip(ends, [*ends[1:], None], strict=True)]
    stream = EventParser(1000)
    found = [event.data.decode() for piece in pieces for event in stream.feed(piece)]
    assert found == ['{"é":\n"日本"}', "2"]
    assert (stream.last_id, stream.retry) == ("ä".encode(), 0.005)


@each_row("line", [b"id:", b"id: \x01", b"id: a "])
def test_event_stream_id_unusable_as_header_is_none(line: bytes) -> None:
    stream = EventParser(1000)
    assert list(stream.feed(b"id: 1\n\n" + line + b"\n\n")) == []
    assert stream.last_id is None


@each_row("text", [b"data: " + b"x" * 200, b"data\n" * 40, b"x" * 200, b"id: " + b"x" * 200 + b"\n"])
def test_event_stream_event_too_large_is_error(text: bytes) -> None:
    with pytest.raises(TooLargeEventError, match="100 bytes"):
        read_events(text[:90], text[90:], max_size=100)


@each_row(("values", "found"), [
    ([], []), ([""], []), (["=?!"], []), (["Basic"], [("Basic", {})]),
    (['Bearer realm=""'], [("Bearer", {"realm": ""})]),
    (['Basic realm="a, b"'], [("Basic", {"realm": "a, b"})]),
    (['Bearer realm = "a\\"b\\\\c" , SCOPE=read'], [("Bearer", {"realm": 'a"b\\c', "scope": "read"})]),
    (['Bearer error="invalid_token", Basic realm="x"'],
     [("Bearer", {"error": "invalid_token"}), ("Basic", {"realm": "x"})]),
    (["Negotiate", 'Bearer scope="a b"'], [("Negotiate", {}), ("Bearer", {"scope": "a b"})]),
    (["Negotiate a87421000492aa874209af8bc028==, Bearer"], [("Negotiate", {}), ("Bearer", {})]),
    (["Digest a=1, a=2,, ,b=3"], [("Digest", {"a": "1", "b": "3"})]),
    (['Bearer realm="never ended'], [("Bearer", {})]),
])  # fmt: skip
def test_challenges_are_parsed(values: list[str], found: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, dict(each.parameters)) for each in read_challenges(values)] == found


@asynccontextmanager
async def client_of(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client of an app, that leaves no task behind."""
    before = asyncio.all_tasks()
    async with httpx2.AsyncClient(transport=AsgiTransport(app), base_url="http://localhost:8000") as client:
        yield client
    assert asyncio.all_tasks() - before == set()


PIECE = b"x" * 1024
START = {"type": "http.response.start", "status": 200, "headers": []}


def body_part(part: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": part, "more_body": more}


async def test_asgi_send_waits_for_reader() -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        assert scope["type"] == "http"  # it has no lifespan
        await send(START)
        while sent < 1000:
            await send(body_part(PIECE, more=True))
            sent += 1
        await send(body_part())

    async with client_of(app) as client, client.stream("GET", "/") as response:
        parts = response.aiter_raw()
        await anext(parts)
        for _ in range(10):
            await asyncio.sleep(0)
        assert sent <= 66
        read = len(PIECE)
        async for part in parts:
            read += len(part)
            assert sent * len(PIECE) - read <= 66 * len(PIECE)
        assert (sent, read) == (1000, 1000 * len(PIECE))


async def test_asgi_response_closed_disconnects_app() -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send(START)
        await send(body_part(b"first", more=True))
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append("disconnected")
        with pytest.raises(ConnectionResetError):
            await send(body_part(b"second", more=True))
        ended.append("refused")

    async with client_of(app) as client:
        async with client.stream("GET", "/") as response:
            assert await anext(response.aiter_raw()) == b"first"
        await until(lambda: ended == ["disconnected", "refused"])


class AppWithLifespan:
    """An app that keeps the steps of its lifespan, and the tasks that entered and left it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.steps: list[str] = []
        self.tasks: list[object] = []
        app = Starlette(routes=[Route("/", self.page)], lifespan=self.lifespan)
        self.client = httpx2.AsyncClient(transport=AsgiTransport(app), base_url="http://localhost")

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[dict[str, str]]:
        self.steps.append("starting")
        self.tasks.append(asyncio.current_task())
        if self.fails:
            raise ValueError("no such table")
        async with anyio.create_task_group():  # the task that entered it has to leave it
            yield {"word": "here"}
        self.tasks.append(asyncio.current_task())
        self.steps.append("ended")

    async def page(self, request: Request) -> PlainTextResponse:
        word = request.state.word
        request.state.word = "changed"
        return PlainTextResponse(word)


async def test_lifespan_runs_with_client() -> None:
    app = AppWithLifespan()
    async with app.client as client:
        assert app.steps == ["starting"]
        assert [(await client.get("/")).text for _ in range(2)] == ["here", "here"]
    assert app.steps == ["starting", "ended"]
    assert app.tasks[0] is app.tasks[1]


async def test_lifespan_startup_failure_is_error() -> None:
    app = AppWithLifespan(fails=True)
    with pytest.raises(TransportError, match="the app could not start: ValueError: no such table") as raised:
        await app.client.__aenter__()
    assert isinstance(raised.value.__cause__, ValueError)
    assert not raised.value.may_have_begun
