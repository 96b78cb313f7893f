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
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from mcp import Client as OfficialClient
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Context, HttpOptions, Server, SyncClient, Timeouts
from tests.helpers.engines import close, make_engine
from tests.helpers.pipe import stateless_meta
from tests.helpers.process_client import EventStream
from tests.helpers.processes import free_port
from tests.helpers.raw_client import PING, accept, initialize, request, standard_headers, text_of
from tests.helpers.servers.full import SECRET
from tests.helpers.serving import DEFAULT_TIMEOUT, HELPERS, Served, app_of, from_file, in_thread

pytestmark = pytest.mark.long

GRACE = 0.5
MARGIN = 5.0
SOCKET_TIMEOUT = 15.0
ACCEPT = {"Accept": "application/json, text/event-stream"}
LISTEN: dict[str, Any] = {
    "json": request(
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True}, "_meta": stateless_meta()},
        id="listening",
    ),
    "headers": ACCEPT | {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"},
}


def call(tool: str) -> dict[str, Any]:
    """Return the keywords with which httpx2 calls a tool."""
    params = {"name": tool, "arguments": {}, "_meta": stateless_meta() | {"progressToken": 1}}
    return {"json": request("tools/call", params), "headers": ACCEPT | standard_headers("tools/call", tool)}


def raw_request(method: str, path: str, json_: Any = None, size: int | None = None, **headers: str) -> bytes:
    """Return a request as bytes; `size` is announced in place of the size of the body."""
    body = b"" if json_ is None else json.dumps(json_).encode()
    length = str(len(body) if size is None else size)
    lines = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": length}
    head = "".join(f"{name}: {value}\r\n" for name, value in (lines | ACCEPT | headers).items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def raw_post(keywords: dict[str, Any], path: str = "/mcp") -> bytes:
    return raw_request("POST", path, keywords["json"], **keywords["headers"])


def session_headers(url: str) -> dict[str, str]:
    answer = httpx2.post(url, json=initialize(), headers=ACCEPT, timeout=DEFAULT_TIMEOUT)
    assert answer.status_code == 200, answer.text
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"]}


def start_server(runner: str, loop: str = "asyncio", parser: str = "h11", **settings: object) -> Served:
    settings = {"GRACE": GRACE, **settings}
    if runner == "run":
        return Served([sys.executable, str(HELPERS / "servers" / "slow.py"), loop], **settings)
    app = "mounted" if runner == "mounted" else "app"
    workers = ["--workers", "2"] if runner == "workers" else []
    options = ["--loop", loop, "--http", parser, *workers]
    command = from_file(f"tests.helpers.servers.slow:{app}", *options)
    server = Served(command, **settings, **({"MOUNTED": 1} if runner == "mounted" else {}))
    if workers:
        server.wait_for("Application startup complete", times=2)
    return server


class StreamThread:
    """Thread that reads a response to its end."""

    def __init__(self, method: str, url: str, **request: Any) -> None:
        self.lines: list[str] = []
        self.status: int | None = None
        self.has_ended_well = False
        self._has_received = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(method, url, request))

    def __enter__(self) -> StreamThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(DEFAULT_TIMEOUT)

    def wait(self) -> None:
        assert self._has_received.wait(DEFAULT_TIMEOUT), f"no data; status {self.status}"

    def _read(self, method: str, url: str, request: dict[str, Any]) -> None:
        try:
            with httpx2.stream(method, url, timeout=DEFAULT_TIMEOUT, **request) as response:
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


@pytest.mark.parametrize(("runner", "number", "loop", "parser", "statuses"), [
    ("uvicorn", signal.SIGTERM, "asyncio", "h11", {-signal.SIGTERM, 143}),
    ("run", signal.SIGINT, "asyncio", "h11", {0, 130}),
    ("mounted", signal.SIGTERM, "uvloop", "h11", {-signal.SIGTERM, 143}),
    ("workers", signal.SIGTERM, "uvloop", "httptools", {0}),
])  # fmt: skip
def test_signal_ends_streams_and_process_within_grace_period(runner, number, loop, parser, statuses):
    with start_server(runner, loop, parser) as server, ExitStack() as stack:
        address = urlsplit(server.origin)
        prefix = "/x" if runner == "mounted" else ""
        url = f"{server.origin}{prefix}/mcp"
        slow_reader = stack.enter_context(socket.create_connection((address.hostname, address.port)))
        slow_reader.sendall(raw_post(call("pour"), f"{prefix}/mcp"))
        server.wait_for("it pours")
        stack.enter_context(StreamThread("POST", url, **call("block")))
        server.wait_for("it blocks")
        clients = [
            stack.enter_context(StreamThread("POST", url, **LISTEN)),
            stack.enter_context(StreamThread("GET", url, headers=ACCEPT | session_headers(url))),
            stack.enter_context(StreamThread("GET", f"{server.origin}{prefix}/sse", headers=ACCEPT)),
        ]
        for client in clients:
            client.wait()
        start = time.monotonic()
        server.signal(number)
        status = server.wait()
        seconds = time.monotonic() - start
    assert seconds < GRACE + 1 + MARGIN
    assert status in statuses
    assert [(client.status, client.has_ended_well) for client in clients] == [(200, True)] * 3
    listener, *others = (client.messages for client in clients)
    assert [message.get("id") for message in listener] == [None, "listening"]
    assert "result" in listener[-1]
    assert others == [[], []]
    assert server.notes.count("lifespan left") == server.notes.count("lifespan entered") > 0


