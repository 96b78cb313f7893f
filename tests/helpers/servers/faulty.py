"""Server over stdio with tools that block, print, fork, leak threads or ignore cancellation."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcpkit import Context, Limits, Server, Timeouts
from mcpkit.transports.stdio import run_stdio

GRACE = float(os.environ.get("GRACE", "5"))
MAX_LINE = int(os.environ.get("MAX_LINE", str(64 * 1024 * 1024)))


def note(text: str) -> None:
    """Write a line to standard error at once."""
    os.write(2, f"{text}\n".encode())


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    yield
    note("lifespan left")


server = Server(
    "misbehaving",
    version="1.0.0",
    lifespan=lifespan,
    limits=Limits(max_message_size=MAX_LINE),
    timeouts=Timeouts(shutdown=GRACE),
)


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def big(size: int) -> str:
    return "x" * size


@server.tool
async def print_everywhere() -> str:
    print("printed by Python")
    os.write(1, b"written to descriptor 1\n")
    ctypes.CDLL(None).puts(b"printed by C")
    subprocess.run(["echo", "printed by a child"], check=True)
    print("left in a buffer", end="")
    return "done"


@server.tool
def fork() -> int:
    """Fork a child that runs until it gets a signal."""
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    return child


@server.tool
async def sleep(seconds: float) -> str:
    note("sleeping")
    await asyncio.sleep(seconds)
    return "slept"


@server.tool
def block(seconds: float) -> str:
    note("blocking")
    time.sleep(seconds)
    return "woke up"


@server.tool
async def block_loop(seconds: float) -> str:
    note("blocking")
    time.sleep(seconds)
    return "woke up"


@server.tool
async def spin() -> str:
    note("blocking")
    while True:
        pass


@server.tool
async def block_default_executor(seconds: float) -> str:
    note("blocking")
    await asyncio.to_thread(time.sleep, seconds)
    return "woke up"


@server.tool
async def swallow_cancellation() -> str:
    note("blocking")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("cancellation swallowed")


@server.tool
async def flood(messages: int, size: int, ctx: Context) -> str:
    for _ in range(messages):
        await ctx.info("x" * size)
    note("flooded")
    return "done"


@server.tool
def peak_memory() -> int:
    """Return the peak memory of the process in KiB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0])


def standing() -> list[object]:
    """Return process state that a run must restore."""
    files = [os.path.realpath(f"/proc/self/fd/{number}") for number in (0, 1, 2)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return [files, handlers, wakeup, sys.stdin, sys.stdout, getattr(sys.stdout, "line_buffering", None)]


if __name__ == "__main__":
    print("printed before run")
    before = standing()
    run_stdio(server)
    if sys.stderr is not None:
        note("all is restored" if standing() == before else f"{before} became {standing()}")
    print("standard output is back")
