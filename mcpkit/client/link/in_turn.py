"""Calls handlers of a client, `async` or not, one after the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 1000
"""Calls of an `async` handler that wait for those before them."""


class InTurn:
    """Calls handlers and awaits their results in the order of the calls.

    Args:
        failed: Called with the exception of an awaited handler.
    """

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        self._failed = failed
        self._waiting: deque[Awaitable[object]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._has_warned = False

    def call(self, handler: Callable[..., object], *args: object) -> None:
        """Call a handler. If too many calls are waiting, the call is dropped, which is logged once.

        Raises:
            Exception: A handler that is not `async` failed.
        """
        if len(self._waiting) >= MOST_WAITING:
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "a notification handler is too slow; further notifications of the server are dropped "
                    "until it catches up. Start long work of the handler in a task of its own"
                )
            return
        told = handler(*args)
        if inspect.isawaitable(told):
            self._waiting.append(told)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._waiting:
            try:
                await self._waiting.popleft()
            except Exception as error:  # noqa: BLE001 - a handler's own
                self._failed(error)

    async def finished(self) -> None:
        """Wait until all calls have ended."""
        if self._worker is not None:
            await self._worker

    def stop(self) -> None:
        """Cancel the running call and drop those that wait."""
        if self._worker is not None:
            self._worker.cancel()
        for each in self._waiting:
            if inspect.iscoroutine(each):
                each.close()
        self._waiting.clear()
