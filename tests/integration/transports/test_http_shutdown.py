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
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import (
    HttpOptions,
    Server,
    Timeouts,
)
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import initialize, request
from tests.helpers.serving import DEFAULT_TIMEOUT, HELPERS, Served, app_of, from_file

pytestmark = pytest.mark.long

GRACE = 0.5
MARGIN = 5.0
SOCKET_TIMEOUT = 15.0
ACCEPT = {"Accept": "application/json, text/event-stream"}
STATELESS = ACCEPT | {"MCP-Protocol-Version": "2026-07-28"}
LISTEN = request(
    "subscriptions/listen",
    {"notifications": {"toolsListChanged": True}, "_meta": stateless_meta()},
    id="listening",
)


def call(tool: str) -> dict[str, Any]:
    """Return the keywords with which httpx2 calls a tool."""
    params = {"name": tool, "arguments": {}, "_meta": stateless_meta() | {"progressToken": 1}}
    headers = STATELESS | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    return {"json": request("tools/call", params), "headers": headers}


def raw_request(
    method: str, path: str, message: Any = None, size: int | None = None, **headers: str
) -> bytes:
    """Return a request as bytes; `size` is announced in place of the size of the body."""
    body = b"" if message is None else json.dumps(message).encode()
    lines = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if size is None else size),
        **ACCEPT,
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def raw_call(tool: str) -> bytes:
    keywords = call(tool)
    return raw_request("POST", "/mcp", keywords["json"], **keywords["headers"])


def start_server(runner: str, loop: str = "asyncio", parser: str = "h11", **settings: object) -> Served:
    options = ["--loop", loop, "--http", parser]
    settings = {"GRACE": GRACE, **settings}
    if runner == "run":
        return Served([sys.executable, str(HELPERS / "servers" / "slow.py"), loop, parser], **settings)
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
    address = urlsplit(url)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as connection:
        connection.sendall(raw_call("pour").replace(b"/mcp", address.path.encode(), 1))
        yield


def session_headers(url: str) -> dict[str, str]:
    answer = httpx2.post(url, json=initialize(), headers=ACCEPT, timeout=DEFAULT_TIMEOUT)
    assert answer.status_code == 200, answer.text
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


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


@pytest.mark.limit("time to finish at the end")
def test_signal_lets_running_call_finish():
    with start_server("uvicorn", GRACE=3600) as server:
        with StreamThread("POST", f"{server.origin}/mcp", **call("finish")) as client:
            server.wait_for("it works")
            server.signal(signal.SIGTERM)
        assert [message["result"]["content"][0]["text"] for message in client.messages] == ["finished"]
        assert server.wait() in {-signal.SIGTERM, 143}
        assert server.notes.count("lifespan left") == 1
        assert "Traceback" not in server.notes


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


@pytest.mark.anyio
async def test_requests_during_shutdown_are_503():
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
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

    app = app_of(server, timeouts=Timeouts(shutdown=None), http=HttpOptions(readiness_path="/health"))
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        waiting = asyncio.create_task(http.post("/mcp", **call("hold")))
        await running.wait()
        opening = await http.post("/mcp", json=initialize(), headers=ACCEPT)
        ours = ACCEPT | {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

        async def ask() -> list[tuple[int, str | None]]:
            answers = [
                await http.post("/mcp", json=ping, headers=ours),
                await http.post("/mcp", json=initialize(), headers=ACCEPT),
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
    signal.signal(signal.SIGTERM, before)
    assert signals == [signal.SIGTERM]


def make_waiting_server(begun: threading.Event, released: threading.Event) -> Server:
    server = Server("stopped")

    @server.tool
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    @server.tool
    def block() -> None:
        begun.set()
        released.wait(SOCKET_TIMEOUT)

    @server.tool
    async def large() -> str:
        return "x" * 16_000_000

    return server


STATES = {
    "no request": b"",
    "half a head": b"POST /mcp HTTP/1.1\r\nHost: loc",
    "half a body": raw_request("POST", "/mcp", {}, size=100),
    "kept alive": raw_request("POST", "/mcp", initialize()),
    "sse": raw_request("GET", "/sse"),
    "listen": raw_request("POST", "/mcp", LISTEN, **STATELESS, **{"Mcp-Method": "subscriptions/listen"}),
    "get": b"",
    "wait": raw_call("wait"),
    "block": raw_call("block"),
    "unread": raw_call("large"),
}
"""Requests of open connections."""


def connect(address: tuple[str, int], state: str) -> socket.socket:
    connection = socket.create_connection(address, SOCKET_TIMEOUT)
    content = STATES[state]
    if state == "get":
        session = session_headers(f"http://127.0.0.1:{address[1]}/mcp")
        content = raw_request("GET", "/mcp", **session)
    connection.sendall(content)
    if state in {"kept alive", "sse", "listen", "get", "unread"}:
        connection.recv(1 if state == "unread" else 65536)
    return connection


@pytest.mark.parametrize(("parser", "is_mounted"), [("h11", False), ("httptools", True)])
def test_should_exit_ends_open_connections_within_grace_period(
    parser: str, is_mounted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    threads: dict[str, threading.Thread] = {}
    with ExitStack() as stack:
        for state in STATES:
            begun = threading.Event()
            # The time in which a body may arrive is longer than the grace period.
            app: Any = app_of(make_waiting_server(begun, released), timeouts=Timeouts(shutdown=1.0))
            app = Starlette(routes=[Mount("/", app)]) if is_mounted else app
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", http=parser))
            threads[state] = threading.Thread(target=server.run, args=([listener],), daemon=True)
            threads[state].start()
            while not server.started:  # old versions of uvicorn ignore an earlier stop
                time.sleep(0.005)
            stack.enter_context(connect(listener.getsockname(), state))
            if state in {"wait", "block"}:
                assert begun.wait(SOCKET_TIMEOUT)
            server.should_exit = True
        deadline = time.monotonic() + 1.0 + MARGIN
        for thread in threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        assert [state for state, thread in threads.items() if thread.is_alive()] == []
        released.set()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
