"""Shutdown of HTTP servers by signals and programs, and clients that disconnect."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from mcpkit import (
    Context,
    HttpOptions,
    Server,
    Timeouts,
)
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import initialize, request
from tests.helpers.serving import DEFAULT_TIMEOUT, HELPERS, Served, app_of, from_file

INITIALIZE = initialize()

LATEST = {"MCP-Protocol-Version": "2026-07-28"}


def http_request(
    method: str, path: str, body: bytes, headers: dict[str, str], announced: int | None = None
) -> bytes:
    lines = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if announced is None else announced),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def json_message(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def call_request(tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": stateless_meta() | {"progressToken": 1}}
    return http_request(
        "POST",
        "/mcp",
        json_message("tools/call", params),
        LATEST | {"Mcp-Method": "tools/call", "Mcp-Name": tool},
    )


LISTEN_BYTES = http_request(
    "POST",
    "/mcp",
    json_message(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": stateless_meta()}
    ),
    LATEST | {"Mcp-Method": "subscriptions/listen"},
)

INITIALIZE_BYTES = http_request("POST", "/mcp", json_message("initialize", INITIALIZE["params"]), {})


SOCKET_TIMEOUT = 15.0


def make_waiting_server(begun: threading.Event, released: threading.Event) -> Server:
    server = Server("stopped")

    @server.tool
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @server.tool
    def block() -> str:
        begun.set()
        released.wait(SOCKET_TIMEOUT)
        return "late"

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        await asyncio.Event().wait()
        return "never"

    @server.tool
    async def large() -> str:
        return "x" * 16_000_000

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


def connect_with(address: tuple[str, int], state: str) -> socket.socket:
    connection = socket.create_connection(address, SOCKET_TIMEOUT)
    if state in {"get", "handshake wait"}:
        connection.sendall(INITIALIZE_BYTES)
        head = connection.recv(65536).decode()
        session = next(line for line in head.split("\r\n") if line.lower().startswith("mcp-session-id"))
        headers = {"Mcp-Session-Id": session.split(": ")[1]}
        if state == "get":
            connection.sendall(http_request("GET", "/mcp", b"", headers))
            connection.recv(65536)
        else:
            connection.sendall(
                http_request(
                    "POST", "/mcp", json_message("tools/call", {"name": "wait", "arguments": {}}), headers
                )
            )
    elif state == "sse":
        connection.sendall(http_request("GET", "/sse", b"", {}))
        connection.recv(65536)
    elif state == "listen":
        connection.sendall(LISTEN_BYTES)
        connection.recv(65536)
    elif state == "half a body":
        connection.sendall(http_request("POST", "/mcp", b"{", {}, announced=100))
    elif state == "kept alive":
        connection.sendall(INITIALIZE_BYTES)
        connection.recv(65536)
    elif state == "half a head":
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
    elif state == "unread":
        connection.sendall(call_request("large"))
        connection.recv(1)
    elif state:
        connection.sendall(call_request(state))
        if state == "report":
            connection.recv(65536)
    return connection


def start_uvicorn(app: Any, **options: Any) -> tuple[uvicorn.Server, threading.Thread, tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", **options))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:  # old versions of uvicorn ignore an earlier stop
        time.sleep(0.005)
    return server, thread, listening.getsockname()


STOP_GRACE = 1.0

STOP_MARGIN = 4.0

OPEN = ("", "get", "sse", "listen", "wait", "block", "unread", "kept alive", "half a head", "half a body")

GRACE = 0.5


MARGIN = 5.0


SLOW_SERVER = HELPERS / "servers" / "slow.py"


ACCEPT = {"Accept": "application/json, text/event-stream"}


STATELESS = ACCEPT | {"MCP-Protocol-Version": "2026-07-28"}


LISTEN = request(
    "subscriptions/listen",
    {"notifications": {"toolsListChanged": True}, "_meta": stateless_meta()},
    id="listening",
)
INITIALIZE = initialize()


def call(tool: str) -> dict[str, Any]:
    params = {"name": tool, "arguments": {}, "_meta": stateless_meta() | {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return {"json": message, "headers": STATELESS | {"Mcp-Method": "tools/call", "Mcp-Name": tool}}


def start_server(runner: str, loop: str = "asyncio", parser: str = "h11", **settings: object) -> Served:
    options = ["--loop", loop, "--http", parser]
    settings = {"GRACE": GRACE, **settings}
    if runner == "run":
        return Served([sys.executable, str(SLOW_SERVER), loop, parser], **settings)
    if runner == "mounted":
        return Served(from_file("tests.helpers.servers.slow:mounted", *options), MOUNTED=1, **settings)
    if runner == "workers":
        workers = Served(from_file("tests.helpers.servers.slow:app", *options, "--workers", "2"), **settings)
        workers.wait_for("Application startup complete", times=2)
        return workers
    return Served(from_file("tests.helpers.servers.slow:app", *options), **settings)


class StreamThread:
    def __init__(self, method: str, url: str, **request: Any) -> None:
        self.lines: list[str] = []
        self.status: int | None = None
        self.has_ended_well = False
        self._has_received = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(method, url, request))

    def __enter__(self) -> StreamThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(DEFAULT_TIMEOUT)

    def wait(self) -> None:
        assert self._has_received.wait(DEFAULT_TIMEOUT), f"no data; status {self.status}"

    def _listen(self, method: str, url: str, request: dict[str, Any]) -> None:
        try:
            with (
                httpx2.Client(timeout=DEFAULT_TIMEOUT) as http,
                http.stream(method, url, **request) as response,
            ):
                self.status = response.status_code
                for line in response.iter_lines():
                    self.lines.append(line.removeprefix("data:").strip())
                    self._has_received.set()
            self.has_ended_well = True
        except httpx2.TransportError:
            pass
        finally:
            self._has_received.set()

    @property
    def messages(self) -> list[Any]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]


@contextmanager
def slow_reader(url: str) -> Iterator[None]:
    request = call("pour")
    body = json.dumps(request["json"]).encode()
    address = urlsplit(url)
    headers = request["headers"] | {
        "Host": address.netloc,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as connection:
        connection.sendall(f"POST {address.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        yield


def session_headers(url: str) -> dict[str, str]:
    answer = httpx2.post(url, json=INITIALIZE, headers=ACCEPT, timeout=DEFAULT_TIMEOUT)
    assert answer.status_code == 200, answer.text
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("runner", "number", "loop", "parser", "statuses"),
    [
        ("uvicorn", signal.SIGTERM, "asyncio", "h11", {-signal.SIGTERM, 143}),
        ("run", signal.SIGINT, "asyncio", "h11", {0, 130}),
        ("mounted", signal.SIGTERM, "uvloop", "h11", {-signal.SIGTERM, 143}),
        ("workers", signal.SIGTERM, "uvloop", "httptools", {0}),
    ],
)
def test_signal_ends_streams_and_process_within_grace_period(runner, number, loop, parser, statuses):
    with start_server(runner, loop, parser) as server, ExitStack() as stack:
        base = server.origin + ("/x" if runner == "mounted" else "")
        url = f"{base}/mcp"
        stack.enter_context(slow_reader(url))
        server.wait_for("it pours")
        stack.enter_context(StreamThread("POST", url, **call("block")))
        server.wait_for("it blocks")
        headers = STATELESS | {"Mcp-Method": "subscriptions/listen"}
        listener = stack.enter_context(StreamThread("POST", url, json=LISTEN, headers=headers))
        getter = stack.enter_context(StreamThread("GET", url, headers=ACCEPT | session_headers(url)))
        sse = stack.enter_context(StreamThread("GET", f"{base}/sse", headers=ACCEPT))
        for client in (listener, getter, sse):
            client.wait()
        start = time.monotonic()
        server.signal(number, group=runner == "workers" and number == signal.SIGINT)
        status = server.wait()
        seconds = time.monotonic() - start
    assert seconds < GRACE + 1 + MARGIN
    assert status in statuses
    assert [client.status for client in (listener, getter, sse)] == [200, 200, 200]
    assert all(client.has_ended_well for client in (listener, getter, sse))
    assert [message.get("id") for message in listener.messages] == [None, "listening"]
    assert "result" in listener.messages[-1]
    assert getter.messages == []
    assert sse.messages == []
    assert server.notes.count("lifespan left") == server.notes.count("lifespan entered") > 0


@pytest.mark.long
@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)])
@pytest.mark.parametrize("runner", ["uvicorn"])
def test_signal_lets_running_call_finish(runner, number, status):
    with start_server(runner, GRACE=3600) as server:
        with StreamThread("POST", f"{server.origin}/mcp", **call("finish")) as client:
            server.wait_for("it works")
            server.signal(number)
        assert [message["result"]["content"][0]["text"] for message in client.messages] == ["finished"]
        assert server.wait() == status
        assert server.notes.count("lifespan left") == 1
        assert "Traceback" not in server.notes


@pytest.mark.long
@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize(("loop", "number"), [("asyncio", signal.SIGTERM), ("uvloop", signal.SIGINT)])
def test_signal_ends_process_with_blocked_loop(loop, number):
    with (
        start_server("uvicorn", loop) as server,
        StreamThread("POST", f"{server.origin}/mcp", **call("spin")),
    ):
        server.wait_for("it spins")
        server.signal(number)
        assert server.wait() == 128 + number


@pytest.mark.long
@pytest.mark.parametrize(("runner", "grace"), [("uvicorn", None), ("run", 3600)])
def test_second_interrupt_leaves_lifespan(runner, grace):
    with (
        start_server(runner, GRACE=grace) as server,
        StreamThread("POST", f"{server.origin}/mcp", **call("block")),
    ):
        server.wait_for("it blocks")
        server.signal(signal.SIGINT)
        server.wait_for("Waiting for connections to close")
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        assert server.notes.count("lifespan left") == 1


@pytest.fixture
def signals() -> Iterator[list[int]]:
    numbers: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda number, frame: numbers.append(number))
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def connect(server: Server) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(
        app_of(server, timeouts=Timeouts(shutdown=None), http=HttpOptions(readiness_path="/health"))
    )
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.mark.long
@pytest.mark.anyio
async def test_requests_during_shutdown_are_503(signals):
    running, released, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        yield
        left.set()

    server = Server("ending", lifespan=lifespan)

    @server.tool
    async def hold() -> str:
        running.set()
        await released.wait()
        return "held"

    async with connect(server) as http:
        waiting = asyncio.create_task(http.post("/mcp", **call("hold")))
        await running.wait()
        opening = await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        ours = ACCEPT | {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

        async def ask() -> list[tuple[int, str | None]]:
            answers = [
                await http.post("/mcp", json=ping, headers=ours),
                await http.post("/mcp", json=INITIALIZE, headers=ACCEPT),
                await http.get("/mcp", headers=ours),
                await http.get("/sse", headers=ACCEPT),
            ]
            return [(answer.status_code, answer.headers.get("retry-after")) for answer in answers]

        assert await ask() == [(503, "1")] * 4
        released.set()
        assert (await waiting).json()["result"]["content"][0]["text"] == "held"
        assert (await http.get("/health")).status_code == 503
        await left.wait()
        await asyncio.sleep(0.01)  # the turns of the loop in which the rest ends
        assert await ask() == [(503, "1")] * 4, "it began once more"
    assert signals == [signal.SIGTERM]


class Titled(BaseHTTPMiddleware):
    async def dispatch(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers["X-Frame-Options"] = "DENY"
        return response


def fastapi(app: Any) -> Any:
    site = FastAPI()
    site.middleware("http")(Titled(site).dispatch)
    site.mount("/", app)
    return site


def below(*middleware: Any) -> Callable[[Any], Any]:
    return lambda app: Starlette(
        routes=[Mount("/", app)], middleware=[Middleware(each) for each in middleware]
    )


@pytest.mark.long
@pytest.mark.parametrize(("parser", "is_mounted"), [("h11", False), ("httptools", True)])
def test_should_exit_ends_open_connections_within_grace_period(
    parser: str, is_mounted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    runs: list[tuple[str, threading.Thread, socket.socket]] = []
    for what in OPEN:
        begun = threading.Event()
        # The time in which a body may arrive is longer than the grace period.
        app: Any = app_of(make_waiting_server(begun, released), timeouts=Timeouts(shutdown=STOP_GRACE))
        server, thread, address = start_uvicorn(
            Starlette(routes=[Mount("/", app)]) if is_mounted else app, http=parser
        )
        runs.append((what, thread, connect_with(address, what)))
        if what in {"wait", "block"}:
            assert begun.wait(SOCKET_TIMEOUT)
        server.should_exit = True
    deadline = time.monotonic() + STOP_GRACE + STOP_MARGIN
    for _, thread, _ in runs:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert [what for what, thread, _ in runs if thread.is_alive()] == []
    released.set()
    for _, _, connection in runs:
        connection.close()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
