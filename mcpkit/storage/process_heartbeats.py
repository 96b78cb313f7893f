"""Heartbeats of the processes that serve a server, to detect those that have died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import PubSub

logger = logging.getLogger(__name__)

BEAT = 2.0  # seconds between two heartbeats of a process, each of which is one read and one write
MISSED = 4  # missed heartbeats after which a process counts as dead
_FORGOTTEN = 30  # missed heartbeats after which the entry of a process is removed
_TTL = 60.0  # seconds for which the record lives after the last write
_LEAVE_TIMEOUT = 1.0  # seconds to record that this process exits
_ENDED = ""  # the entry of a process that exits normally


class Membership:
    """Heartbeats of the processes that serve a server, sent inside `async with`.

    Each process writes a growing number into one shared record. A process counts as dead when its number has not
    changed in `MISSED` polls, so clocks need not agree. Polls that fail do not count: while the storage does not
    answer, no process counts as dead.

    Args:
        storage: Storage of the record.
        name: Name of the server.
        process: Unique id of this process.
        beat: Seconds between two heartbeats; None for 2.

    Attributes:
        process: Unique id of this process.
        on_poll: Called after each poll.
    """

    on_poll: Callable[[], None] | None = None

    def __init__(self, storage: PubSub, name: str, process: str, beat: float | None = None) -> None:
        self.process = process
        self._storage = storage
        self._key = f"{name}/presence"
        self._beat = BEAT if beat is None else beat
        self._polls = 0
        self._first_poll = 0  # since this process is in the record
        self._entries: dict[str, str] = {}  # the record as it was read last
        self._changed: dict[str, int] = {}  # the poll in which each entry changed last

    def count(self) -> int:
        """Return the number of processes that serve, including this one: 1 or more."""
        return 1 + sum(process != self.process and not self.is_gone(process) for process in self._entries)

    def is_gone(self, process: str) -> bool:
        """Return True if a process has died or exited. An unknown process counts as alive at first.

        Args:
            process: Id of a process, which is tracked from now on.
        """
        if process == self.process:
            return False
        self._changed.setdefault(process, self._polls)
        return self._entries.get(process) == _ENDED or self._missed(process) >= MISSED

    def _missed(self, process: str) -> int:
        return self._polls - max(self._changed[process], self._first_poll)

    async def __aenter__(self) -> None:
        """Begin to send heartbeats."""
        self._beating = asyncio.get_running_loop().create_task(self.run())

    async def __aexit__(self, *_: object) -> None:
        """Stop, and record that this process exits."""
        self._beating.cancel()
        await asyncio.wait([self._beating])
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.leave(), _LEAVE_TIMEOUT)

    async def run(self) -> None:
        """Send heartbeats and poll for other processes, until cancelled."""
        is_failing = False
        while True:
            try:
                await self.poll()
                is_failing = False
            except OSError:
                if not is_failing:
                    logger.exception(
                        "the shared store does not answer: this process cannot see which other processes are "
                        "running. mcpkit tries again"
                    )
                is_failing = True
            await asyncio.sleep(self._beat)

    async def poll(self) -> None:
        """Poll for other processes once, and send a heartbeat.

        Raises:
            OSError: The storage does not answer.
        """
        entries = await self._storage.read(self._key)
        self._polls += 1
        if self.process not in entries:
            # The first poll, or the storage has lost the record: the other processes will write their entries again.
            self._first_poll = self._polls
        for process, entry in entries.items():
            if self._entries.get(process) != entry:
                self._changed[process] = self._polls
        self._entries = dict(entries)
        removed: dict[str, str | None] = {}
        for process in tuple(self._changed):
            if process != self.process and self._missed(process) >= _FORGOTTEN:
                del self._changed[process]
                if self._entries.pop(process, None) is not None:
                    removed[process] = None
        await self._storage.write(self._key, {**removed, self.process: str(self._polls)}, _TTL)
        if self.on_poll is not None:
            self.on_poll()

    async def leave(self) -> None:
        """Record that this process exits, if the storage answers."""
        with suppress(OSError):
            await self._storage.write(self._key, {self.process: _ENDED}, _TTL)
