"""Readiness check of the shared storage."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from ...execution.coroutines import within

if TYPE_CHECKING:
    from ...storage.base import PubSub

logger = logging.getLogger(__name__)

_TIMEOUT = 0.8
"""Timeout in seconds of the check: probes often wait for one second at most."""

_FRESH = 1.0
"""Seconds for which the result is reused for further probes."""


class Readiness:
    """Checks in one event loop whether the shared storage responds.

    Args:
        broker: The storage.
        name: Name of the server.
    """

    def __init__(self, broker: PubSub, name: str) -> None:
        self._broker = broker
        self._key = f"{name}/ready"
        self._answers = True
        self._looked = 0.0
        self._looking: asyncio.Future[None] | None = None

    async def answers(self) -> bool:
        """Return True if the storage responds, or did within the last second."""
        if self._looking is not None:
            await asyncio.shield(self._looking)
        elif monotonic() - self._looked >= _FRESH or not self._looked:
            self._looking = asyncio.get_running_loop().create_future()
            try:
                await self._look()
            finally:
                self._looking.set_result(None)
                self._looking = None
        return self._answers

    async def _look(self) -> None:
        is_early = iter(
            (True, False)
        )  # where the event loop is late itself, what has come is taken before it is too late
        try:
            await within(_TIMEOUT / 2, self._broker.read(self._key), lambda: next(is_early))
        except OSError as error:
            if self._answers:
                logger.warning("not ready: the shared store does not answer (%s)", error)
            self._answers = False
        else:
            if not self._answers:
                logger.warning("ready again: the shared store answers")
            self._answers = True
        self._looked = monotonic()
