"""What runs for a request, as far as whatever runs for it must know."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

from ..common.errors import CallEndedError


class Running:
    """Something that runs, and that somebody may stop waiting for.

    Attributes:
        method: The method of the request.
        is_ended: Whether it has been answered, or nobody waits for its answer any more.
        is_timed_out: Whether its time is over.
    """

    __slots__ = ("is_ended", "is_timed_out", "method")

    def __init__(self, method: str) -> None:
        self.method = method
        self.is_ended = False
        self.is_timed_out = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the result any more: it was cancelled, or its time is over."""
        return self.is_ended or self.is_timed_out

    def check_open(self) -> None:
        """Go on only while somebody waits for the result.

        Raises:
            CallEndedError: Nobody does any more.
        """
        if self.is_ended or self.is_timed_out:
            raise CallEndedError(self.method)

    @property
    def is_stoppable(self) -> bool:
        """Whether a function in a thread has said what stops it."""
        return False

    def leave(self, left: asyncio.Future[None]) -> None:
        """Take note that a thread goes on alone, until `left` is done, and stop it as far as it has said how."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread; None where none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


current: Final[ContextVar[Running]] = ContextVar("mcpkit.calls.call")
"""The request that is being served, known to all that runs for it; not set elsewhere, as in a worker process."""
