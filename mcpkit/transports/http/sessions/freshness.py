"""Freshness of the known state of sessions: whether it may be used without reading the shared store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ....execution.coroutines import resume, run_to_first_wait, within

if TYPE_CHECKING:
    from .record import Record
    from .remote import Remote

T = TypeVar("T")

_TIMEOUT = 2.0
"""Timeout in seconds for reading the changes of other processes to a session from the shared store."""

STALE = 1.0
"""Seconds for which what others have done to a session may be unknown here."""

_TICK = 0.4
"""Seconds between two ticks, while requests come."""

_BUSY = 3
"""Requests within a second from which on ticks cost less than looks."""

_AWAY = 1.0
"""Seconds until a store that has not answered is asked again whether it does; meanwhile no request asks it."""


class Freshness:
    """Decides which sessions need no read of the shared store, because all changes of other processes are known.

    Processes publish their changes to all. To know that it has received them, a process regularly publishes a message
    to itself while requests arrive: as long as it receives that, it has missed nothing. Otherwise each session is read
    once a second. While the store does not respond, the known state is used.

    Args:
        remote: Messages between the processes.
        has_local_reads: Whether a read needs no access to another process, so that each request may read.
    """

    def __init__(self, remote: Remote, *, has_local_reads: bool) -> None:
        self._remote = remote
        self._is_near = has_local_reads
        self._loop = asyncio.get_running_loop()
        self._probing: asyncio.Task[None] | None = None  # while the store is away
        self._window = -math.inf
        self._uses = 0
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def holds(self, record: Record) -> bool:
        """Return True if the known state of a session may be used."""
        if self._probing is not None:
            return True
        if self._is_near:
            return False
        now = self._loop.time()
        self._note_use(now)
        if record.is_stale:
            return False
        if now - record.looked < STALE:
            return True
        return record.looked >= self._remote.since and now - self._remote.until < STALE

    def fail(self) -> None:
        """Note that the store does not respond, and check regularly whether it does again."""
        if self._probing is None and not self._is_over:
            self._probing = self._loop.create_task(self._probe())

    async def _probe(self) -> None:
        try:
            while True:
                await asyncio.sleep(_AWAY)
                with suppress(OSError):
                    await self._remote.tick()
                    return
        finally:
            self._probing = None

    def close(self) -> None:
        """Stop publishing."""
        self._is_over = True
        for task in (self._task, self._probing):
            if task is not None:
                task.cancel()

    def _note_use(self, now: float) -> None:
        if now - self._window > STALE:
            self._window, self._uses = now, 0
        self._uses += 1
        if self._uses == _BUSY and self._task is None:
            self._task = self._loop.create_task(self._tick())

    async def _tick(self) -> None:
        try:
            while self._loop.time() - self._window <= 2 * STALE:
                try:
                    await self._remote.tick()
                except OSError:
                    self.fail()
                await asyncio.sleep(_TICK)
        finally:
            self._task = None


async def in_time(looking: Coroutine[object, object, T]) -> T:
    """Read a record with a timeout. A local read finishes at once.

    Raises:
        TimeoutError: The timeout has ended.
        OSError: The shared store does not respond.
    """
    is_over, found = run_to_first_wait(looking)
    if is_over:
        fields: T = found
        return fields
    return await within(_TIMEOUT, resume(looking, found))
