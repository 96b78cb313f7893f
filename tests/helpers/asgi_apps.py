"""Small ASGI apps, what they send, and HTTP clients of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from mcpkit.client.transports.http.asgi import AsgiTransport

App = Callable[..., Awaitable[None]]
PIECE = b"x" * 1024


def http(function: App) -> App:
    """Make an app of a function that serves requests; it knows no lifespan."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await function(scope, receive, send)

    return app


@asynccontextmanager
async def using(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client of an app, that leaves no task behind."""
    before = asyncio.all_tasks()
    async with httpx2.AsyncClient(transport=AsgiTransport(app), base_url="http://localhost:8000") as client:
        yield client
    assert asyncio.all_tasks() - before == set()


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(part: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": part, "more_body": more}


async def disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
