"""Runs the weather server at a free port, for programs that call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from server import server


@asynccontextmanager
async def running() -> AsyncIterator[str]:
    config = uvicorn.Config(server.asgi(), port=0, log_level="warning")
    web = uvicorn.Server(config)
    task = asyncio.create_task(web.serve())
    while not web.started:
        await asyncio.sleep(0.01)
    port = web.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp"
    web.should_exit = True
    await task
