"""What clients leave behind when they vanish: nothing. Counts only; `bench/` has the figures."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import threading
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn

from mcpkit import Memory, Server
from mcpkit.transports.http.sessions.session import Session
from tests.helpers.shared_memory import sessions_in
from tests.helpers.waiting import until

pytestmark = pytest.mark.long

CLIENTS = 200
THREADS = 20
SESSIONS = 500
PATIENCE = 30.0
STATELESS = "2026-07-28"


@asynccontextmanager
async def served(server: Server, **options):
    """Serve over a real socket, in this event loop; the address is what it gives."""
    # asyncio turns Nagle's algorithm off only where the protocol is named.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    config = uvicorn.Config(server.asgi(**options), log_level="error", ws="none", timeout_graceful_shutdown=5)
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        await until(lambda: running.started)
        yield listening.getsockname()
    finally:
        running.should_exit = True
        await task
        listening.close()


def post(body: dict[str, object], headers: dict[str, str]) -> bytes:
    content = json.dumps(body).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "\r\n"]).encode() + content


def call(name: str) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta}}
    return post(body, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": name})


async def kill(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()


async def send_all(address: tuple[str, int], request: bytes, count: int) -> list[asyncio.StreamWriter]:
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection(*address)
        writer.write(request)
        writers.append(writer)
    return writers


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_clients_killed_in_mid_call_leave_no_task_and_no_descriptor():
    running: set[object] = set()
    server = Server("endurance")

    @server.tool
    async def hold() -> str:
        """Wait for ever."""
        me = object()
        running.add(me)
        try:
            await asyncio.Event().wait()
        finally:
            running.discard(me)
        return "never"

    async def main() -> None:
        async with served(server) as address:
            await kill(await send_all(address, call("hold"), 1))
            await until(lambda: not running)
            tasks, files = len(asyncio.all_tasks()), descriptors()
            writers = await send_all(address, call("hold"), CLIENTS)
            await until(lambda: len(running) == CLIENTS)
            await kill(writers)
            await until(lambda: not running)
            await until(lambda: len(asyncio.all_tasks()) <= tasks + 1 and descriptors() <= files)

    asyncio.run(main())


def test_threads_of_killed_clients_are_free_when_their_function_ends():
    let_go = threading.Event()
    entered: list[int] = []
    left: list[int] = []
    server = Server("endurance")

    @server.tool
    def hold() -> str:
        """Occupy a thread."""
        entered.append(1)
        let_go.wait(PATIENCE)
        left.append(1)
        return "held"

    async def main() -> None:
        async with served(server) as address:
            after: list[int] = []
            for wave in range(1, 4):
                let_go.clear()
                expected = wave * THREADS
                writers = await send_all(address, call("hold"), THREADS)
                await until(lambda: len(entered) == expected)
                assert threading.active_count() >= THREADS
                await kill(writers)
                let_go.set()
                await until(lambda: len(left) == expected)
                after.append(threading.active_count())
            # The server's threads wait for the next call; that the next wave needs no more says they are free.
            assert max(after) <= after[0] + 1

    asyncio.run(main())


def test_abandoned_sessions_are_gone_after_they_expire():
    broker = Memory()
    server = Server("endurance", shared=broker)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    request = post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {})

    async def main() -> None:
        async with served(server, session_ttl=2.0, max_sessions=SESSIONS) as address:
            reader, writer = await asyncio.open_connection(*address)
            for _ in range(SESSIONS):
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200"), head
                fields = dict(line.split(b": ", 1) for line in head.lower().strip().split(b"\r\n")[1:])
                assert b"mcp-session-id" in fields
                await reader.readexactly(int(fields[b"content-length"]))
            writer.close()
            await writer.wait_closed()
            assert sessions_in(broker)
            await until(lambda: sessions_in(broker) == [])
            gc.collect()
            assert [each for each in gc.get_objects() if type(each) is Session] == []

    asyncio.run(main())
