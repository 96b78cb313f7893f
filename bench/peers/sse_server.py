"""No protocol: sse-starlette's `EventSourceResponse` in a bare Starlette app, to see what a stream of its costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

queues: set[asyncio.Queue[str]] = set()


async def events() -> AsyncIterator[str]:
    queue: asyncio.Queue[str] = asyncio.Queue(256)
    queues.add(queue)
    try:
        yield "acknowledged"
        while True:
            yield await queue.get()
    finally:
        queues.discard(queue)


async def endpoint(request: Request) -> Response:
    """Open a stream for `subscriptions/listen`; anything else sends a message to all streams."""
    message = await request.json()
    if message["method"] == "subscriptions/listen":
        return EventSourceResponse(events())
    for queue in queues:
        queue.put_nowait("notifications/resources/updated")
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": {}})


def build(functions: object, *, structured: bool = False) -> Starlette:
    del functions, structured
    return Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])


def asgi(server: Starlette, mode: str) -> Any:
    del mode
    return server
