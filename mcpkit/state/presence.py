"""Which processes serve a server: each says again and again that it does, and the others see when it stops."""

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
"""How often a process is looked for in vain before it is taken for dead."""

_FORGOTTEN = 30
"""Number of missed heartbeats after which the entry of a process is removed."""

_LIFE = 60.0
"""Seconds for which the record lives after the last write."""

_ENDED = ""
"""The entry of a process that exits normally."""


class Presence:
    """Says that something serves in this process, and knows which others do.

    All of them write into one record, each a number that grows. Who looks for one takes it for dead when its number has
    been the same for some looks, so that clocks need not agree. Looks that fail do not count: while the store does not
    answer, nobody dies.

    Args:
        broker: Where they say it.
        name: The server's name.
        process: A text that nobody else has.
        beat: Seconds between two looks; None for 2.

    Attributes:
        process: The same text.
        on_look: Called after each look.
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
        """Return how many processes serve, this one included, as far as is known: 1 or more."""
        return sum(1 for process in self._said if process != self.process and not self.is_gone(process)) + 1

    def is_gone(self, process: str) -> bool:
        """Say whether a process has died, or has ended; at first nobody has of whom nothing is known.

        Args:
            process: One that has served: what is not known is remembered.
        """
        if process == self.process:
            return False
        if self._said.get(process) == _ENDED:
            return True
        changed = self._changed.setdefault(process, self._looks)
        return self._looks - max(changed, self._since) >= MISSED

    async def run(self) -> None:
        """Say so, and look for the others, until this is cancelled."""
        while True:
            try:
                await self.look()
                self._is_failing = False
            except OSError:
                if not self._is_failing:
                    logger.exception(
                        "the shared store does not answer: this process cannot see which other processes are "
                        "running"
                    )
                self._is_failing = True
            await asyncio.sleep(self._beat)

    async def look(self) -> None:
        """Look for the others once, and say so.

        Raises:
            OSError: The store does not answer.
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
        """Say that nothing is served here any more, where that can be said."""
        with suppress(OSError):
            await self._broker.write(self._key, {self.process: _ENDED}, _LIFE)
