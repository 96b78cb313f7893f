"""Request bodies, and limits on running requests, streams and sessions that one client cannot use up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import (
    HttpOptions,
    Limits,
    Principal,
    Server,
    Timeouts,
)
from mcpkit.calls.channel import NO_HEADERS
from mcpkit.transports.http.exchange import Exchange, RefusedError
from mcpkit.transports.http.intake import refused_body as unread
from mcpkit.transports.http.intake.body import Bodies
from mcpkit.transports.http.options import Settings
from tests.helpers.raw_client import PING, Answer, Client, Serve, initialize
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


async def send(message: object) -> None:
    raise AssertionError("reading sends no response")


async def read_body(
    *parts: bytes,
    limit: int = 100,
    is_cut: bool = False,
    is_late: bool = False,
    seconds: float = 10,
    headers: Mapping[bytes, bytes] = NO_HEADERS,
) -> bytes:
    messages: list[dict[str, object]] = [
        {"type": "http.request", "body": part, "more_body": is_cut or number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]
    if is_cut:
        messages.append({"type": "http.disconnect"})
    coming = iter(messages)

    async def receive() -> dict[str, object]:
        if is_late:
            await asyncio.sleep(0)
        message = next(coming, None)
        if message is None:
            await asyncio.Event().wait()
            raise AssertionError
        return message

    bodies = Bodies(
        Settings(limits=Limits(max_request_body_size=limit), timeouts=Timeouts(request_body=seconds))
    )
    return await bodies.read(Exchange(receive, send, 15, headers))


async def test_body_of_disconnected_client_is_refused() -> None:
    for parts in ([b"{"], []):
        with pytest.raises(RefusedError, match="before the end of the request body"):
            await read_body(*parts, is_cut=True)


async def test_body_reader_propagates_cancellation() -> None:
    reading = asyncio.ensure_future(read_body(seconds=60))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize("headers", [{b"content-length": b"2"}, {b"transfer-encoding": b"chunked"}])
@pytest.mark.parametrize("parts", [[b""], [b"", b""]])
async def test_announced_empty_body_is_refused_with_cause(
    headers: dict[bytes, bytes], parts: list[bytes]
) -> None:
    with pytest.raises(RefusedError, match=r"although the headers announce one\. Send a body") as refusal:
        await read_body(*parts, headers=headers)
    assert refusal.value.status == 400
    with pytest.raises(RefusedError, match="uvicorn with --http h11"):
        await read_body(*parts, headers={**headers, b"upgrade": b"h2c"})
    assert await read_body(*parts, headers={b"content-length": b"0", b"upgrade": b"h2c"}) == b""


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200), ("application/json; charset=utf-8", 200), ("APPLICATION/JSON", 200),
        (None, 415), ("", 415), ("text/plain", 415), ("application/x-www-form-urlencoded", 415),
        ("application/json-rpc", 415), ("multipart/form-data; boundary=application/json", 415),
    ],
)  # fmt: skip
async def test_post_requires_json_media_type(content_type: str | None, status: int, client: Client) -> None:
    answer = client.call_tool("echo", {"text": "hi"}, headers={"content-type": content_type})
    assert (await answer.whole()).status == status


async def test_post_with_content_encoding_is_refused(client: Client) -> None:
    answer = client.call_tool("echo", {"text": "hi"}, headers={"content-encoding": "gzip"})
    assert (await answer.whole()).status == 415


LONG = str(64 * 1024 + 1)


REFUSED = [
    ("POST", "/mcp", {"origin": "https://evil.example"}, 403),
    ("POST", "/mcp", {"host": "evil.example"}, 421),
    ("PUT", "/mcp", {}, 405),
    ("GET", "/mcp", {"accept": "text/html"}, 406),
    ("DELETE", "/mcp", {}, 400),
    ("POST", "/mcp", {"accept": "text/html"}, 406),
    ("POST", "/mcp", {"content-type": "text/plain"}, 415),
    ("POST", "/mcp", {"origin": "http://localhost", "content-type": "text/plain"}, 415),
    ("POST", "/sse", {}, 405),
    ("POST", "/messages", {}, 404),
    ("POST", "/own", {"host": "evil.example"}, 421),
    ("POST", "/nothing", {}, 404),
]


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_SOON", 0.01)
    monkeypatch.setattr(unread, "_LATE", 0.01)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_SOON", 60)
    monkeypatch.setattr(unread, "_LATE", 60)


def post_headers(headers: dict[str, str], **more: str) -> dict[str, str]:
    return {"content-type": "application/json", **more} | headers


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
async def test_refused_request_with_short_body_keeps_connection(
    method: str, path: str, headers: dict[str, str], status: int, client: Client
) -> None:
    pairs = post_headers(headers) | {"content-length": "6"}
    answer = client.open(method, path, headers=pairs, body=None).feed(b"123", more=True)
    answer = await answer.feed(b"456").whole()
    assert (answer.status, answer.headers.get("connection")) == (status, None)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("size", [{"content-length": LONG}, {"transfer-encoding": "chunked"}])
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED[::2])
@pytest.mark.limit("body of a request that is refused")
async def test_refused_request_with_long_body_drops_rest_and_closes(
    method: str, path: str, headers: dict[str, str], status: int, size: dict[str, str], client: Client
) -> None:
    answer = await client.open(method, path, headers=post_headers(headers) | size, body=None).head()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    answer.feed(b"x" * 64 * 1024, more=True).feed(b"x")
    assert (await answer.whole()).body


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(
    ("body", "size", "options", "status"),
    [
        (None, {"content-length": "101"}, {"limits": Limits(max_request_body_size=100)}, 413),
        (None, {"content-length": LONG}, {"limits": Limits(max_request_body_size=100)}, 413),
        (b"x" * 101, {"transfer-encoding": "chunked"}, {"limits": Limits(max_request_body_size=100)}, 413),
        (b"{", {"content-length": "2"}, {"timeouts": Timeouts(request_body=0.01)}, 408),
    ],
)
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.limit("time for a body")
async def test_large_or_slow_body_closes_connection(
    body: bytes | None,
    size: dict[str, str],
    options: dict[str, Any],
    status: int,
    version: str,
    server: Server,
    serve: Serve,
) -> None:
    async with serve(server, **options) as client:
        answer = client.open("POST", headers=post_headers(size), body=None, http_version=version)
        if body is not None:
            answer.feed(body, more=True)
        assert (await answer.whole()).status == status
        assert answer.headers.get("connection") == (None if version == "2" else "close")


EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
ADA: dict[str, Any] = {"client": ("203.0.113.8", 50000)}
PLACES = 8


class Gate:
    """Tool that keeps its place until the gate opens."""

    def __init__(self) -> None:
        self.count = 0
        self.opened = asyncio.Event()

    async def hold(self) -> str:
        self.count += 1
        await self.opened.wait()
        return "ended"


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture
async def limited(gate: Gate) -> Server:
    server = Server("fair", limits=Limits(concurrent_requests=PLACES))
    server.tool(gate.hold)
    server.tool(lambda: "quick", name="quick")
    return server


def by_user(scope: Any) -> Principal | None:
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode())


async def call(http: Client, name: str, era: str, headers: Any = None, **scope: Any) -> Answer:
    """Post a tool call, in a new session where there are sessions."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    headers = dict(headers or {})
    if era == "stateless":
        fields = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
        params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in fields.items()}
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    elif era == "guests":
        headers["mcp-protocol-version"] = "2025-06-18"
    else:
        opening = await http.post(initialize(), headers, **scope).whole()
        headers["mcp-session-id"] = opening.headers["mcp-session-id"]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await http.post(message, headers, **scope).whole()


