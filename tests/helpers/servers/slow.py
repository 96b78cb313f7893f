"""Server with slow, blocking and endless tools: under uvicorn, by itself, or mounted."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcpkit import Context, HttpOptions, Server, Timeouts


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    note("lifespan entered")
    try:
        if os.environ.get("SLOW_START"):
            note("lifespan waits")
            await asyncio.sleep(3600)
        yield
    finally:
        await asyncio.sleep(0)
        note("lifespan left")


grace = os.environ.get("GRACE", "10")
server = Server(
    "busy", lifespan=lifespan, timeouts=Timeouts(shutdown=None if grace == "None" else float(grace))
)


@server.tool
def who(ctx: Context) -> str:
    return f"{os.getpid()} {ctx.client.name}"


@server.tool
def block() -> None:
    note("it blocks")
    time.sleep(3600)


@server.tool
async def spin() -> None:
    note("it spins")
    while True:
        pass


@server.tool
async def finish() -> str:
    """Take longer than a signal takes."""
    note("it works")
    await asyncio.sleep(0.5)
    return "finished"


@server.tool
async def pour(ctx: Context) -> None:
    """Send more than any buffer holds."""
    note("it pours")
    while True:
        await ctx.report_progress(time.monotonic(), message="x" * 100_000)


app = server.asgi(http=HttpOptions(readiness_path="/health"))
mounted = None
if os.environ.get("MOUNTED"):
    from fastapi import FastAPI

    mounted = FastAPI()
    mounted.mount("/x", app)

if __name__ == "__main__":
    server.run("http", port=0, loop=sys.argv[1])
