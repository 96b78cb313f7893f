"""The request that runs in the current thread or task."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

from .errors import CallEndedError


class Running:
    """A running request. Its caller may stop waiting for it.

    Attributes:
        method: The method of the request.
        is_ended: Whether it has been answered or cancelled.
        is_timed_out: Whether its timeout has ended.
        left: Done when the abandoned worker thread of the request has ended; None if there is none.
    """

    __slots__ = ("is_ended", "is_timed_out", "left", "method")

    def __init__(self, method: str) -> None:
        self.method = method
        self.is_ended = False
        self.is_timed_out = False
        self.left: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """True if no caller waits for the result any more: the request was cancelled, or its timeout has ended."""
        return self.is_ended or self.is_timed_out

    def check_open(self) -> None:
        """Raise an error if no caller waits for the result any more.

        Raises:
            CallEndedError: The request has ended.
        """
        if self.is_ended or self.is_timed_out:
            raise CallEndedError(self.method)

    @property
    def is_stoppable(self) -> bool:
        """True if the handler has registered a stop function."""
        return False

    def leave(self, left: asyncio.Future[None]) -> None:
        """Record that the worker thread runs on until `left` is done, and call the registered stop functions."""
        self.left = left


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


current: Final[ContextVar[Running]] = ContextVar("mcpkit.requests.call")
"""The request that is being served, known to all that runs for it; not set elsewhere, as in a worker process."""
