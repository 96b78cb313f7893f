"""Whatever comes over HTTP is answered or refused: no status from 500 up, no hanging, and the next request is served.

The same random requests go to the app itself, and as bytes to uvicorn with either of its parsers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import h11
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit import Context, Header, Server, ToolError

PATIENCE = 10.0
"""Seconds after which something hangs; an answer takes milliseconds."""
BODY_TIMEOUT = 0.2
MAX_BODY = 4_000
EXAMPLES = int(os.environ.get("MCPKIT_EDGE_EXAMPLES", "60"))

STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "edge", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "edge", "version": "1"}}
SESSION = b"(session)"
"""Stands for the id of the session that is open."""

Body = Literal["whole", "chunked", "garbled", "stalled", "cut", "vanished", "unframed"]
"""How a body comes: with its length, in chunks, in chunks that are none; with a part missing, the connection open,
half closed or reset; or with nothing that says there is one."""


class Request(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    parts: tuple[bytes, ...] = ()
    body: Body = "whole"

    @property
    def content(self) -> bytes:
        return b"".join(self.parts)

    @property
    def is_endless(self) -> bool:
        """Whether its answer may be a stream that lasts."""
        return self.method == "GET" or b"subscriptions" in self.content

    def of(self, session: bytes) -> Request:
        return self._replace(
            target=self.target.replace(SESSION.decode(), session.decode()),
            headers=tuple((name, value.replace(SESSION, session)) for name, value in self.headers),
        )


class Response(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def messages(self) -> list[Any]:
        """The JSON in the body, which is there whole."""
        kind = self.headers.get(b"content-type", b"")
        if kind == b"application/json":
            return [json.loads(self.body)]
        if kind == b"text/event-stream":
            lines = [line for line in self.body.splitlines() if line.startswith(b"data: ")]
            return [json.loads(line[6:]) for line in lines if len(line) > len(b"data: ")]
        return []


# The server


def make_server() -> Server:
    server = Server("edge")

    @server.tool
    async def echo(text: str, region: Annotated[str, Header("Region")] = "") -> str:
        return text + region

    @server.tool
    def block(count: int = 1) -> list[int]:
        return list(range(min(count, 10)))

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await ctx.log("warning", "halfway")
        return "reported"

    @server.tool
    async def close(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await ctx.close_stream()
        return "closed"

    @server.tool
    async def fail() -> None:
        raise ToolError("as it should")

    @server.tool(requires="sampling")
    async def ask() -> None: ...

    @server.resource("edge://fixed")
    async def fixed() -> str:
        return "fixed"

    @server.resource("edge://{name}")
    async def templated(name: str) -> str:
        return name

    @server.prompt(complete={"city": ["Bern", "Basel"]})
    async def plan(city: str) -> str:
        return city

    return server


# What requests look like when all is well

COMMON = {
    b"host": b"127.0.0.1",
    b"content-type": b"application/json",
    b"accept": b"application/json, text/event-stream",
}


def base(
    message: Any, *, method: str = "POST", target: str = "/mcp", **headers: bytes
) -> tuple[str, str, dict[bytes, bytes], Any]:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return method, target, {**COMMON, **named}, message


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def stateless(method: str, name: str | None = None, **params: Any) -> Any:
    headers = {"mcp_protocol_version": STATELESS.encode(), "mcp_method": method.encode()}
    if name is not None:
        headers["mcp_name"] = name.encode()
        params["uri" if method == "resources/read" else "name"] = name
    return base(call(method, **params, _meta=META), **headers)


def in_session(message: Any, *, method: str = "POST", **headers: bytes) -> Any:
    return base(message, method=method, mcp_session_id=SESSION, mcp_protocol_version=b"2025-11-25", **headers)


PROGRESS = {"progressToken": "p"}
BASES = [
    stateless("server/discover"),
    stateless("tools/list"),
    stateless("tools/call", "echo", arguments={"text": "a"}),
    stateless("tools/call", "block", arguments={"count": 3}),
    stateless("tools/call", "ask"),
    stateless("resources/read", "edge://fixed"),
    stateless("prompts/get", "plan", arguments={"city": "Bern"}),
    stateless("subscriptions/listen", notifications={"toolsListChanged": True}),
    base(
        call("tools/call", name="report", _meta={**META, **PROGRESS, "io.modelcontextprotocol/logLevel": "info"}),
        mcp_protocol_version=STATELESS.encode(),
        mcp_method=b"tools/call",
        mcp_name=b"report",
    ),
    base(
        call("tools/call", name="echo", arguments={"text": "a", "region": "eu"}, _meta=META),
        mcp_protocol_version=STATELESS.encode(),
        mcp_method=b"tools/call",
        mcp_name=b"echo",
        mcp_param_region=b"eu",
    ),
    base(call("initialize", **CLIENT)),
    in_session({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    in_session(call("ping")),
    in_session(call("tools/list")),
    in_session(call("tools/call", name="echo", arguments={"text": "a"})),
    in_session(call("tools/call", name="report", _meta=PROGRESS)),
    in_session(call("tools/call", name="close", _meta=PROGRESS)),
    in_session(call("tools/call", name="fail")),
    in_session(call("logging/setLevel", level="debug")),
    in_session(call("resources/subscribe", uri="edge://fixed")),
    in_session(call("completion/complete", ref={"type": "ref/prompt", "name": "plan"},
                    argument={"name": "city", "value": "B"})),
    in_session({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    in_session({"jsonrpc": "2.0", "id": 1, "result": {}}),
    in_session([call("ping"), call("tools/list")]),
    in_session(None, method="GET"),
    in_session(None, method="GET", last_event_id=b"1"),
    in_session(None, method="DELETE"),
    base(None, method="GET", target="/sse"),
    base(call("ping"), target="/messages?session_id=(session)"),
    base(None, method="GET", target="/health"),
    base(None, method="OPTIONS", origin=b"http://localhost:6274", access_control_request_method=b"POST"),
]  # fmt: skip

# What may be wrong with them

JUNK = st.recursive(
    st.sampled_from(
        [None, True, 0, -1, 2**53, 10**30, 1.5, "", "name", "2026-07-28", "2024-11-05", "tools/call"]
    )
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW", "post", "QUERY"]
TARGETS = [
    *(
        "/mcp",
        "/mcp/",
        "/mcp?x=1",
        "/mcp/x",
        "//mcp",
        "/%6dcp",
        "/mcp%2f",
        "/",
        "/health",
        "/nowhere",
        "/sse",
        "/sse/",
    ),
    *(
        "/messages",
        "/messages/",
        "/messages?session_id=(session)",
        "/messages?session_id=",
        "/messages?" + "a=&" * 100,
        "/..;/mcp",
        "/%ff%00",
        "*",
    ),
]
NAMES = [
    *(
        b"content-type",
        b"accept",
        b"host",
        b"origin",
        b"mcp-session-id",
        b"mcp-protocol-version",
        b"mcp-method",
    ),
    *(b"mcp-name", b"mcp-param-region", b"last-event-id", b"cookie", b"authorization", b"x-forwarded-host"),
    *(b"access-control-request-method", b"access-control-request-headers", b"content-encoding", b"range"),
]
VALUES = [
    *(
        b"",
        b"*/*",
        b"*",
        b"null",
        b"application/json",
        b"application/json; charset=utf-8",
        b"text/event-stream",
    ),
    *(
        b"text/plain",
        b"application/json;q=0",
        b";;,,=",
        b"2026-07-28",
        b"2025-11-25",
        b"2025-03-26",
        b"2024-11-05",
    ),
    *(
        b"1999-01-01",
        b"tools/call",
        b"tools/list",
        b"echo",
        b"=?base64?ZWNobw==?=",
        b"=?base64?ZWNo?=",
        SESSION,
    ),
    *(
        SESSION + b"x",
        SESSION[:-1],
        b"127.0.0.1",
        b"localhost:1",
        b"evil.example",
        b"http://evil.example",
        b"0",
    ),
    *(
        b"http://localhost:6274",
        b"9" * 400,
        b"a" * 2000,
        b"POST",
        b"gzip",
        b"bytes=0-1",
        b"\xff\xfe",
        b"\xc3\xa9",
    ),
]
VISIBLE = st.binary(max_size=12).map(lambda data: bytes(32 + byte % 95 for byte in data))
BYTES = st.sampled_from(
    [
        *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b"[{}]", b"NaN", b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00"),
        *(b"[" * 2000, b'{"a":' * 700, b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b"\x00", b" " * 5_000),
        *(b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', b'"\\ud800"', b"9" * 4400, b"[1,2"),
    ]
) | st.binary(max_size=30)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """One that is right, with up to four things wrong."""
    method, target, headers, message = draw(st.sampled_from(BASES))
    fields = list(headers.items())
    wrongs = draw(
        st.lists(st.sampled_from(["method", "target", "field", "json", "bytes", "body"]), max_size=4)
    )
    for wrong in wrongs:
        if wrong == "method":
            method = draw(st.sampled_from(METHODS))
        elif wrong == "target":
            target = draw(st.sampled_from(TARGETS))
        elif wrong == "field":
            fields = draw(changed_fields(fields))
        elif wrong == "json":
            message = draw(changed_json(message))
    content = b"" if message is None else json.dumps(message).encode()
    if "bytes" in wrongs:
        at = draw(st.integers(0, len(content)))
        content = draw(
            st.just(content[:at]) | BYTES | BYTES.map(lambda junk: content[:at] + junk + content[at:])
        )
    body: Body = "whole"
    if "body" in wrongs:
        body = draw(st.sampled_from(["chunked", "garbled", "stalled", "cut", "vanished", "unframed"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(content)), max_size=3)))
    parts = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    return Request(method, target, tuple(fields), tuple(parts), body)


@st.composite
def changed_fields(draw: st.DrawFn, fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Drop a header, or set or repeat one."""
    name = draw(st.sampled_from(NAMES) | st.sampled_from([name for name, _ in fields] or NAMES))
    value = draw(st.sampled_from(VALUES) | VISIBLE)
    kept = [field for field in fields if field[0] != name]
    return draw(
        st.sampled_from([kept, [*kept, (name, value)], [*fields, (name, value)], [(name, value), *fields]])
    )


