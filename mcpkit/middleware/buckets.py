"""Token buckets of clients in one process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from time import monotonic

from ..storage.base import take_tokens


class Buckets:
    """A token bucket for each client; new clients begin with a full one.

    Args:
        rate: Tokens added to a bucket per second.
        burst: Capacity of a bucket.
        most: Maximum number of buckets; beyond it, the least recently used one is dropped.
    """

    def __init__(self, rate: float, burst: float, most: int) -> None:
        self._every = 1 / rate
        self._burst = burst
        self._most = most
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._full_at)

    def take(self, key: Hashable) -> float:
        """Take a token and return 0.0, or return the seconds until there is one."""
        now = monotonic()
        full_at = self._full_at.pop(key, now)
        self._full_at[key], wait = take_tokens(full_at, now, every=self._every, burst=self._burst, cost=1)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return wait
