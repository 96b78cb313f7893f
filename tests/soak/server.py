"""The server of the soak test: over stdio, or over HTTP on the port of the first argument."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
import tracemalloc
from pathlib import Path

from mcpkit import Context, Server, Timeouts, ToolError

server = Server("soak", version="1.0.0", timeouts=Timeouts(session_idle=5.0))


@server.tool
async def echo(token: str, value: str = "") -> str:
    return f"{token}:{len(value)}"


@server.tool
def in_thread(token: str, numbers: list[int]) -> int:
    time.sleep(0.001)
    return sum(numbers)


@server.tool
async def waits(token: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return token


@server.tool(timeout=0.2)
async def late(token: str) -> str:
    await asyncio.sleep(30)
    return token


@server.tool
async def reports(token: str, steps: int, ctx: Context) -> str:
    async for _ in ctx.track(range(steps)):
        await asyncio.sleep(0)
    return token


@server.tool
def reports_from_thread(token: str, steps: int, ctx: Context) -> str:
    for step in range(steps):
        ctx.sync.report_progress(step, steps)
    return token


@server.tool
async def large(token: str, size: int) -> dict[str, str]:
    return {"token": token, "text": "x" * size}


@server.tool
async def fails(token: str) -> str:
    raise ToolError(token)


@server.tool
async def breaks(token: str) -> str:
    raise RuntimeError(token)


@server.tool
async def returns_nonsense(token: str) -> dict[str, float]:
    return {"value": object()}  # type: ignore[dict-item]  # what is wrong on purpose


@server.tool(run_in="process")
def in_process(token: str) -> str:
    return token


@server.tool(run_in="process")
def forks(token: str) -> str:
    if os.fork() == 0:
        sys.exit(0)
    return token


@server.tool(run_in="process")
def dies(token: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return token


@server.tool
async def state() -> dict[str, int]:
    """Count what the process holds."""
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "memory": memory, "descriptors": len(os.listdir("/proc/self/fd")), "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(), "processes": len(children),
    }  # fmt: skip


@server.resource("soak://text")
async def text() -> str:
    return "text"


def main(arguments: list[str]) -> None:
    tracemalloc.start()
    logging.basicConfig(level=logging.CRITICAL)
    if not arguments:
        server.run()
        return
    import uvicorn

    app = server.asgi()
    uvicorn.run(app, host="127.0.0.1", port=int(arguments[0]), log_level="critical", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1:])