@st.composite
def changed_json(draw: st.DrawFn, value: Any) -> Any:
    """Put something else at some place, or take it away."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 3)) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: draw(changed_json(value[key]))}
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(st.sampled_from(["id", "_meta", "params", "x-mcp-header"])): draw(JUNK)}
    return draw(JUNK | st.just([value]) | st.just([value, value]) | st.just({"params": value}))


# Two ways to the server


class Edge(Protocol):
    """Where requests come in."""

    def send(self, request: Request) -> Response | None:
        """Send a request; return the answer, or None where the connection ends without one.

        Of a stream that lasts only the head is read. Raises TimeoutError for what hangs.
        """

    def close(self) -> None: ...


class App:
    """The app itself; a server could not hand on what breaks HTTP, so that is left out."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()

    def send(self, request: Request) -> Response | None:
        return self.loop.run_until_complete(asyncio.wait_for(self._send(request), PATIENCE))

    def close(self) -> None:
        # What requests have left running: the app's own two tasks, and sessions that are at work no more.
        self.loop.run_until_complete(asyncio.sleep(0.1))
        names = {task.get_name() for task in asyncio.all_tasks(self.loop)}
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.1))
        self.loop.close()
        assert len(names) <= 3, names

    async def _send(self, request: Request) -> Response | None:
        path, _, query = request.target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method.upper(),
            "scheme": "http",
            "path": path.replace("%ff%00", "\ufffd\x00").replace("%6d", "m").replace("%2f", "/"),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower(), value.strip()) for name, value in request.headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        waiting: list[dict[str, Any]] = [
            {"type": "http.request", "body": part, "more_body": True} for part in request.parts
        ]
        if request.body in {"whole", "chunked", "unframed"}:
            waiting.append({"type": "http.request", "body": b"", "more_body": False})
        is_gone = asyncio.Event()
        if request.body in {"garbled", "cut", "vanished"}:
            is_gone.set()
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop(0)
            await is_gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            check_order(sent, message)
            sent.append(message)
            if message["type"] == "http.response.start" and request.is_endless:
                is_gone.set()

        await self.app(scope, receive, send)
        if not sent:
            assert is_gone.is_set(), "no answer, though the client was there"
            return None
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Response(sent[0]["status"], dict(sent[0]["headers"]), body)


