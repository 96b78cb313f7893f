"""Sessions over HTTP: session ids, the stream of notifications, and responses resumed after a break."""

from __future__ import annotations

import time
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


class Connections:
    """A script with a step for each connection; the last step is repeated.

    Attributes:
        requests: The requests that came.
        times: When each step began and ended.
    """

    def __init__(self, *steps: Script) -> None:
        self.requests: list[Asked] = []
        self.times: list[float] = []
        self._steps = list(steps)

    async def __call__(self, request: Asked, reply: Reply) -> None:
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        self.requests.append(request)
        self.times.append(time.monotonic())
        await step(request, reply)
        self.times.append(time.monotonic())

    def headers(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


async def call_done(request: Asked, reply: Reply) -> None:
    await reply.result(text("done"))


async def waits(request: Asked, reply: Reply) -> None:
    await reply.hang_up()


def sends(message: Any = None, *, ends: bool = True, **event: Any) -> Script:
    """Send one event of a stream, and end the stream or break it off."""

    async def step(request: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(message, **event)
        if event and not ends:
            await reply.chunk(b"id: place-2\ndata: {")
        if ends:
            await reply.end_stream()
        else:
            reply.cut()

    return step


def answers(status: int) -> Script:
    async def step(request: Asked, reply: Reply) -> None:
        await reply.send(status)

    return step


def client_of(transport: HttpTransport, revision: str = REVISION) -> Client:
    return Client(transport, protocol_version=revision, retries=Retries(attempts=1))


async def test_session_id_is_sent_and_session_deleted() -> None:
    async with scripted(greeting(call_done)) as server, client_of(HttpTransport(server.url)) as client:
        await client.call_tool("bake")
        await client.close()
        first, *rest = server.asked
    assert first.rpc == "initialize"
    assert not first.headers.keys() & {"mcp-session-id", "mcp-protocol-version"}
    assert {request.headers["mcp-session-id"] for request in rest} == {SESSION}
    assert {request.headers["mcp-protocol-version"] for request in rest} == {REVISION}
    assert [request.method for request in rest].count("GET") == 1
    assert rest[-1].method == "DELETE"


async def test_session_id_invalid_is_refused() -> None:
    async with scripted(greeting(call_done, session="a b")) as server:
        with pytest.raises(TransportError, match="visible ASCII"):
            await client_of(HttpTransport(server.url)).__aenter__()


async def test_session_stream_resumes_with_last_event_id() -> None:
    async def stays(request: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(CHANGED)
        await reply.hang_up()

    stream = Connections(sends(CHANGED, id_="a", retry=120), sends(CHANGED, retry=60), stays)
    async with scripted(greeting(call_done, stream=stream)) as server:
        transport = HttpTransport(server.url)
        missed: list[None] = []
        transport.missed.add(lambda: missed.append(None))
        async with client_of(transport):
            await until(lambda: len(stream.requests) == 3)
    assert stream.headers("last-event-id") == [None, "a", "a"]
    assert missed == []
    _, ended, began, ended_again, began_again, *_ = stream.times
    assert 0.118 <= began - ended < http_stream.RETRY
    assert 0.058 <= began_again - ended_again < http_stream.RETRY


async def test_session_stream_404_means_session_gone() -> None:
    stream = Connections(sends(CHANGED, retry=50), answers(404))
    async with scripted(greeting(waits, stream=stream)) as server:
        async with client_of(HttpTransport(server.url)) as client:
            with pytest.raises(StatusError, match="session") as caught:
                await client.call_tool("bake", retry=True)
            assert caught.value.session_is_gone
            assert not client._link.is_open
        assert not server.of("DELETE")
        await until(lambda: not server.open)


async def call(first: Script, resumed: Connections, revision: str = REVISION) -> Any:
    """Call a tool whose response comes in parts: that to the POST, then those to later GETs."""

    async def get(request: Asked, reply: Reply) -> None:
        await (resumed if "last-event-id" in request.headers else answers(405))(request, reply)

    async with (
        scripted(greeting(first, stream=get)) as server,
        client_of(HttpTransport(server.url), revision) as client,
    ):
        return await client.call_tool("bake", retry=True)


PLACE = {"id_": "place-1", "retry": 10}


@pytest.mark.parametrize(("ends", "revision"), [(True, "2025-03-26"), (False, "2025-11-25")])
async def test_response_resumes_on_next_connection(ends: bool, revision: str) -> None:
    ids: list[Any] = []

    async def first(request: Asked, reply: Reply) -> None:
        ids.append(request.message["id"])
        await sends(ends=ends, **PLACE)(request, reply)

    async def answer(request: Asked, reply: Reply) -> None:
        message = {"jsonrpc": "2.0", "id": ids[0], "result": text("done")}
        await sends(message, id_="place-3")(request, reply)

    resumed = Connections(answer)
    assert (await call(first, resumed, revision)).text == "done"
    assert resumed.headers("last-event-id") == ["place-1"]
    assert resumed.headers("mcp-session-id") == [SESSION]
    assert resumed.headers("mcp-protocol-version") == [revision]
    assert resumed.headers("accept") == ["text/event-stream"]


@pytest.mark.parametrize(("revision", "ends"), [("2025-11-25", True), ("2026-07-28", False)])
async def test_response_without_ids_is_lost(revision: str, ends: bool) -> None:
    resumed = Connections(answers(405))
    with pytest.raises(TransportError) as caught:
        await call(sends({"jsonrpc": "2.0", "method": "notifications/x"}, ends=ends), resumed, revision)
    assert ("ended before the response" if ends else "was lost before the response") in str(caught.value)
    assert caught.value.may_have_begun
    assert resumed.requests == []


async def test_response_resume_gives_up() -> None:
    resumed = Connections(answers(503))
    with pytest.raises(TransportError) as caught:
        await call(sends(**PLACE), resumed)
    assert caught.value.may_have_begun
    assert len(resumed.requests) == http_stream.MOST_FAILURES
