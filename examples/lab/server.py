"""Long-running tasks on several replicas and workers that share one Redis.

python start.py                two replicas, a worker and a redis-server, on this machine
python server.py               a replica
mcpkit worker server:server    a worker
uvicorn server:app             a replica in production; needs MCPKIT_SECRET

REDIS_URL   the shared Redis, such as redis://127.0.0.1:6379/0; without it, this process runs alone
PORT        the port of `python server.py`; 8000
LEDGER      the file to which each step adds a line; ledger.txt
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, Field

from mcpkit import Context, HttpOptions, Provider, Server, Task, Tool
from mcpkit.storage import Redis

REDIS_URL = os.environ.get("REDIS_URL")
PORT = int(os.environ.get("PORT", "8000"))
LEDGER = os.environ.get("LEDGER", "ledger.txt")
SECRET = os.environ.get("MCPKIT_SECRET", "for this machine alone: set MCPKIT_SECRET elsewhere")

STEP = 0.1
"""Seconds that a step of `count` takes."""

server = Server(
    "lab",
    version="1.0.0",
    title="Lab",
    instructions="Long-running tools to try tasks with, and changes to subscribe to.",
    secret_key=SECRET,
    storage=Redis(REDIS_URL) if REDIS_URL else None,
    tasks="workers" if REDIS_URL else None,
)


class Computed(BaseModel):
    """The result of a computation."""

    label: str
    seconds: float
    process: str = Field(description="The process that ran it to its end")
    attempt: int = Field(description="How many times it was started")


class Confirmation(BaseModel):
    """The form for the user before a file is deleted."""

    confirm: bool = Field(description="Delete it")


def process() -> str:
    """Return a name of this process that no other process has."""
    return f"{socket.gethostname()}:{os.getpid()}"


def note(line: str) -> int:
    """Append a line to the ledger in one write, as other processes write too; return its length in bytes."""
    entry = f"{line}\n".encode()
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        return os.write(descriptor, entry)
    finally:
        os.close(descriptor)


@server.tool(task=Task(rerun="safe"))
async def slow_compute(seconds: float, label: str, ctx: Context) -> Computed:
    """Compute for a while. The task is started again when its process ends.

    Args:
        seconds: How long it takes.
        label: What to call it.
    """
    await asyncio.sleep(seconds)
    return Computed(
        label=label, seconds=seconds, process=process(), attempt=ctx.task.attempt if ctx.task else 1
    )


@server.tool(task=Task(rerun="safe"))
async def count(n: int, ctx: Context) -> str:
    """Count, with a line in the ledger for each step. A step that is done does not run again.

    Args:
        n: The number of steps.
    """
    for step in range(1, n + 1):
        await ctx.once(f"step {step}", partial(note, f"{ctx.idempotency_key} {step} of {n} by {process()}"))
        await ctx.report_progress(step, n, f"{step} of {n}")
        await asyncio.sleep(STEP)
    return f"counted to {n}"


@server.tool(task=True)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask the user, and write in the ledger that a file was deleted. No file is deleted.

    Args:
        filename: Its name.
    """
    answer = await ctx.elicit(f"Delete {filename}?", Confirmation)
    if not answer or not answer.value.confirm:
        return f"{filename} is kept"
    note(f"{ctx.idempotency_key} deleted {filename} by {process()}")
    return f"{filename} is deleted"


def extra() -> str:
    """Return a word. The tool exists only after `toggle_tool`."""
    return "here"


class Extra(Provider):
    """Provides the tool `extra` while the shared storage has it enabled, on all replicas."""

    kinds = frozenset({"tools"})
    key = "lab/extra"

    async def list(self, kind: str, ctx: Context) -> Sequence[Tool]:
        """Return the tool if it is enabled."""
        stored = await ctx.storage.get(self.key)
        return [Tool(extra)] if stored is not None and stored.value == b"there" else []

    async def find(self, kind: str, key: str, ctx: Context) -> Tool | None:
        """Return the tool of this name if it is enabled."""
        return next((tool for tool in await self.list(kind, ctx) if tool.name == key), None)

    async def toggle(self, ctx: Context) -> bool:
        """Enable or disable the tool, notify clients, and return whether it is enabled now."""
        while True:
            stored = await ctx.storage.get(self.key)
            is_there = stored is None or stored.value != b"there"
            value, version = b"there" if is_there else b"", None if stored is None else stored.version
            if await ctx.storage.put(self.key, value, version=version, ttl=86400):
                self.changed("tools")
                return is_there


provided = Extra()
server.include(provided)


@server.tool
async def toggle_tool(ctx: Context) -> str:
    """Add the tool `extra`, or remove it. Clients of all replicas are notified."""
    return "extra is there now" if await provided.toggle(ctx) else "extra is gone"


@server.tool
def touch_resource(uri: str) -> str:
    """Notify the subscribers of a resource on all replicas that it has changed.

    Args:
        uri: Its URI, such as lab://bench.
    """
    server.notify_resource_updated(uri)
    return f"told that {uri} has changed"


@server.resource("lab://{name}")
def thing(name: str) -> str:
    """A thing in the lab.

    Args:
        name: Its name.
    """
    return f"{name}, as {process()} sees it"


app = server.asgi(http=HttpOptions(readiness_path="/health"))

if __name__ == "__main__":
    server.run("http", port=PORT, http=HttpOptions(readiness_path="/health"))