def check_order(sent: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """A start, then a body; nothing after its end."""
    if not sent:
        assert message["type"] == "http.response.start"
        for name, value in message["headers"]:
            assert name == name.lower()
            assert not set(value) & set(b"\r\n\x00")
    else:
        assert message["type"] == "http.response.body"
        assert len(sent) == 1 or sent[-1].get("more_body", False)


class Uvicorn:
    """uvicorn in a thread; what it is sent need not be HTTP."""

    def __init__(self, app: Any, parser: Literal["h11", "httptools"]) -> None:
        config = uvicorn.Config(
            app, http=parser, loop="asyncio", ws="none", log_config=None, access_log=False
        )
        self.server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        state = self.server.server_state
        assert not self.thread.is_alive(), f"uvicorn waits for {state.connections} and {state.tasks}"

    def send(self, request: Request) -> Response | None:
        with socket.create_connection(self.address, PATIENCE) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for part in self._wire(request):
                    connection.sendall(part)
                if request.body == "vanished":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return None
                if request.body in {"garbled", "cut"}:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has answered already, and closed
            try:
                return read_response(connection, request)
            except ConnectionResetError:  # it has closed without reading all
                return None

    def _wire(self, request: Request) -> Iterator[bytes]:
        content = request.content
        is_chunked = request.body in {"chunked", "garbled"}
        fields = [name.title() + b": " + value for name, value in request.headers]
        if is_chunked:
            fields.append(b"Transfer-Encoding: chunked")
        elif request.body != "unframed" and (content or request.body != "whole" or request.method == "POST"):
            missing = 0 if request.body == "whole" else 7
            fields.append(b"Content-Length: %d" % (len(content) + missing))
        line = f"{request.method} {request.target} HTTP/1.1".encode()
        head = b"\r\n".join([line, *fields, b"", b""])
        yield head[: len(head) // 2]
        yield head[len(head) // 2 :]
        for part in request.parts:
            yield b"%x\r\n%s\r\n" % (len(part), part) if is_chunked and part else part
        if request.body == "garbled":
            yield b"z\r\n" + content
        elif is_chunked:
            yield b"0\r\n\r\n"


def read_response(connection: socket.socket, request: Request) -> Response | None:
    """Read the first response of a connection, if there is one."""
    with connection.makefile("rb") as stream:
        status = 100
        while status < 200:
            line = stream.readline()
            if not line:
                return None
            status = int(line.split()[1])
            headers: dict[bytes, bytes] = {}
            while (line := stream.readline().rstrip()) != b"":
                name, _, value = line.partition(b":")
                headers[name.lower()] = value.strip()
        is_stream = headers.get(b"content-type") == b"text/event-stream"
        if request.method == "HEAD" or (is_stream and request.is_endless):
            return Response(status, {}, b"")
        if headers.get(b"transfer-encoding") == b"chunked":
            body = b""
            while (size := int(stream.readline() or b"0", 16)) > 0:
                body += stream.read(size)
                stream.readline()
            return Response(status, headers, body)
        return Response(status, headers, stream.read(int(headers.get(b"content-length", b"0"))))


@pytest.fixture(scope="module", params=["app", "h11", "httptools"])
def edge(request: pytest.FixtureRequest) -> Iterator[Edge]:
    app = make_server().asgi(body_timeout=BODY_TIMEOUT, max_body=MAX_BODY, health="/health")
    edge: Edge = App(app) if request.param == "app" else Uvicorn(app, request.param)
    yield edge
    edge.close()


@pytest.fixture(autouse=True)
def _no_error_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What an exception in the app becomes, whatever the client saw."""
    caplog.set_level(logging.ERROR)
    yield
    errors = [record for record in caplog.get_records("call") if not is_of_the_parser(record)]
    assert errors == []


def is_of_the_parser(record: logging.LogRecord) -> bool:
    """Tell of h11's own state: uvicorn has answered what is no HTTP while the app was at it."""
    return record.exc_info is not None and isinstance(record.exc_info[1], h11.LocalProtocolError)


def make(number: int) -> Request:
    method, target, headers, message = BASES[number]
    return Request(method, target, tuple(headers.items()), (json.dumps(message).encode(),))


def find(marker: str) -> Request:
    """The request as it should be whose text has this in it."""
    return next(each for each in map(make, range(len(BASES))) if marker in str(each))


def answer(edge: Edge, request: Request) -> Response:
    response = edge.send(request)
    assert response is not None
    return response


def open_session(edge: Edge) -> bytes:
    response = answer(edge, find('"initialize"'))
    assert response.status == 200
    return response.headers[b"mcp-session-id"]


def check_it_still_serves(edge: Edge, session: bytes | None) -> None:
    """Serve a client of each era."""
    response = answer(edge, find('"count": 3'))
    assert (response.status, response.messages[0]["result"]["structuredContent"]) == (
        200,
        [0, 1, 2],
    )
    if session is not None:
        response = answer(edge, find('"tools/call", "params": {"name": "echo"').of(session))
        assert response.status in {200, 404}
    session = open_session(edge)
    response = answer(edge, find("'mcp-session-id'").of(session))
    assert response.status == 202


def check(response: Response | None, request: Request) -> None:
    if response is None:
        assert request.body in {"garbled", "cut", "vanished"}, "the connection ended without an answer"
        return
    assert response.status < 500, response
    assert b"Internal error" not in response.body
    assert b"Traceback" not in response.body
    for message in response.messages if "mcp" in request.target else []:
        for each in message if isinstance(message, list) else [message]:
            assert each["jsonrpc"] == "2.0"


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mixed=st.lists(requests(), min_size=1, max_size=3))
def test_no_request_breaks_it(edge: Edge, mixed: list[Request]) -> None:
    session = open_session(edge)
    for request in mixed:
        sent = request.of(session)
        check(edge.send(sent), sent)
    check_it_still_serves(edge, session)
