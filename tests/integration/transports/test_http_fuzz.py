"""Random requests: the app answers or refuses each, without an error or a hang, and serves the next request."""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import h11
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit import Context, HttpOptions, Limits, Timeouts, ToolError
from tests.helpers.pipe import stateless_meta
from tests.helpers.servers.full import make_server
from tests.helpers.serving import app_of

pytestmark = pytest.mark.long

DEFAULT_TIMEOUT = 10.0
EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "25"))
SESSION = "(session)"
"""Placeholder of the session id."""
COMMON = {
    "Host": "127.0.0.1",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}


class Request(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    content: bytes
    body: str = "whole"
    """`whole`, `chunked`, `garbled` (invalid chunks), `stalled`, `cut` (half closed) or `vanished` (reset)."""


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def stateless(method: str, name: str = "", **params: Any) -> Any:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method} | (
        {"Mcp-Name": name} if name else {}
    )
    names = {"uri" if method == "resources/read" else "name": name} if name else {}
    return "POST", "/mcp", headers, call(method, **names, **params, _meta=stateless_meta())


def in_session(message: Any, method: str = "POST", **headers: str) -> Any:
    return (
        method,
        "/mcp",
        {"Mcp-Session-Id": SESSION, "MCP-Protocol-Version": "2025-11-25", **headers},
        message,
    )


