"""Token buckets that several processes share through a storage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from ..execution.coroutines import within
from ..identity.owner import digest_of
from .buckets import Buckets

if TYPE_CHECKING:
    from ..storage.base import PubSub

logger = logging.getLogger(__name__)

_TIMEOUT = 1.0
"""Seconds for which a request waits for a storage that does not answer, before each process counts for itself."""

_AGAIN = 1.0
"""Seconds between two looks whether it answers again, which no request waits for."""


class SharedBuckets:
    """A token bucket for each client in a storage.

    While the storage does not answer, each process allows its share of the rate.

    Args:
        broker: The storage.
        prefix: Prefix of the keys of the buckets.
        rate: Tokens added to a bucket per second.
        burst: Capacity of a bucket.
        most: Maximum number of buckets in this process while the storage does not answer.
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
        """Take a token of a client.

        Args:
            client: Key of the client.
            replicas: Returns the known number of processes.

        Returns:
            0.0, or the seconds until there is a token.
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
            """Return whether the storage has answered another request since the last check."""
            nonlocal seen
            before, seen = seen, self._answers
            return seen != before

        spending = self._broker.take_tokens(key, every=1 / self._rate, burst=self._burst)
        wait = await within(_TIMEOUT / 2, spending, answers_others)
        self._answers += 1
        return wait

    def _lose(self, share: int, error: OSError) -> None:
        """Count in this process from now on; its earlier buckets have been refilled meanwhile."""
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
        """Return to the common buckets if the storage answers."""
        try:
            await self._spend(key)
        except OSError:
            return
        if self._is_away:
            self._is_away = False
            logger.warning("the shared store answers again: rate limits apply to all processes together")
