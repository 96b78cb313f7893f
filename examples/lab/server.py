"""A lab: long work that outlives its connection, on several replicas and workers that have one Redis.

python start.py                                two replicas, a worker and a redis-server, on this machine
python server.py                               a replica
mcpkit worker server:server          a worker
uvicorn server:app                             a replica in production; it takes MCPKIT_SECRET

REDIS_URL   the Redis that all of them share, such as redis://127.0.0.1:6379/0; without it, this process is alone
PORT        the port to listen on, by python; 8000
LEDGER      the file to which each step of the work adds a line; ledger.txt
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
    instructions="Long work to try tasks with, and changes to hear of.",
    secret_key=SECRET,
    storage=Redis(REDIS_URL) if REDIS_URL else None,
    tasks="workers" if REDIS_URL else None,
)


class Computed(BaseModel):
    """What has been computed."""

    label: str
    seconds: float
    process: str = Field(description="The process that ran it to its end")
    attempt: int = Field(description="How many times it was begun")


class Confirmation(BaseModel):
    """What the user is asked before something is deleted."""

    confirm: bool = Field(description="Delete it")


def process() -> str:
    """Return what tells this process from all others."""
    return f"{socket.gethostname()}:{os.getpid()}"


def note(line: str) -> int:
    """Add a line to the ledger, at once and whole, whoever else does; return how many bytes it has."""
    entry = f"{line}\n".encode()
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        return os.write(descriptor, entry)
    finally:
        os.close(descriptor)


@server.tool(task=Task(rerun="safe"))
async def slow_compute(seconds: float, label: str, ctx: Context) -> Computed:
    """Compute for a while. It is begun again where its process ends.

    Args:
        seconds: For how long.
        label: What to call it.
    """
    await asyncio.sleep(seconds)
    return Computed(
        label=label, seconds=seconds, process=process(), attempt=ctx.task.attempt if ctx.task else 1
    )


@server.tool(task=Task(rerun="safe"))
async def count(n: int, ctx: Context) -> str:
    """Count, and add a line to the ledger for each step; steps that are done are not done again.

    Args:
        n: How far.
    """
    for step in range(1, n + 1):
        await ctx.once(f"step {step}", partial(note, f"{ctx.idempotency_key} {step} of {n} by {process()}"))
        await ctx.report_progress(step, n, f"{step} of {n}")
        await asyncio.sleep(STEP)
    return f"counted to {n}"


@server.tool(task=True)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask the user, and then say in the ledger that a file was deleted; no file really is.

    Args:
        filename: Its name.
    """
    answer = await ctx.elicit(f"Delete {filename}?", Confirmation)
    if not answer or not answer.value.confirm:
        return f"{filename} is kept"
    note(f"{ctx.idempotency_key} deleted {filename} by {process()}")
    return f"{filename} is deleted"


def extra() -> str:
    """Be there, or not."""
    return "here"


class Extra(Provider):
    """One tool that is there or not, which the shared store says: it is the same on all replicas."""

    kinds = frozenset({"tools"})
    key = "lab/extra"

    async def list(self, kind: str, ctx: Context) -> Sequence[Tool]:
        """Return the tool, if it is there."""
        stored = await ctx.storage.get(self.key)
        return [Tool(extra)] if stored is not None and stored.value == b"there" else []

    async def find(self, kind: str, key: str, ctx: Context) -> Tool | None:
        """Return the tool, if it is there and goes by this name."""
        return next((tool for tool in await self.list(kind, ctx) if tool.name == key), None)

    async def toggle(self, ctx: Context) -> bool:
        """Add the tool or remove it, tell whoever listens, and say whether it is there now."""
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
    """Add the tool `extra`, or remove it. Clients of all replicas are told."""
    return "extra is there now" if await provided.toggle(ctx) else "extra is gone"


@server.tool
def touch_resource(uri: str) -> str:
    """Tell the clients of all replicas that a resource has changed.

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