@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize(
    ("number", "statuses"),
    [(signal.SIGTERM, {-signal.SIGTERM, 143}), (signal.SIGINT, {0, 130, -signal.SIGINT})],
)
def test_signal_lets_running_call_finish(number, statuses):
    with start_server("uvicorn", GRACE=3600) as server:
        with StreamThread("POST", f"{server.origin}/mcp", **call("finish")) as client:
            server.wait_for("it works")
            server.signal(number)
        assert [text_of(message) for message in client.messages] == ["finished"]
        assert server.wait() in statuses
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
    async def wait_for_release() -> str:
        running.set()
        await released.wait()
        return "held"

    app = app_of(server, timeouts=Timeouts(shutdown=None), http=HttpOptions(readiness_path="/health"))
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        waiting = asyncio.create_task(http.post("/mcp", **call("wait_for_release")))
        await running.wait()
        opening = await http.post("/mcp", json=initialize(), headers=ACCEPT)
        session = ACCEPT | {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)

        async def check_refusals() -> None:
            for answer in (
                await http.post("/mcp", json=PING, headers=session),
                await http.post("/mcp", json=initialize(), headers=ACCEPT),
                await http.get("/mcp", headers=session),
                await http.get("/sse", headers=ACCEPT),
            ):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")

        await check_refusals()
        released.set()
        assert text_of((await waiting).json()) == "held"
        assert (await http.get("/health")).status_code == 503
        await left.wait()
        await asyncio.sleep(0.01)  # the turns of the loop in which the rest ends
        await check_refusals()
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


STATES: dict[str, tuple[bytes, int]] = {
    "no request": (b"", 0), "half a head": (b"POST /mcp HTTP/1.1\r\nHost: loc", 0),
    "half a body": (raw_request("POST", "/mcp", {}, size=100), 0),
    "kept alive": (raw_request("POST", "/mcp", initialize()), 65536),
    "sse": (raw_request("GET", "/sse"), 65536), "listen": (raw_post(LISTEN), 65536), "get": (b"", 65536),
    "wait": (raw_post(call("wait")), 0), "block": (raw_post(call("block")), 0),
    "unread": (raw_post(call("large")), 1),
}  # fmt: skip
"""Requests of open connections, and how much of the response the client reads."""


@pytest.mark.parametrize(("parser", "is_mounted"), [("h11", False), ("httptools", True)])
def test_should_exit_ends_open_connections_within_grace_period(parser, is_mounted, caplog) -> None:
    released = threading.Event()
    threads: dict[str, threading.Thread] = {}
    with ExitStack() as stack:
        for state, (content, size) in STATES.items():
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
            host, port = listener.getsockname()
            connection = stack.enter_context(socket.create_connection((host, port), SOCKET_TIMEOUT))
            if state == "get":
                content = raw_request("GET", "/mcp", **session_headers(f"http://{host}:{port}/mcp"))
            connection.sendall(content)
            if size:
                connection.recv(size)
            if state in {"wait", "block"}:
                assert begun.wait(SOCKET_TIMEOUT)
            server.should_exit = True
        deadline = time.monotonic() + 1.0 + MARGIN
        for thread in threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        assert [state for state, thread in threads.items() if thread.is_alive()] == []
        released.set()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


# One server in several processes: workers, a restart, a reload, and replicas that share a store


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="the processes are killed by signals")

UNSHARED_PROGRAM = """
from mcpkit import Server
from mcpkit.storage import Memory
from starlette.applications import Starlette
from starlette.routing import Mount

app = Server("s", secret_key="s" * 32, storage=Memory()).asgi()
mounted = Starlette(routes=[Mount("/x", app)])
"""


@needs_signals
def test_uvicorn_workers_warn_once_without_shared_store(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNSHARED_PROGRAM)
    options = ["--app-dir", str(tmp_path), "--port", "0", "--workers", "2", "program:mounted"]
    with Served([sys.executable, "-m", "uvicorn", *options]) as served:
        served.wait_for("Application startup complete", times=2)
        served.stop()
    assert served.notes.count("2 worker processes serve clients without a shared engine") == 1
    assert "Server(storage=Sqlite(" in served.notes


