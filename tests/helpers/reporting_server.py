"""The server whose handlers report: `python -m reporting_server` over stdio, `reporting_server:app` under uvicorn."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from dataclasses import dataclass

from mcpkit import Context, LogHandler, Server

log = logging.getLogger("archive")
log.setLevel(logging.DEBUG)
log.addHandler(LogHandler())
log.propagate = False

server = Server("reporting", version="1")
app = server.asgi()


@dataclass
class Hurry:
    """How many reports a function has made, and in how many seconds."""

    count: int
    seconds: float


class Late:
    """What a call of before does once a later one lets it go on.

    Attributes:
        ctx: The call of before.
    """

    ctx: Context

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.is_over = threading.Event()
        self.met: list[str] = []

    def take(self) -> str:
        """Return what was met, and be as new."""
        met = "; ".join(self.met)
        self.met.clear()
        self.gate.clear()
        self.is_over.clear()
        return met

    def wait(self) -> None:
        """Wait for the later call, in a thread."""
        self.gate.wait(60)


late = Late()


@server.tool
async def index(count: int, ctx: Context) -> str:
    """Go through items, and log each."""
    async for page in ctx.track(range(count), "Indexing"):
        await asyncio.sleep(0)
        log.debug("page %d", page)
    return "indexed"


@server.tool
def index_in_thread(count: int, ctx: Context) -> str:
    """Do as `index` does, in a worker thread."""
    for page in ctx.sync.track(range(count), "Indexing"):
        log.debug("page %d", page)
    return "indexed"


@server.tool
async def hurry(count: int, ctx: Context) -> Hurry:
    """Report as fast as can be."""
    started = time.monotonic()
    for done in range(1, count + 1):
        await ctx.progress(done, count)
        await asyncio.sleep(0)
    return Hurry(count, time.monotonic() - started)


@server.tool
def hurry_in_thread(count: int, ctx: Context) -> Hurry:
    """Do as `hurry` does, in a worker thread."""
    started = time.monotonic()
    for done in range(1, count + 1):
        ctx.sync.progress(done, count)
    return Hurry(count, time.monotonic() - started)


@server.tool
async def stray(ctx: Context) -> str:
    """Report what does not increase."""
    for done in (1, 1, 0.5, 2, 1.5, 3):
        await ctx.progress(done, 3, f"at {done}")
    return "strayed"


@server.tool
async def tell(ctx: Context) -> str:
    """Log at four levels, in both ways, and from a thread of asyncio's."""
    await ctx.debug({"n": 1}, logger="own")
    await ctx.info("n 2")
    await ctx.warning("n 3")
    await ctx.error("n 4")
    log.debug("n %d", 5)
    log.info("n %d", 6)
    log.warning("n %d", 7)
    log.error("n %d", 8)
    await asyncio.to_thread(log.error, "n %d", 9)
    return "told"


@server.tool
def tell_in_thread(ctx: Context) -> str:
    """Do as `tell` does, in a worker thread."""
    ctx.sync.debug({"n": 1}, logger="own")
    ctx.sync.info("n 2")
    ctx.sync.warning("n 3")
    ctx.sync.error("n 4")
    log.debug("n %d", 5)
    log.info("n %d", 6)
    log.warning("n %d", 7)
    log.error("n %d", 8)
    log.error("n %d", 9)
    return "told"


@server.tool
async def leave(ctx: Context) -> str:
    """Answer, and leave a task behind that reports later."""

    async def go_on() -> None:
        await asyncio.to_thread(late.wait)
        log.error("too late")
        for report in (ctx.error("too late"), ctx.progress(99)):
            try:
                await report
            except RuntimeError as error:
                late.met.append(str(error))
        late.is_over.set()

    late.ctx = ctx
    left.add(task := asyncio.create_task(go_on()))
    task.add_done_callback(left.discard)
    await ctx.progress(1)
    return "left"


left: set[asyncio.Task[None]] = set()


@server.tool
def block(ctx: Context) -> str:
    """Block a worker thread, which reports only when nobody waits for it any more."""
    late.ctx = ctx
    ctx.sync.progress(1)
    print("it blocks", file=sys.stderr, flush=True)
    late.wait()
    log.error("too late")
    for report, value in ((ctx.sync.error, "too late"), (ctx.sync.progress, 99)):
        try:
            report(value)  # type: ignore[operator]  # each takes its own
        except RuntimeError as error:
            late.met.append(str(error))
    late.is_over.set()
    return "blocked"


@server.tool
async def release(ctx: Context) -> str:
    """Let what was left behind go on once its call is over, and return what it met."""
    await ctx.progress(1)
    while not late.ctx.cancelled:  # nothing else tells that a connection has been closed
        await asyncio.sleep(0.01)
    late.gate.set()
    await asyncio.to_thread(late.is_over.wait, 60)
    return late.take()


if __name__ == "__main__":
    server.run()
