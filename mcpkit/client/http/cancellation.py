"""Requests that are cancelled at any time, and leave no connection open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def unhurt(exchange: Callable[[], Awaitable[T]]) -> T:
    """Run httpx2 requests in their own task, and cancel them in the way httpx2 expects.

    Starting or ending a request closes the connections that servers have dropped. If asyncio cancels that, httpx2 loses
    the remaining ones. If an anyio cancel scope does, httpx2 closes them first.
    """
    import anyio

    async def run() -> T | None:
        try:
            with scope:
                return await exchange()
        finally:
            if not ended.done():
                ended.set_result(None)
        return None

    scope = anyio.CancelScope()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(run())
    try:
        await ended
    except asyncio.CancelledError:
        scope.cancel()
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # nobody wants to know any more
        raise
    return task.result()  # type: ignore[return-value]  # the scope is cancelled only above
