"""Heartbeats of the processes that serve a server, to detect those that have died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .broker import PubSub

logger = logging.getLogger(__name__)

BEAT = 2.0
"""Seconds between two heartbeats of a process, each of which is one write and one read of the others."""

MISSED = 4
"""Number of missed heartbeats after which a process counts as dead."""

_FORGOTTEN = 30
"""Number of missed heartbeats after which the entry of a process is removed."""

_LIFE = 60.0
"""Seconds for which the record lives after the last write."""

_ENDED = ""
"""The entry of a process that exits normally."""


class Presence:
    """Heartbeats of the processes that serve a server.

    Each process writes a growing number into one shared record. A process counts as dead when its number has not
    changed in `MISSED` polls, so clocks need not agree. Polls that fail do not count: while the storage does not
    answer, no process counts as dead.

    Args:
        broker: Storage of the record.
        name: Name of the server.
        process: Unique id of this process.
        beat: Seconds between two heartbeats; None for 2.

    Attributes:
        process: Unique id of this process.
        on_look: Called after each poll.
    """

    on_look: Callable[[], None] | None = None

    def __init__(self, broker: PubSub, name: str, process: str, beat: float | None = None) -> None:
        self.process = process
        self._broker = broker
        self._key = f"{name}/presence"
        self._beat = BEAT if beat is None else beat
        self._looks = 0
        self._since = 0  # the look with which what is known begins
        self._said: dict[str, str] = {}
        self._changed: dict[str, int] = {}  # with which look
        self._is_failing = False

    def count(self) -> int:
        """Return the number of processes that serve, including this one: 1 or more."""
        return sum(1 for process in self._said if process != self.process and not self.is_gone(process)) + 1

    def is_gone(self, process: str) -> bool:
        """Return True if a process has died or exited. An unknown process counts as alive at first.

        Args:
            process: Id of a process, which is tracked from now on.
        """
        if process == self.process:
            return False
        if self._said.get(process) == _ENDED:
            return True
        changed = self._changed.setdefault(process, self._looks)
        return self._looks - max(changed, self._since) >= MISSED

    async def run(self) -> None:
        """Send heartbeats and poll for other processes, until cancelled."""
        while True:
            try:
                await self.look()
                self._is_failing = False
            except OSError:
                if not self._is_failing:
                    logger.exception(
                        "the shared store does not answer: this process cannot see which other processes are "
                        "running. mcpkit tries again"
                    )
                self._is_failing = True
            await asyncio.sleep(self._beat)

    async def look(self) -> None:
        """Poll for other processes once, and send a heartbeat.

        Raises:
            OSError: The storage does not answer.
        """
        said = await self._broker.read(self._key)
        looks = self._looks + 1
        if (
            self.process not in said
        ):  # the first look, or the store has lost the record: the others write it again
            self._since = looks
        for process, text in said.items():
            if self._said.get(process) != text:
                self._changed[process] = looks
        self._said = dict(said)
        self._looks = looks
        old = [process for process, changed in self._changed.items() if self._is_forgotten(process, changed)]
        for process in old:
            del self._changed[process]
            self._said.pop(process, None)
        removed = {process: None for process in old if process in said}
        await self._broker.write(self._key, {**removed, self.process: str(looks)}, _LIFE)
        if self.on_look is not None:
            self.on_look()

    def _is_forgotten(self, process: str, changed: int) -> bool:
        return process != self.process and self._looks - max(changed, self._since) >= _FORGOTTEN

    async def leave(self) -> None:
        """Record that this process exits, if the storage answers."""
        with suppress(OSError):
            await self._broker.write(self._key, {self.process: _ENDED}, _LIFE)