def serve_at(port: int) -> Served:
    server = Served([*from_file("tests.helpers.servers.slow:app"), "--port", str(port)], MCPKIT_SECRET=SECRET)
    server.wait_for("Uvicorn running on")
    return server


@needs_signals
@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_official_client_call_succeeds_after_process_restart() -> None:
    port = free_port()
    with serve_at(port) as first:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp")
        async with OfficialClient(transport, mode="legacy") as client:
            before = (await client.call_tool("who", {})).content[0].text
            first.signal(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL
            with serve_at(port) as second:
                after = (await client.call_tool("who", {})).content[0].text
                name = before.partition(" ")[2]
                assert [before, after] == [f"{each.process.pid} {name}" for each in (first, second)]


PROGRAM = """
import os
import sys
from mcpkit import Server

server = Server("edited")


@server.tool
def version() -> str:
    return "first"


if __name__ == "__main__":
    folder = os.path.dirname(__file__)
    server.run("http", port=int(sys.argv[1]), reload=True, reload_dirs=[folder], reload_delay=0.05)
"""


@needs_signals
def test_edited_program_is_served_anew_with_its_arguments(tmp_path: Path) -> None:
    file, port = tmp_path / "server.py", free_port()
    with ExitStack() as stack:
        for number, version in enumerate(("first", "second"), 1):
            file.write_text(PROGRAM.replace("first", version))
            if number == 1:
                served = stack.enter_context(Served([sys.executable, str(file), str(port)]))
            else:
                served.wait_for("the program is started again")
            served.wait_for("Uvicorn running on", times=number)
            with SyncClient(f"http://127.0.0.1:{port}/mcp") as client:
                assert client.call_tool("version").text == version
        served.stop(signal.SIGTERM)
        assert "will not reload" not in served.notes


class Replicas(NamedTuple):
    urls: list[str]
    released: threading.Event
    cancelled: threading.Event

    def make_server(self, name: str, engine: Any) -> Server:
        server = Server("replicas", version="1", secret_key=SECRET, storage=engine)

        @server.tool
        async def ask(ctx: Context) -> str:
            return f"{(await ctx.elicit('Which colour?', str)).value} {name}"

        @server.tool
        async def wait(ctx: Context) -> str:
            await ctx.log("error", "begun")
            try:
                while not self.released.is_set():
                    await asyncio.sleep(0.002)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return name

        return server

    def post(self, index: int, message: Any, session: dict[str, str]) -> httpx2.Response:
        headers = {"accept": "application/json, text/event-stream"} | session
        return httpx2.post(self.urls[index], json=message, headers=headers, timeout=DEFAULT_TIMEOUT)

    def call(self, tool: str, session: dict[str, str]) -> EventStream:
        """Call a tool at the first replica."""
        message = request("tools/call", {"name": tool, "arguments": {}}, id=7)
        return EventStream(self.urls[0], "POST", message, session)


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def started_replicas(request, tmp_path_factory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    replicas = Replicas([], threading.Event(), threading.Event())
    with ExitStack() as stack:
        for name in ("one", "two"):
            engine = make_engine(request.param, folder)
            stack.callback(close, engine)
            app = replicas.make_server(name, engine).asgi()
            replicas.urls.append(stack.enter_context(in_thread(app)) + "/mcp")
        yield replicas


@pytest.fixture
def replicas(started_replicas: Replicas) -> Replicas:
    started_replicas.released.clear()
    started_replicas.cancelled.clear()
    return started_replicas


@pytest.fixture
def session(replicas: Replicas) -> dict[str, str]:
    """Header of a new session of the first replica."""
    opening = replicas.post(0, initialize(capabilities={"elicitation": {}}), {})
    session = {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert replicas.post(1, note, session).status_code == 202
    return session


def test_replica_accepts_response_to_question_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with replicas.call("ask", session) as stream:
        question = stream.message()
        assert question["method"] == "elicitation/create"
        for id_, status in ((f"{question['id']}0", 400), (question["id"], 202)):
            answer = {"jsonrpc": "2.0", "id": id_, "result": accept("red")}
            assert replicas.post(1, answer, session).status_code == status
        assert text_of(stream.message()) == "red one"


def test_replica_resumes_call_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with replicas.call("wait", session) as stream:
        first = stream.event()["id"]
        assert stream.message()["params"]["data"] == "begun"
    with EventStream(replicas.urls[1], "GET", None, session | {"Last-Event-ID": first}) as resumed:
        assert resumed.message()["params"]["data"] == "begun"
        replicas.released.set()
        *_, last = resumed.rest()
    assert (last["id"], text_of(last)) == (7, "one")


def test_replica_cancels_call_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with replicas.call("wait", session) as stream:
        assert stream.message()["params"]["data"] == "begun"
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert replicas.post(1, note, session).status_code == 202
        assert replicas.cancelled.wait(DEFAULT_TIMEOUT)
        assert stream.rest() == []
