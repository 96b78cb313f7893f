"""Request bodies, and limits on running requests, streams and sessions that one client cannot use up."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import HttpOptions, Limits, Principal, Server, Timeouts
from mcpkit.requests.requests_to_client import NO_HEADERS
from mcpkit.transports.http import request
from mcpkit.transports.http.request import Bodies
from mcpkit.transports.http.response import Exchange, RefusedError
from tests.helpers.raw_client import PING, Answer, Client, Serve, initialize
from tests.helpers.tables import each_row
from tests.helpers.waiting import until


async def read_body(
    *parts: bytes, is_cut: bool = False, headers: Mapping[bytes, bytes] = NO_HEADERS
) -> bytes:
    """Read a body from its parts; `is_cut` for a client that disconnects after them."""
    received: asyncio.Queue[Any] = asyncio.Queue()
    for number, part in enumerate(parts, 1):
        more = is_cut or number < len(parts)
        received.put_nowait({"type": "http.request", "body": part, "more_body": more})
    if is_cut:
        received.put_nowait({"type": "http.disconnect"})

    async def send(message: object) -> None:
        raise AssertionError("reading sends no response")

    return await Bodies(Limits(), Timeouts()).read(Exchange(received.get, send, 15, headers))


async def test_body_of_disconnected_client_is_refused() -> None:
    for parts in ([b"{"], []):
        with pytest.raises(RefusedError, match="before the end of the request body"):
            await read_body(*parts, is_cut=True)


async def test_body_reader_propagates_cancellation() -> None:
    reading = asyncio.ensure_future(read_body())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@each_row(("headers", "parts"), [
    (headers, parts)
    for headers in ({b"content-length": b"2"}, {b"transfer-encoding": b"chunked"})
    for parts in ([b""], [b"", b""])
])  # fmt: skip
async def test_announced_empty_body_is_refused_with_cause(headers, parts) -> None:
    with pytest.raises(RefusedError, match=r"although the headers announce one\. Send a body") as refusal:
        await read_body(*parts, headers=headers)
    assert refusal.value.status == 400
    with pytest.raises(RefusedError, match="uvicorn with --http h11"):
        await read_body(*parts, headers={**headers, b"upgrade": b"h2c"})
    assert await read_body(*parts, headers={b"content-length": b"0", b"upgrade": b"h2c"}) == b""


@each_row(("headers", "status"), [
    *(
        ({"content-type": name}, 200)
        for name in ("application/json", "application/json; charset=utf-8", "APPLICATION/JSON")
    ),
    *(
        ({"content-type": name}, 415)
        for name in (
            None, "", "text/plain", "application/x-www-form-urlencoded", "application/json-rpc",
            "multipart/form-data; boundary=application/json",
        )
    ),
    ({"content-encoding": "gzip"}, 415),
])  # fmt: skip
async def test_post_requires_json_without_encoding(headers, status, client) -> None:
    assert (await client.call_tool("echo", {"text": "hi"}, headers=headers).whole()).status == status


REFUSED = [
    ("POST", "/mcp", {"origin": "https://evil.example"}, 403),
    ("POST", "/mcp", {"host": "evil.example"}, 421), ("PUT", "/mcp", {}, 405),
    ("GET", "/mcp", {"accept": "text/html"}, 406), ("DELETE", "/mcp", {}, 400),
    ("POST", "/mcp", {"accept": "text/html"}, 406), ("POST", "/mcp", {"content-type": "text/plain"}, 415),
    ("POST", "/mcp", {"origin": "http://localhost", "content-type": "text/plain"}, 415),
    ("POST", "/sse", {}, 405), ("POST", "/messages", {}, 404),
    ("POST", "/own", {"host": "evil.example"}, 421), ("POST", "/nothing", {}, 404),
]  # fmt: skip
JSON = {"content-type": "application/json"}
LONG, CHUNKED = {"content-length": str(64 * 1024 + 1)}, {"transfer-encoding": "chunked"}


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the rest of a refused body for longer than a test takes."""
    monkeypatch.setattr(request, "_SHORT_BODY_TIME", 60)
    monkeypatch.setattr(request, "_DROP_TIME", 60)


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.limit("body of a request that is refused")
@each_row(("method", "path", "headers", "status"), REFUSED)
async def test_refused_request_with_long_body_closes_connection(method, path, headers, status, client):
    short = JSON | {"content-length": "6"} | headers
    answer = client.open(method, path, headers=short, body=None).feed(b"123", more=True)
    answer = await answer.feed(b"456").whole()
    assert (answer.status, answer.headers.get("connection")) == (status, None)
    for size in (LONG, CHUNKED):
        answer = await client.open(method, path, headers=JSON | size | headers, body=None).head()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        answer.feed(b"x" * 64 * 1024, more=True).feed(b"x")
        assert (await answer.whole()).body


