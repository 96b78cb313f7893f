"""Writes the task record for one run, using compare-and-set with a fencing token."""

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
"""Changes a record. It may be called again, with a newer one."""

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts of `write_surely`."""


class LostError(Exception):
    """The task has another run, or has ended, so this run must not write."""


class Pen:
    """Writer of the task record for one run. Writes are sequential.

    If a client changes the record meanwhile, it is read again, and the change is applied to the new one.

    Args:
        ledger: Storage of the record.
        held: The record, as it was taken.
        now: Time of the queue's clock at that moment.

    Attributes:
        record: The record that was read last.
        fence: Fencing token of the run.
    """

    def __init__(self, ledger: Ledger, held: Held, now: float) -> None:
        self.fence = held.fence
        self._ledger = ledger
        self._held = held
        self._offset = now - time.monotonic()
        self._lock = asyncio.Lock()

    @property
    def record(self) -> Record:
        """The record that was read last. Do not change it."""
        return self._held.record

    def now(self) -> float:
        """Return the time of the queue's clock, in Unix seconds."""
        return self._offset + time.monotonic()

    async def write(self, change: Change, *, due: float | None = None) -> None:
        """Change the record.

        Args:
            change: Changes it.
            due: See `Ledger.change`.

        Raises:
            LostError: The task has another run, or has ended.
            TooLargeError: The record would be too large.
            OSError: The storage does not answer.
        """
        async with self._lock:
            await self._write(change, os.urandom(8).hex(), due)

    async def write_surely(self, change: Change, *, due: float | None = None) -> None:
        """Change the record, with retries while the storage does not answer. Other writes wait.

        Raises:
            LostError: The task has another run, or has ended.
            TooLargeError: The record would be too large.
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
        """Apply a change with its own mark, unless an earlier attempt without a reply has succeeded."""
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
        """Read the record again.

        Raises:
            LostError: The task has another run, or has ended.
            OSError: The storage does not answer.
        """
        async with self._lock:
            await self._look()

    async def _look(self, mark: str = "") -> None:
        held = await self._ledger.look(self.record.id)
        if held is None or (held.record.mark != mark and (held.fence != self.fence or held.record.is_over)):
            raise LostError
        self._held = held

    async def fail(self, code: int, message: str) -> None:
        """End the task as failed.

        Raises:
            LostError: The task has another run, or has ended.
        """
        await self.write_surely(lambda record: record.fail({"code": code, "message": message}, self.now()))
