"""How serving over HTTP ends, whoever runs the app and whatever a function is doing. Periods are upper limits only."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from subprocess import TimeoutExpired
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from mcpkit import Server
from tests.helpers.serving import HELPERS, PATIENCE, Served, from_file

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
    pytest.mark.usefixtures("hear_interrupts"),
    pytest.mark.long,
]

GRACE = 0.5
MARGIN = 5.0
"""Seconds beyond what is promised, for a machine that has more to do."""
BUSY = HELPERS / "busy.py"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
STATELESS = ACCEPT | {"MCP-Protocol-Version": "2026-07-28"}
LISTEN = {
    "jsonrpc": "2.0",
    "id": "listening",
    "method": "subscriptions/listen",
    "params": {"notifications": {"toolsListChanged": True}, "_meta": META},
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def call(tool: str) -> dict[str, Any]:
    """Return what to send, as keyword arguments of the client."""
    params = {"name": tool, "arguments": {}, "_meta": META | {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return {"json": message, "headers": STATELESS | {"Mcp-Method": "tools/call", "Mcp-Name": tool}}


def served(runner: str, loop: str = "asyncio", parser: str = "h11", **settings: object) -> Served:
    options = ["--loop", loop, "--http", parser]
    settings = {"GRACE": GRACE, **settings}
    if runner == "run":
        return Served([sys.executable, str(BUSY), loop, parser], **settings)
    if runner == "mounted":
        return Served(from_file("tests.helpers.busy:mounted", *options), MOUNTED=1, **settings)
    if runner == "workers":
        workers = Served(from_file("tests.helpers.busy:app", *options, "--workers", "2"), **settings)
        workers.wait_for("Application startup complete", times=2)
        return workers
    return Served(from_file("tests.helpers.busy:app", *options), **settings)


class Client:
    """Somebody who waits for an answer in a thread; a context manager that waits for its end.

    Attributes:
        heard: What has come: the data of events, and at the end the whole of any other answer.
        status: The answer's status; None where the connection broke before it.
    """

    def __init__(self, method: str, url: str, **request: Any) -> None:
        self.heard: list[str] = []
        self.status: int | None = None
        self.has_ended_well = False
        self._has_heard = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(method, url, request))

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE)

    def wait(self) -> None:
        """Wait for the first thing that it hears."""
        assert self._has_heard.wait(PATIENCE), f"nothing came; the status is {self.status}"

    def _listen(self, method: str, url: str, request: dict[str, Any]) -> None:
        try:
            with httpx2.Client(timeout=PATIENCE) as http, http.stream(method, url, **request) as response:
                self.status = response.status_code
                for line in response.iter_lines():
                    self.heard.append(line.removeprefix("data:").strip())
                    self._has_heard.set()
            self.has_ended_well = True
        except httpx2.TransportError:
            pass
        finally:
            self._has_heard.set()

    @property
    def messages(self) -> list[Any]:
        return [json.loads(line) for line in self.heard if line.startswith("{")]


@contextmanager
def slow_reader(url: str) -> Iterator[None]:
    """Ask for more than any buffer holds, and read none of it."""
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


def session(url: str) -> dict[str, str]:
    answer = httpx2.post(url, json=INITIALIZE, headers=ACCEPT, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.parametrize(
    ("runner", "number", "loop", "parser", "statuses"),
    [
        ("uvicorn", signal.SIGTERM, "asyncio", "h11", {-signal.SIGTERM, 143}),
        # As the grace period is over, uvicorn ends by the signal or with 0, or the watchdog with 128 and the signal.
        ("uvicorn", signal.SIGINT, "uvloop", "httptools", {0, 130}),
        ("run", signal.SIGTERM, "uvloop", "httptools", {-signal.SIGTERM, 143}),
        ("run", signal.SIGINT, "asyncio", "h11", {0, 130}),
        ("mounted", signal.SIGTERM, "uvloop", "h11", {-signal.SIGTERM, 143}),
        ("mounted", signal.SIGINT, "asyncio", "httptools", {0, 130}),
        ("workers", signal.SIGTERM, "uvloop", "httptools", {0}),
        ("workers", signal.SIGINT, "asyncio", "h11", {0}),
    ],
)
def test_streams_are_closed_and_the_process_is_gone_in_time(runner, number, loop, parser, statuses, capsys):
    with served(runner, loop, parser) as server, ExitStack() as stack:
        base = server.origin + ("/x" if runner == "mounted" else "")
        url = f"{base}/mcp"
        stack.enter_context(slow_reader(url))
        server.wait_for("it pours")
        stack.enter_context(Client("POST", url, **call("block")))
        server.wait_for("it blocks")
        headers = STATELESS | {"Mcp-Method": "subscriptions/listen"}
        listener = stack.enter_context(Client("POST", url, json=LISTEN, headers=headers))
        getter = stack.enter_context(Client("GET", url, headers=ACCEPT | session(url)))
        sse = stack.enter_context(Client("GET", f"{base}/sse", headers=ACCEPT))
        for client in (listener, getter, sse):
            client.wait()
        start = time.monotonic()
        server.signal(number, group=runner == "workers" and number == signal.SIGINT)
        status = server.wait()
        seconds = time.monotonic() - start
    with capsys.disabled():
        print(f"\n  {runner}, {number.name}: gone {seconds - GRACE:.2f} s after its grace period", end="")
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
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)])
@pytest.mark.parametrize("runner", ["uvicorn", "run"])
def test_a_call_that_finishes_is_answered(runner, number, status):
    with served(runner, GRACE=3600) as server:
        with Client("POST", f"{server.origin}/mcp", **call("finish")) as client:
            server.wait_for("it works")
            server.signal(number)
        assert [message["result"]["content"][0]["text"] for message in client.messages] == ["finished"]
        assert server.wait() == status
        assert server.notes.count("lifespan left") == 1
        assert "Traceback" not in server.notes


@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_coroutine_that_never_yields_does_not_keep_the_process(loop, number):
    with served("uvicorn", loop) as server, Client("POST", f"{server.origin}/mcp", **call("spin")):
        server.wait_for("it spins")
        server.signal(number)
        assert server.wait() == 128 + number


def test_a_worker_that_never_yields_does_not_keep_its_parent():
    with served("workers") as server, Client("POST", f"{server.origin}/mcp", **call("spin")):
        server.wait_for("it spins")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


@pytest.mark.parametrize(("runner", "grace"), [("uvicorn", 3600), ("uvicorn", None), ("run", 3600)])
def test_a_second_interrupt_leaves_the_lifespan_at_once(runner, grace):
    with served(runner, GRACE=grace) as server, Client("POST", f"{server.origin}/mcp", **call("block")):
        server.wait_for("it blocks")
        server.signal(signal.SIGINT)
        server.wait_for("Waiting for connections to close")
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        assert server.notes.count("lifespan left") == 1


def test_a_second_interrupt_ends_what_never_yields():
    with served("uvicorn", GRACE=3600) as server, Client("POST", f"{server.origin}/mcp", **call("spin")):
        server.wait_for("it spins")
        deadline = time.monotonic() + PATIENCE
        while server.process.poll() is None and time.monotonic() < deadline:
            server.signal(signal.SIGINT)  # nothing says that the one before has been heard
            with suppress(TimeoutExpired):
                server.process.wait(0.5)
        assert server.wait() == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_is_still_starting(number):
    with served("uvicorn", GRACE=3600, SLOW_START=1) as server:
        server.wait_for("lifespan waits")
        server.signal(number)
        assert server.wait() != 0
        assert server.notes.count("lifespan left") == 1


# In this process: a handler of the test's own stands for that of whoever runs the app.


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that have been handed on."""
    numbers: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda number, frame: numbers.append(number))
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def reach(server: Server) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(server.asgi(grace=None, health="/health"))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.mark.anyio
async def test_new_work_is_refused_while_it_ends(heard):
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

    async with reach(server) as http:
        held = asyncio.create_task(http.post("/mcp", **call("hold")))
        await running.wait()
        opened = await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        ours = ACCEPT | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
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
        assert (await held).json()["result"]["content"][0]["text"] == "held"
        assert (await http.get("/health")).status_code == 503
        await left.wait()
        await asyncio.sleep(0.01)  # the turns of the loop in which the rest ends
        assert await ask() == [(503, "1")] * 4, "it began once more"
    assert heard == [signal.SIGTERM]


@pytest.mark.anyio
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_interrupt_cuts_calls_off_and_leaves_the_lifespan(first, heard):
    running, left = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        yield
        left.set()

    server = Server("hurrying", lifespan=lifespan)

    @server.tool
    async def hold() -> None:
        running.set()
        await asyncio.Event().wait()

    async with reach(server) as http:
        held = asyncio.create_task(http.post("/mcp", **call("hold")))
        await running.wait()
        signal.raise_signal(first)
        signal.raise_signal(signal.SIGINT)
        answer = (await held).json()
        await left.wait()
    assert answer["error"]["message"] == "The server has ended before the call was finished"
    assert heard == [first, signal.SIGINT]


@pytest.mark.anyio
async def test_a_signal_is_handed_on_once_though_others_hear_it_in_between(heard):
    async with reach(Server("first")) as first, reach(Server("second")) as second:
        await first.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        ours = signal.getsignal(signal.SIGTERM)
        assert callable(ours)
        signal.signal(signal.SIGTERM, lambda number, frame: ours(number, frame))
        await second.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


@pytest.mark.anyio
async def test_an_interrupt_that_the_program_catches_stays_its_own():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        async with reach(Server("notebook")) as http:
            await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
