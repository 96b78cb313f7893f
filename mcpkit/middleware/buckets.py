"""The buckets of clients, as one process counts them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from time import monotonic

from ..state.gcra import spend


class Buckets:
    """A bucket for each client; whoever is forgotten begins with a full one.

    Args:
        rate: How many come into a bucket in a second.
        burst: How many it holds.
        most: How many buckets are kept; beyond that, the one that was not used for the longest time is forgotten.
    """

    def __init__(self, rate: float, burst: float, most: int) -> None:
        self._every = 1 / rate
        self._burst = burst
        self._most = most
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._full_at)

    def take(self, key: Hashable) -> float:
        """Take one out of a bucket, and return 0.0; where it is empty, the seconds until there is one."""
        now = monotonic()
        full_at = self._full_at.pop(key, now)
        self._full_at[key], wait = spend(full_at, now, every=self._every, burst=self._burst, cost=1)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return wait
