"""Random requests: the app answers or refuses each, without an error or a hang, and serves the next request."""

import json
import logging
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import h11
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit import HttpOptions, Limits, Timeouts
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import PING, initialize, request
from tests.helpers.servers.full import make_server
from tests.helpers.serving import app_of, in_thread

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "25"))
SESSION = "(session)"
"""Placeholder of the session id."""
COMMON = {
    "Host": "127.0.0.1",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


class Request(NamedTuple):
    method: str
    target: str
    headers: list[tuple[str, str]]
    content: bytes
    body: str = "whole"
    """`whole`, `chunked`, `garbled` (invalid chunks), `stalled`, `cut` (half closed) or `vanished` (reset)."""


def stateless(method: str, name: str = "", **params: Any) -> Any:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
    named = {"uri" if method == "resources/read" else "name": name} if name else {}
    return "POST", "/mcp", headers, request(method, {**named, **params, "_meta": stateless_meta()})


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
    stateless("resources/read", "weather://fixed"),
    stateless("subscriptions/listen", notifications={"toolsListChanged": True}),
    ("POST", "/mcp", {}, initialize()),
    in_session(PING),
    in_session(request("tools/call", {"name": "report", "_meta": {"progressToken": "p"}})),
    in_session({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    in_session([PING, request("tools/list", {})]),
    in_session(None, "GET", **{"Last-Event-ID": "1"}),
    in_session(None, "DELETE"),
    ("GET", "/sse", {}, None),
    ("POST", f"/messages?session_id={SESSION}", {}, PING),
    ("OPTIONS", "/mcp", {"Origin": "http://localhost:6274", "Access-Control-Request-Method": "POST"}, None),
]
METHODS = ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "BREW", "post"]
TARGETS = [
    "/mcp/", "/mcp?x=1", "/mcp/x", "//mcp", "/%6dcp", "/", "/health", "/nothing", "/sse/", "/messages",
    "/messages?session_id=", "/..;/mcp",
]  # fmt: skip
NAMES = [
    *COMMON, "Origin", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region",
    "Last-Event-ID", "Authorization", "Content-Encoding", "Access-Control-Request-Headers",
]  # fmt: skip
VALUES = [
    "", "*/*", "null", "application/json; charset=utf-8", "text/plain", ";;,,=", "2026-07-28", "1999-01-01",
    "tools/list", "=?base64?ZWNo?=", SESSION + "x", "evil.example", "http://evil.example", "9" * 400, "gzip", "\xe9",
]  # fmt: skip
BYTES = st.sampled_from(
    [b"", b"{", b"[]", b"null", b"NaN", b"\xef\xbb\xbf{}", b"[" * 2000, b'"\\ud800"']
) | st.binary(max_size=30)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A valid request with up to three mistakes."""
    method, target, headers, message = draw(st.sampled_from(VALID))
    fields, body = [*(COMMON | headers).items()], "whole"
    places = ["method", "target", "field", "bytes", "body"]
    mistakes = draw(st.lists(st.sampled_from(places), max_size=3))
    if "method" in mistakes:
        method = draw(st.sampled_from(METHODS))
    if "target" in mistakes:
        target = draw(st.sampled_from(TARGETS))
    if "field" in mistakes:
        name, value = draw(st.sampled_from(NAMES)), draw(st.sampled_from(VALUES))
        rest = [field for field in fields if field[0] != name]
        fields = draw(st.sampled_from([rest, [*rest, (name, value)], [*fields, (name, value)]]))
    content = b"" if message is None else json.dumps(message).encode()
    if "bytes" in mistakes:
        content = content[: draw(st.integers(0, len(content)))] + draw(BYTES)
    if "body" in mistakes:
        body = draw(st.sampled_from(["chunked", "garbled", "stalled", "cut", "vanished"]))
    return Request(method, target, fields, content, body)


@pytest.fixture(scope="module", params=["h11", "httptools"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    app = app_of(
        make_server(),
        limits=Limits(max_request_body_size=4_000),
        timeouts=Timeouts(request_body=0.2, shutdown=0),
        http=HttpOptions(readiness_path="/health", sse_ping_interval=0.5),
    )
    with in_thread(app, http=request.param, ws="none", timeout_graceful_shutdown=1) as url:
        yield url


def send(url: str, request: Request, session: str) -> bytes | None:
    """Return the head of the response, or None where the connection ends without one."""
    fields = [(name, value.replace(SESSION, session)) for name, value in request.headers]
    content = request.content
    if request.body in {"chunked", "garbled"}:
        fields.append(("Transfer-Encoding", "chunked"))
        end = b"z\r\n" if request.body == "garbled" else b"0\r\n\r\n"
        content = (b"%x\r\n%s\r\n" % (len(content), content) if content else b"") + end
    elif content or request.body != "whole":
        fields.append(("Content-Length", str(len(content) + (0 if request.body == "whole" else 7))))
    head = f"{request.method} {request.target.replace(SESSION, session)} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), 10) as connection:
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
    return block or None


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(mixed=st.lists(requests(), min_size=1, max_size=3))
def test_random_requests_are_answered_without_error(url, mixed, caplog) -> None:
    caplog.set_level(logging.ERROR)
    opening = httpx2.post(f"{url}/mcp", json=initialize(), headers=COMMON)
    for each in mixed:
        response = send(url, each, opening.headers["mcp-session-id"])
        if response is None:
            assert each.body in {"garbled", "cut", "vanished"}, "no response"
        else:
            assert int(response.split()[1]) < 500, response
            assert b"Internal error" not in response
    assert httpx2.post(f"{url}/mcp", json=initialize(), headers=COMMON).status_code == 200
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert all(isinstance((record.exc_info or (0, 0))[1], h11.LocalProtocolError) for record in errors), (
        errors
    )
