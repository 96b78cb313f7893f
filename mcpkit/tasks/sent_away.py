"""Cancellation of tasks after a revocation of their owner's access."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .pen import LostError, Pen
from .record import read

if TYPE_CHECKING:
    from ..identity.revocation import Revocation, Revocations


class SentAway:
    """Cancels running tasks after a revocation of their owner's access.

    Args:
        revocations: Revocations of users' access; None if the server has none.
    """

    def __init__(self, revocations: Revocations | None) -> None:
        self._revocations = revocations
        self._running: dict[Pen, asyncio.AbstractEventLoop] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def has_ended(self, pen: Pen) -> bool:
        """Cancel a task that is about to run, if its owner's access was revoked. Return True if it was.

        Raises:
            OSError: The engine does not respond.
        """
        revocations, record = self._revocations, pen.record
        id_: str | None = record.principal["id"]
        if revocations is None or id_ is None or await revocations.latest(id_) < record.created:
            return False
        await _cancel(pen)
        return True

    @contextmanager
    def watching(self, pen: Pen) -> Generator[None]:
        """Cancel a task if its owner's access is revoked while the context is active."""
        self._running[pen] = asyncio.get_running_loop()
        try:
            yield
        finally:
            del self._running[pen]

    def listen(self) -> Callable[[], None]:
        """Subscribe to revocations, for tasks that run in this event loop. Return a function that unsubscribes."""
        if self._revocations is None:
            return lambda: None
        loop = asyncio.get_running_loop()

        def hear(revocation: Revocation) -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._take, revocation)

        return self._revocations.listen(hear)

    def _take(self, revocation: Revocation) -> None:
        loop = asyncio.get_running_loop()
        for pen, where in tuple(self._running.items()):
            record = pen.record
            if where is loop and revocation.covers(read(record.principal), record.created):
                ending = loop.create_task(_cancel(pen))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)


async def _cancel(pen: Pen) -> None:
    with suppress(LostError):  # it has ended before
        await pen.write_surely(lambda record: record.end("cancelled", pen.now()))