@pytest.mark.parametrize(
    ("era", "eve", "ada", "name"),
    [
        ("stateless", EVE, ADA, "address 203.0.113.7"),
        ("sessions", EVE, ADA, "address 203.0.113.7"),
        (
            "guests",
            {"headers": {"x-user": "eve"}} | EVE,
            {"headers": {"x-user": "ada"}} | EVE,
            "principal 'eve'",
        ),
    ],
    ids=["address", "session", "principal"],
)
async def test_calls_of_one_client_leave_places_for_others(
    limited: Server, gate: Gate, serve: Serve, era: str, eve: dict[str, Any], ada: dict[str, Any], name: str
) -> None:
    async with serve(limited, http=HttpOptions(principal=by_user), stateless=era == "guests") as client:
        calls = [asyncio.create_task(call(client, "hold", era, **eve)) for _ in range(PLACES)]
        await until(lambda: gate.count + sum(each.done() for each in calls) == PLACES)
        assert (await call(client, "quick", era, **ada)).status == 200
        assert gate.count == PLACES // 2
        gate.opened.set()
        answers = await asyncio.gather(*calls)
    assert sorted(answer.status or 0 for answer in answers) == [200] * 4 + [503] * 4
    excess = f"4 from {name}; one client has at most as many of 8 as are left for others"
    refused = [answer for answer in answers if answer.status == 503]
    assert {answer.error()["message"] for answer in refused} == {
        f"Too many requests are running ({excess}). Try again in 1 s"
    }
    assert all(answer.headers["retry-after"] for answer in refused)


async def test_calls_from_loopback_may_use_all_places(limited: Server, gate: Gate, serve: Serve) -> None:
    async with serve(limited) as client:
        calls = [asyncio.create_task(call(client, "hold", "stateless")) for _ in range(PLACES)]
        await until(lambda: gate.count == PLACES)
        refused = await call(client, "quick", "stateless")
        gate.opened.set()
        assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
    assert refused.error()["message"] == "Too many requests are running (8). Try again in 1 s"


@pytest.mark.limit("places of one client")
async def test_streams_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async def listen(http: Client, **scope: Any) -> Answer:
        opening = await http.post(initialize(), **scope).whole()
        headers = {"accept": "text/event-stream", "mcp-session-id": opening.headers["mcp-session-id"]}
        return await http.open("GET", headers=headers, **scope).head()

    async with serve(limited, limits=Limits(max_streams=PLACES)) as client:
        for _ in range(2):  # closed streams release their places
            streams = [
                await (listen(client, **EVE) if number % 2 else client.open("GET", "/sse", **EVE).head())
                for number in range(PLACES)
            ]
            assert [stream.status for stream in streams] == [200] * 4 + [503] * 4
            assert b"(4 from address 203.0.113.7; one client" in (await streams[-1].whole()).body
            streams.append(await listen(client, **ADA))
            assert streams[-1].status == 200
            await client.aclose()
        assert client.app.door()._begin().environment.streams.taken == 0  # type: ignore[attr-defined]


async def test_sessions_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async with serve(limited, limits=Limits(max_sessions=PLACES)) as client:
        opening = [await client.post(initialize(), **EVE).whole() for _ in range(4)]
        for each in opening:
            session = {"mcp-session-id": each.headers["mcp-session-id"]}
            assert (await client.post(PING, session, **EVE).whole()).status == 200
        refused = await client.post(initialize(), **EVE).whole()
        assert refused.status == 503
        assert b"Too many sessions are open (4 from address 203.0.113.7; one client has" in refused.body
        assert (await client.post(initialize(), **ADA).whole()).status == 200
        await client.open("DELETE", headers=session, **EVE).whole()
        assert (await client.post(initialize(), **EVE).whole()).status == 200
