"""A server with tasks, whose processes are started by tests: it says in a file what its functions do."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Context, Redis, Server, Sqlite, Task, Tasks

SECRET = "a secret of sixteen and more"

SAFE = Task(rerun="safe")

LEASE = 10_000.0
"""Seconds that no test waits for."""


def make_server(shared: str, ledger: Path, **options: Any) -> Server:
    """Make the server.

    Args:
        shared: The URL of a Redis, a `#` and a prefix of the keys; or the path of a file.
        ledger: Where a line is written for each run that begins, and for each that ends.
        options: Of the server.
    """
    url, _, prefix = shared.partition("#")
    engine = Redis(url, prefix=prefix) if url.startswith("redis:") else Sqlite(url)

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        note("enters")
        yield "entered"
        note("leaves")

    def note(what: str) -> None:
        with ledger.open("a") as file:
            file.write(f"{os.getpid()} {what}\n")

    server = Server("lab", secret=SECRET, shared=engine, lifespan=lifespan, **options)
    running = 0

    @server.tool(task=SAFE)
    async def who(seconds: float = 0) -> dict[str, int]:
        """Say which process this is, and how many of these calls ran there at a time."""
        nonlocal running
        running += 1
        most = running
        await asyncio.sleep(seconds)
        running -= 1
        return {"process": os.getpid(), "most": most}

    @server.tool(task=SAFE)
    async def wait(label: str, ctx: Context) -> str:
        """Wait in the first attempt, and in no other."""
        note(f"{label} begins {ctx.attempt}")
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return f"{label} in attempt {ctx.attempt} by {os.getpid()} {ctx.state}"

    @server.tool(task=SAFE)
    async def stubborn(label: str, ctx: Context) -> str:
        """Go on in the first attempt, whoever cancels it."""
        note(f"{label} begins {ctx.attempt}")
        while ctx.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                note(f"{label} goes on")
        return f"{label} in attempt {ctx.attempt}"

    @server.tool(task=SAFE)
    def sleep(label: str, ctx: Context) -> str:
        """Sleep for long in a thread in the first attempt."""
        note(f"{label} begins {ctx.attempt}")
        if ctx.attempt == 1:
            time.sleep(600)
        return f"{label} in attempt {ctx.attempt}"

    @server.tool(task=Task(rerun="safe", timeout=1))
    async def hang(label: str, ctx: Context) -> None:
        """Hold up the event loop for long."""
        note(f"{label} begins {ctx.attempt}")
        time.sleep(600)

    @server.tool(task=Task(rerun="never"))
    async def once(label: str, seconds: float) -> str:
        """Take a while, and never be run again."""
        note(f"{label} begins")
        await asyncio.sleep(seconds)
        return f"{label} is done"

    return server


if "LAB_SHARED" in os.environ:
    server = make_server(
        os.environ["LAB_SHARED"],
        Path(os.environ["LAB_LEDGER"]),
        tasks=Tasks(
            by="replicas" if os.environ.get("LAB_TASKS") == "replicas" else "workers",
            lease=float(os.environ.get("LAB_LEASE", LEASE)),
        ),
    )
    app = server.asgi(grace=4)
