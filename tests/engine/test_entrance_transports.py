"""A server whose lifespan registers a tool for each table of a database, and clients that list at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import (
    Context,
    Server,
    Timeouts,
)
from mcpkit.middleware import CallNext, Request
from tests.helpers.process_client import DEFAULT_TIMEOUT, environment, line
from tests.helpers.process_client import STATELESS_META as META
from tests.helpers.serving import in_thread

PROGRAM = """
import anyio.to_thread, os, sqlite3
from contextlib import asynccontextmanager
from pathlib import Path
from mcpkit import Context, Server, Timeouts

@asynccontextmanager
async def lifespan(server):
    await anyio.to_thread.run_sync(Path(os.environ["GATE"]).read_text)  # until the test writes to it
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.executescript("create table orders (id); insert into orders values (1), (2); create table users (id)")
    for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        def count(ctx: Context[sqlite3.Connection], table: str = table) -> int:
            return ctx.state.execute(f"select count(*) from {table}").fetchone()[0]
        server.tool(name=f"count_{table}")(count)
    yield database

server = Server("tables", lifespan=lifespan, timeouts=Timeouts(startup=float(os.environ.get("WAIT", "5"))))
"""
STDIO = f"{PROGRAM}\nserver.run()"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}
HEADERS = {"Accept": "application/json, text/event-stream"}


def request(id_: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@contextmanager
def host(gate: Path, wait: str = "5.0") -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", STDIO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(GATE=gate, WAIT=wait),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
        process.stdin.close()
        assert process.wait(DEFAULT_TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def told(message: dict[str, Any]) -> Any:
    """Return what a message says: the names of a list, a text, an error, or what is declared."""
    if "error" in message:
        return message["error"]["message"]
    result = message["result"]
    if "tools" in result:
        return [tool["name"] for tool in result["tools"]]
    return result["content"][0]["text"] if "content" in result else sorted(result.get("capabilities", ()))


@pytest.mark.slow
def test_a_host_that_lists_right_after_initialize(gate: Path) -> None:
    with host(gate) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (
            request(1, "initialize", **INITIALIZE),
            request(2, "tools/list"),
            request(3, "tools/call", name="count_orders", arguments={}),
            request(4, "tools/call", name="count_ghosts", arguments={}),
            request(5, "ping"),
        ):
            process.stdin.write(line(message))
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 5, "result": {}}
        gate.write_text("go")
        answers = {message["id"]: message for message in map(json.loads, lines(process, 4))}
    assert [told(answers[id_]) for id_ in (1, 2, 3, 4)] == [
        ["logging", "tools"],
        ["count_orders", "count_users"],
        "2",
        "Unknown tool: count_ghosts",
    ]


def test_session_receives_list_changed_after_the_lifespan_wait() -> None:
    gated = Gated(timeouts=Timeouts(startup=0))
    with in_thread(below(gated.server.asgi())) as url, httpx2.Client(timeout=DEFAULT_TIMEOUT) as http:
        try:
            answer = http.post(f"{url}/x/mcp", json=request(1, "initialize", **INITIALIZE), headers=HEADERS)
            headers = {**HEADERS, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert http.post(f"{url}/x/mcp", json=ready, headers=headers).status_code == 202
            assert (
                told(http.post(f"{url}/x/mcp", json=request(2, "tools/list"), headers=headers).json()) == []
            )
            with http.stream("GET", f"{url}/x/mcp", headers=headers) as stream:
                gated.gate.set()
                events = (text[6:] for text in stream.iter_lines() if text.startswith("data: {"))
                assert json.loads(next(events))["method"] == "notifications/tools/list_changed"
            assert told(http.post(f"{url}/x/mcp", json=request(3, "tools/list"), headers=headers).json()) == [
                "late"
            ]
        finally:
            gated.gate.set()


def lines(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def stateless_headers(method: str, **more: str) -> dict[str, str]:
    return {**HEADERS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **more}


class Gated:
    """A server whose lifespan registers a tool once the gate is open; a thread may open it."""

    def __init__(self, **options: Any) -> None:
        self.gate = threading.Event()
        self.server = Server("gated", lifespan=self.lifespan, **options)

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[str]:
        await anyio.to_thread.run_sync(self.gate.wait)

        @server.tool
        def late(ctx: Context[str]) -> str:
            return ctx.state

        yield "here"


def below(app: Any) -> Any:
    return Starlette(routes=[Mount("/x", app)])


FAILING = """
import anyio.to_thread, os
from contextlib import asynccontextmanager
from pathlib import Path
from mcpkit import Context, Server, Timeouts

@asynccontextmanager
async def lifespan(server):
    await anyio.to_thread.run_sync(Path(os.environ["GATE"]).read_text)  # until the test writes to it
    raise OSError("no database")
    yield

server = Server("failing", lifespan=lifespan)

@server.tool
def read(ctx: Context) -> str:
    return "x"
"""


@pytest.mark.slow
def test_failing_lifespan_is_logged_once_on_stdio(gate: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", f"{FAILING}\nserver.run()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(GATE=gate),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for message in (
            request(1, "initialize", **INITIALIZE),
            request(2, "tools/call", name="read", arguments={}),
        ):
            process.stdin.write(line(message))
        process.stdin.flush()
        gate.write_text("go")
        notes = process.stderr.read().decode()
        assert process.wait(DEFAULT_TIMEOUT) == 1
    assert notes.count("OSError: no database") == 1


@pytest.mark.parametrize("method", ["tools/list", "initialize"])
def test_middleware_that_needs_the_state_after_the_wait_is_answered_503(method: str) -> None:
    gated = Gated(timeouts=Timeouts(startup=0))

    @gated.server.middleware
    async def note(request: Request, call_next: CallNext) -> Any:
        assert request.ctx.state == "here"
        return await call_next(request)

    is_stateless = method == "tools/list"
    headers = stateless_headers(method) if is_stateless else HEADERS
    message = request(1, method, **({"_meta": META} if is_stateless else INITIALIZE))
    with in_thread(below(gated.server.asgi())) as url, httpx2.Client(timeout=DEFAULT_TIMEOUT) as http:
        try:
            answer = http.post(f"{url}/x/mcp", json=message, headers=headers)
        finally:
            gated.gate.set()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "still starting" in answer.json()["error"]["message"]