@pytest.mark.limit("time for a body")
@each_row(("body", "size", "options", "status", "version", "connection"), [
    (body, size, options, status, version, connection)
    for body, size, options, status in (
        (None, {"content-length": "101"}, {"limits": Limits(max_request_body_size=100)}, 413),
        (None, LONG, {"limits": Limits(max_request_body_size=100)}, 413),
        (b"x" * 101, CHUNKED, {"limits": Limits(max_request_body_size=100)}, 413),
        (b"{", {"content-length": "2"}, {"timeouts": Timeouts(request_body=0.01)}, 408),
    )
    for version, connection in (("1.1", "close"), ("2", None))
])  # fmt: skip
async def test_large_or_slow_body_closes_connection(
    body: bytes | None,
    size: dict[str, str],
    options: dict[str, Any],
    status: int,
    version: str,
    connection: str | None,
    server: Server,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request, "_SHORT_BODY_TIME", 0.01)
    monkeypatch.setattr(request, "_DROP_TIME", 0.01)
    async with serve(server, **options) as client:
        answer = client.open("POST", headers=JSON | size, body=None, http_version=version)
        if body is not None:
            answer.feed(body, more=True)
        assert ((await answer.whole()).status, answer.headers.get("connection")) == (status, connection)


EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
ADA: dict[str, Any] = {"client": ("203.0.113.8", 50000)}
PLACES = 8


class Gate:
    """Tool that keeps its place until the gate opens."""

    def __init__(self) -> None:
        self.count = 0
        self.opened = asyncio.Event()

    async def wait_open(self) -> str:
        self.count += 1
        await self.opened.wait()
        return "ended"


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture
async def limited(gate: Gate) -> Server:
    server = Server("fair", limits=Limits(concurrent_requests=PLACES))
    server.tool(gate.wait_open)
    server.tool(lambda: "quick", name="quick")
    return server


def by_user(scope: Any) -> Principal | None:
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode())


@pytest.mark.parametrize(
    ("eve", "ada", "name"),
    [
        (EVE, ADA, "address 203.0.113.7"),
        ({"headers": {"x-user": "eve"}} | EVE, {"headers": {"x-user": "ada"}} | EVE, "principal 'eve'"),
    ],
    ids=["address", "principal"],
)
async def test_calls_of_one_client_leave_places_for_others(limited, gate, serve, eve, ada, name) -> None:
    async with serve(limited, http=HttpOptions(principal=by_user)) as client:
        calls = [client.call_tool("wait_open", **eve) for _ in range(PLACES)]
        await until(lambda: gate.count + sum(each.task.done() for each in calls) == PLACES)
        assert (await client.call_tool("quick", **ada).whole()).status == 200
        assert gate.count == PLACES // 2
        gate.opened.set()
        assert sorted([(await each.whole()).status or 0 for each in calls]) == [200] * 4 + [503] * 4
        excess = f"4 from {name}; one client has at most as many of 8 as are left for others"
        for refused in calls:
            if refused.status == 503:
                message = f"Too many requests are running ({excess}). Try again in 1 s"
                assert (refused.error()["message"], refused.headers["retry-after"]) == (message, "1")


@pytest.mark.limit("requests that run")
async def test_calls_from_loopback_may_use_all_places(limited: Server, gate: Gate, serve: Serve) -> None:
    async with serve(limited) as client:
        calls = [client.call_tool("wait_open") for _ in range(PLACES)]
        await until(lambda: gate.count == PLACES)
        refused = await client.call_tool("quick").whole()
        assert refused.error()["message"] == "Too many requests are running (8). Try again in 1 s"
        gate.opened.set()
        assert {(await each.whole()).status for each in calls} == {200}


async def open_session(http: Client, **scope: Any) -> dict[str, str]:
    opening = await http.post(initialize(), **scope).whole()
    return {"mcp-session-id": opening.headers["mcp-session-id"]}


@pytest.mark.limit("places of one client")
async def test_streams_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async def listen(http: Client, **scope: Any) -> Answer:
        headers = {"accept": "text/event-stream", **await open_session(http, **scope)}
        return await http.open("GET", headers=headers, **scope).head()

    async with serve(limited, limits=Limits(max_streams=PLACES)) as client:
        for _ in range(2):  # closed streams release their places
            streams = [
                await (listen(client, **EVE) if number % 2 else client.open("GET", "/sse", **EVE).head())
                for number in range(PLACES)
            ]
            assert [stream.status for stream in streams] == [200] * 4 + [503] * 4
            assert b"(4 from address 203.0.113.7; one client" in (await streams[-1].whole()).body
            assert (await listen(client, **ADA)).status == 200
            await client.aclose()
        assert client.app.router()._service().loop_state.stream_shares.taken == 0  # type: ignore[attr-defined]


async def test_sessions_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async with serve(limited, limits=Limits(max_sessions=PLACES)) as client:
        sessions = [await open_session(client, **EVE) for _ in range(4)]
        for session in sessions:
            assert (await client.post(PING, session, **EVE).whole()).status == 200
        refused = await client.post(initialize(), **EVE).whole()
        assert refused.status == 503
        assert b"Too many sessions are open (4 from address 203.0.113.7; one client has" in refused.body
        assert (await client.post(initialize(), **ADA).whole()).status == 200
        await client.open("DELETE", headers=sessions[0], **EVE).whole()
        assert (await client.post(initialize(), **EVE).whole()).status == 200
