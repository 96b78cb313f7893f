"""Whether what a process knows of its sessions may be used without a look at the shared store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ....calls.coroutines import first_step, go_on, within

if TYPE_CHECKING:
    from .record import Record
    from .remote import Remote

T = TypeVar("T")

_PATIENCE = 2.0
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
    """Says which sessions need no look, as all that others have done to them is known.

    What others do is told to all processes. So that a process knows that it has heard it, it tells itself something now
    and then, while requests come: as long as that is heard, nothing else can have been lost. Where it is not, each
    session is looked at once a second. While the store does not answer, all that is known is used.

    Args:
        remote: What is heard from others.
        has_local_reads: Whether a look costs no way to another process, so that each request may have one.
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
        """Say whether what is known of a session may be used."""
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
        """Take note that the store does not answer, and ask it now and then whether it does."""
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
        """Tell nothing any more."""
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
    """Look at a record, but not for long; what is near is there at once.

    Raises:
        TimeoutError: It took too long.
        OSError: The shared store does not answer.
    """
    is_over, found = first_step(looking)
    if is_over:
        fields: T = found
        return fields
    return await within(_PATIENCE, go_on(looking, found))
