"""How a run writes down what becomes of its task: each time the whole record, and never what is another's by now."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable

from .ledger import Held, Ledger
from .record import Record

logger = logging.getLogger(__name__)

Change = Callable[[Record], None]
"""Changes a record; it may be called again, with a newer one."""

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to write what must be written."""


class LostError(Exception):
    """The task is another run's, or has ended: nothing may be written any more."""


class Pen:
    """Writes for one run, one thing after the other.

    Clients may change the record meanwhile: then it is read again, and changed as they have left it.

    Args:
        ledger: Where the record is.
        held: The record, as it was taken.
        now: What the clock of the queue said then.

    Attributes:
        record: The record, as it was seen last.
        fence: The fence of the run.
    """

    def __init__(self, ledger: Ledger, held: Held, now: float) -> None:
        self.fence = held.fence
        self._ledger = ledger
        self._held = held
        self._offset = now - time.monotonic()
        self._lock = asyncio.Lock()

    @property
    def record(self) -> Record:
        """The record, as it was seen last; not to be changed."""
        return self._held.record

    def now(self) -> float:
        """Return what the clock of the queue says, in Unix seconds."""
        return self._offset + time.monotonic()

    async def write(self, change: Change, *, due: float | None = None) -> None:
        """Change the record.

        Args:
            change: Changes it.
            due: See `Ledger.change`.

        Raises:
            LostError: It is another's, or has ended.
            TooLargeError: It would become too large.
            OSError: The engine does not answer.
        """
        async with self._lock:
            await self._write(change, os.urandom(8).hex(), due)

    async def write_surely(self, change: Change, *, due: float | None = None) -> None:
        """Do the same as often as it takes, while the engine does not answer; nothing else is written meanwhile.

        Raises:
            LostError: It is another's, or has ended.
            TooLargeError: It would become too large.
        """
        tries, mark = 0, os.urandom(8).hex()
        async with self._lock:
            while True:
                try:
                    return await self._write(change, mark, due)
                except OSError as error:
                    if tries == 0:
                        logger.error("the task record cannot be written; mcpkit tries again: %s", error)  # noqa: TRY400
                    await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                    tries += 1

    async def _write(self, change: Change, mark: str, due: float | None) -> None:
        """Make a change that has a mark of its own, unless an attempt of which nothing was heard has made it."""
        while self.record.mark != mark:
            record = self.record.copy()
            change(record)
            record.mark = mark
            record.updated = max(record.updated, self.now())
            written = await self._ledger.change(self._held, record, fence=self.fence, due=due)
            if written is None:
                await self._look(mark)
            else:
                self._held = written

    async def refresh(self) -> None:
        """See the record again.

        Raises:
            LostError: It is another's, or has ended.
            OSError: The engine does not answer.
        """
        async with self._lock:
            await self._look()

    async def _look(self, mark: str = "") -> None:
        held = await self._ledger.look(self.record.id)
        if held is None or (held.record.mark != mark and (held.fence != self.fence or held.record.is_over)):
            raise LostError
        self._held = held

    async def fail(self, code: int, message: str) -> None:
        """Have the task failed.

        Raises:
            LostError: It is another's, or has ended.
        """
        await self.write_surely(lambda record: record.fail({"code": code, "message": message}, self.now()))