VALID = [
    stateless("tools/list"),
    stateless("tools/call", "echo", arguments={"text": "a"}),
    stateless("tools/call", "region", arguments={"region": "eu"}),
    stateless("resources/read", "weather://fixed"),
    stateless("prompts/get", "plan", arguments={"city": "Bern"}),
    stateless("subscriptions/listen", notifications={"toolsListChanged": True}),
    ("POST", "/mcp", {}, call("initialize", **CLIENT)),
    in_session(call("ping")),
    in_session(call("tools/call", name="report", _meta={"progressToken": "p"})),
    in_session(call("tools/call", name="refuse")),
    in_session(call("resources/subscribe", uri="weather://fixed")),
    in_session({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    in_session({"jsonrpc": "2.0", "id": 1, "result": {}}),
    in_session([call("ping"), call("tools/list")]),
    in_session(None, "GET", **{"Last-Event-ID": "1"}),
    in_session(None, "DELETE"),
    ("GET", "/sse", {}, None),
    ("POST", f"/messages?session_id={SESSION}", {}, call("ping")),
    ("OPTIONS", "/mcp", {"Origin": "http://localhost:6274", "Access-Control-Request-Method": "POST"}, None),
]
JUNK = st.recursive(
    st.sampled_from([None, True, 0, -1, 2**53, 1.5, "", "name", "2026-07-28", "tools/call"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
METHODS = ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "BREW", "post"]
TARGETS = [
    "/mcp/", "/mcp?x=1", "/mcp/x", "//mcp", "/%6dcp", "/", "/health", "/nothing", "/sse/", "/messages",
    "/messages?session_id=", "/..;/mcp",
]  # fmt: skip
NAMES = [
    *COMMON, "Origin", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
    "Mcp-Param-Region",
]  # fmt: skip
NAMES += ["Last-Event-ID", "Authorization", "Content-Encoding", "Access-Control-Request-Headers"]
VALUES = [
    "", "*/*", "null", "application/json; charset=utf-8", "text/plain", ";;,,=", "2026-07-28",
    "1999-01-01",
]  # fmt: skip
VALUES += [
    "tools/list",
    "=?base64?ZWNo?=",
    SESSION + "x",
    "evil.example",
    "http://evil.example",
    "9" * 400,
    "gzip",
    "\xe9",
]
BYTES = st.sampled_from(
    [b"", b"{", b"[]", b"null", b"NaN", b"\xef\xbb\xbf{}", b"[" * 2000, b'"\\ud800"']
) | st.binary(max_size=30)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A valid request with up to three mistakes."""
    method, target, headers, message = draw(st.sampled_from(VALID))
    fields = list((COMMON | headers).items())
    mistakes = draw(
        st.lists(st.sampled_from(["method", "target", "field", "json", "bytes", "body"]), max_size=3)
    )
    if "method" in mistakes:
        method = draw(st.sampled_from(METHODS))
    if "target" in mistakes:
        target = draw(st.sampled_from(TARGETS))
    if "field" in mistakes:
        name, value = draw(st.sampled_from(NAMES)), draw(st.sampled_from(VALUES))
        rest = [field for field in fields if field[0] != name]
        fields = draw(st.sampled_from([rest, [*rest, (name, value)], [*fields, (name, value)]]))
    if "json" in mistakes:
        message = draw(changed_json(message))
    content = b"" if message is None else json.dumps(message).encode()
    if "bytes" in mistakes:
        content = content[: draw(st.integers(0, len(content)))] + draw(BYTES)
    bodies = ["chunked", "garbled", "stalled", "cut", "vanished"]
    body = draw(st.sampled_from(bodies)) if "body" in mistakes else "whole"
    return Request(method, target, tuple(fields), content, body)


@st.composite
def changed_json(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 3)) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: draw(changed_json(value[key]))}
    return draw(JUNK | st.just([value]) | st.just({"params": value}))


class Address(NamedTuple):
    host: str
    port: int


@pytest.fixture(scope="module", params=["h11", "httptools"])
def address(request: pytest.FixtureRequest) -> Iterator[Address]:
    server = make_server()

    @server.tool
    async def close(ctx: Context) -> None:
        await ctx.http.close_stream()
        raise ToolError("closed")

    app = app_of(
        server,
        limits=Limits(max_request_body_size=4_000),
        timeouts=Timeouts(request_body=0.2),
        http=HttpOptions(readiness_path="/health", sse_ping_interval=0.5),
    )
    config = uvicorn.Config(
        app, http=request.param, loop="asyncio", ws="none", log_config=None, timeout_graceful_shutdown=1
    )
    running, listening = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield Address(*listening.getsockname())
    running.should_exit = True
    thread.join(DEFAULT_TIMEOUT)
    assert not thread.is_alive()


def send(address: Address, request: Request, session: str = "") -> tuple[int, bytes] | None:
    """Return status and header block, or None where the connection ends without a response."""
    with socket.create_connection(address, DEFAULT_TIMEOUT) as connection:
        fields = [(name, value.replace(SESSION, session)) for name, value in request.headers]
        content, is_chunked = request.content, request.body in {"chunked", "garbled"}
        if is_chunked:
            fields.append(("Transfer-Encoding", "chunked"))
            end = b"z\r\n" if request.body == "garbled" else b"0\r\n\r\n"
            content = (b"%x\r\n%s\r\n" % (len(content), content) if content else b"") + end
        elif content or request.body != "whole":
            fields.append(("Content-Length", str(len(content) + (0 if request.body == "whole" else 7))))
        head = f"{request.method} {request.target.replace(SESSION, session)} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
        try:
            connection.sendall(head.encode("latin-1") + content)
            if request.body == "vanished":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return None
            if request.body in {"garbled", "cut"}:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server has answered and closed
        try:
            block = b""
            while b"\r\n\r\n" not in block and (chunk := connection.recv(65536)):
                block += chunk
        except ConnectionResetError:
            return None
        return (int(block.split()[1]), block) if block else None


def open_session(address: Address) -> str:
    request = Request(
        "POST", "/mcp", tuple(COMMON.items()), json.dumps(call("initialize", **CLIENT)).encode()
    )
    response = send(address, request)
    assert response is not None
    assert response[0] == 200
    (session,) = (
        line.split(b": ")[1]
        for line in response[1].splitlines()
        if line.lower().startswith(b"mcp-session-id")
    )
    return session.decode()


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(mixed=st.lists(requests(), min_size=1, max_size=3))
def test_random_requests_are_answered_without_error(
    address: Address, mixed: list[Request], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    session = open_session(address)
    for request in mixed:
        response = send(address, request, session)
        if response is None:
            assert request.body in {"garbled", "cut", "vanished"}, "no response"
        else:
            assert response[0] < 500, response
            assert b"Internal error" not in response[1]
    open_session(address)
    errors = [
        each
        for each in caplog.records
        if each.levelno >= logging.ERROR
        and not (each.exc_info and isinstance(each.exc_info[1], h11.LocalProtocolError))
    ]
    assert errors == []
