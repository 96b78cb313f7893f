"""Hearing of what other processes do to a session, while it listens in this one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....state.broker import Broker

logger = logging.getLogger("mcpkit")

CHANGED = "changed"
"""What is said when the state has changed; anything else is what the client has answered."""


class Following:
    """Hears of the state of a session and of its client's answers, until `close`.

    Args:
        broker: Where they say it.
        topic: Under which topic.
        refresh: Looks at the state again; it may close this.
        answered: Takes an answer that came to another process.
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        refresh: Callable[[], Awaitable[None]],
        answered: Callable[[str], None],
    ) -> None:
        self._refresh = refresh
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self._is_behind = False
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe = broker.subscribe(topic, self._heard)

    def close(self) -> None:
        """Hear no more."""
        self._is_closed = True
        self._unsubscribe()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _heard(self, message: str) -> None:
        try:
            if message == CHANGED:
                self._loop.call_soon_threadsafe(self._begin)
            else:
                self._loop.call_soon_threadsafe(self._answered, message)
        except RuntimeError:
            logger.debug("a session has changed after the end of the event loop that it listened in")
            self._unsubscribe()

    def _begin(self) -> None:
        self._is_behind = True
        if self._task is None and not self._is_closed:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._is_behind:  # one look after the other: an old one must not come after a new one
                self._is_behind = False
                await self._refresh()
        except OSError:
            logger.exception("the shared store does not answer: what others do to a session is not heard of")
        finally:
            self._task = None
