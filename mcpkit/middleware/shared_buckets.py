"""The buckets of clients, as processes count them together that share an engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from ..calls.coroutines import within
from ..state.owner import digest_of
from .buckets import Buckets

if TYPE_CHECKING:
    from ..state.broker import PubSub

logger = logging.getLogger(__name__)

_PATIENCE = 1.0
"""Seconds for which a request waits for a storage that does not answer, before each process counts for itself."""

_AGAIN = 1.0
"""Seconds between two looks whether it answers again, which no request waits for."""


class SharedBuckets:
    """A bucket for each client in an engine, taken from by one step of it.

    While the engine does not answer, each process goes on with its share: of what one client may ask, as much as is its
    own where all are asked alike.

    Args:
        broker: The engine.
        prefix: What the keys of the buckets begin with.
        rate: How many come into a bucket in a second.
        burst: How many it holds.
        most: How many buckets the process keeps while the engine does not answer.
    """

    def __init__(
        self,
        broker: PubSub,
        prefix: str,
        *,
        rate: float,
        burst: int,
        most: int,
    ) -> None:
        self._broker = broker
        self._prefix = prefix
        self._rate = rate
        self._burst = burst
        self._most = most
        self._is_away = False
        self._answers = 0
        self._own = Buckets(rate, burst, most), 1  # and of how many processes it is the share
        self._looks_again = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def take(self, client: str, replicas: Callable[[], int]) -> float:
        """Take one out of the bucket of a client.

        Args:
            client: What tells it from others.
            replicas: Returns how many processes there are, as far as is known.

        Returns:
            0.0; where the bucket is empty, the seconds until there is one.
        """
        key = f"{self._prefix}{digest_of(client)[:32]}"
        if not self._is_away:
            try:
                return await self._spend(key)
            except OSError as error:
                self._lose(replicas(), error)
        if monotonic() >= self._looks_again:
            self._looks_again = monotonic() + _AGAIN
            self._looking = asyncio.get_running_loop().create_task(self._look(key))
        return self._own[0].take(key)

    async def _spend(self, key: str) -> float:
        seen = -1

        def answers_others() -> bool:
            """Say whether it is up all the same: many may wait for it, and the event loop may be late itself."""
            nonlocal seen
            before, seen = seen, self._answers
            return seen != before

        spending = self._broker.spend(key, every=1 / self._rate, burst=self._burst)
        wait = await within(_PATIENCE / 2, spending, answers_others)
        self._answers += 1
        return wait

    def _lose(self, share: int, error: OSError) -> None:
        """Count alone from now on; who comes back to that finds the buckets as they have filled up meanwhile."""
        if self._is_away:
            return
        logger.warning(
            "the shared store does not answer (%s): until it does, each of %d processes allows each "
            "client %g requests per second instead of a common limit of %g",
            error,
            share,
            self._rate / share,
            self._rate,
        )
        if share != self._own[1]:
            self._own = Buckets(self._rate / share, max(self._burst / share, 1), self._most), share
        self._looks_again = monotonic() + _AGAIN
        self._is_away = True

    async def _look(self, key: str) -> None:
        """Count together again if the engine answers; what is taken meanwhile is taken there as well."""
        try:
            await self._spend(key)
        except OSError:
            return
        if self._is_away:
            self._is_away = False
            logger.warning("the shared store answers again: rate limits apply to all processes together")
