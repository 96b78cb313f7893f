"""Requests that are cancelled at any time, and leave no connection open."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2


async def unhurt(sending: Coroutine[object, object, httpx2.Response]) -> httpx2.Response:
    """Send a request in a task of its own, and when this is cancelled let it end as httpx2 has it.

    Whoever asks next closes the connections that a server has dropped. Where asyncio cancels that, httpx2 forgets those
    that are left; where a scope of anyio does, it closes them first.
    """
    import anyio

    async def send() -> httpx2.Response | None:
        try:
            with scope:
                return await sending
        finally:
            if not sent.done():
                sent.set_result(None)
        return None

    scope = anyio.CancelScope()
    loop = asyncio.get_running_loop()
    sent: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(send())
    try:
        await sent
    except asyncio.CancelledError:
        scope.cancel()
        response = await _ended(task)
        if response is not None:
            await response.aclose()
        raise
    response = task.result()
    assert response is not None
    return response


async def _ended(task: asyncio.Task[httpx2.Response | None]) -> httpx2.Response | None:
    """Return what a task that has been cancelled has come to nevertheless."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    return None if task.cancelled() or task.exception() is not None else task.result()
