"""Requests that are cancelled at any time, and leave no connection open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def unhurt(exchange: Callable[[], Awaitable[T]]) -> T:
    """Run requests by httpx2 in a task of their own, and when this is cancelled let them end as httpx2 has it.

    Whoever begins or ends a request closes the connections that a server has dropped meanwhile. Where asyncio cancels
    that, httpx2 forgets those that are left; where a scope of anyio does, it closes them first. With one connection
    there are none left.
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
