"""Tasks of those who have been sent away: none of them goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .pen import LostError, Pen
from .record import read

if TYPE_CHECKING:
    from ..state.revocations import Revocation, Revocations


class SentAway:
    """Cancels the tasks of those who have been sent away since they have made them.

    Args:
        revocations: Who has been sent away; None where nobody can be.
    """

    def __init__(self, revocations: Revocations | None) -> None:
        self._revocations = revocations
        self._running: dict[Pen, asyncio.AbstractEventLoop] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def has_ended(self, pen: Pen) -> bool:
        """Cancel a task that is about to run, where its owner has been sent away; say whether that was so.

        Raises:
            OSError: The engine does not answer.
        """
        revocations, record = self._revocations, pen.record
        id_: str | None = record.principal["id"]
        if revocations is None or id_ is None or await revocations.latest(id_) < record.created:
            return False
        await _cancel(pen)
        return True

    @contextmanager
    def watching(self, pen: Pen) -> Generator[None]:
        """Cancel a task when its owner is sent away during the block."""
        self._running[pen] = asyncio.get_running_loop()
        try:
            yield
        finally:
            del self._running[pen]

    def listen(self) -> Callable[[], None]:
        """Hear of who is sent away from now on, for what runs in this event loop; return what ends that."""
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
