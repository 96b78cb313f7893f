"""The server of `tasks.py`: its workers take tasks once a file exists, all at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mcpkit import Server, Task, TaskOptions
from mcpkit.storage import Redis, Sqlite

MOST = 1_000_000


def make_server(shared: str) -> Server:
    """Make a server that shares a Redis, by its URL, or a file; it has no tool yet that does anything."""
    engine = Redis(shared) if shared.startswith("redis:") else Sqlite(shared)
    tasks = TaskOptions(by="workers", max_open_per_owner=MOST, max_open=MOST)

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        waiting = asyncio.create_task(begin(server)) if "BENCH_GO" in os.environ else None
        yield
        if waiting is not None:
            waiting.cancel()

    server = Server(
        "bench", secret_key="a secret of sixteen and more", storage=engine, lifespan=lifespan, tasks=tasks
    )

    @server.tool(task=True)
    def other() -> None: ...

    return server


async def begin(server: Server) -> None:
    """Wait for the file, and have tasks run from then on."""
    while not Path(os.environ["BENCH_GO"]).exists():
        await asyncio.sleep(0.005)
    add_tool(server)


def add_tool(server: Server) -> None:
    """Add the tool of the measured tasks: it waits."""
    ledger = os.open(os.environ.get("BENCH_LEDGER", os.devnull), os.O_WRONLY | os.O_APPEND)

    @server.tool(task=Task(rerun="safe"))
    async def wait(seconds: float, number: int) -> int:
        began = time.monotonic()
        await asyncio.sleep(seconds)
        os.write(ledger, b"%d %.6f %.6f %d\n" % (os.getpid(), began, time.monotonic(), number))
        return number


if "BENCH_SHARED" in os.environ:
    server = make_server(os.environ["BENCH_SHARED"])
