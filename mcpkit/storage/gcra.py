"""Token buckets by the generic cell rate algorithm, which stores one number for each bucket."""

from __future__ import annotations

_EARLY = 0.001
"""Fraction of the interval between two tokens by which a request may be early; the next one is not earlier for that."""

_ROUNDING = 1e-6
"""Tolerance in seconds for floating-point times."""


def slack_of(every: float) -> float:
    """Return the tolerance in seconds for early requests.

    Args:
        every: Seconds in which one token is added.
    """
    return _EARLY * every + _ROUNDING


def take_tokens(
    full_at: float, now: float, *, every: float, burst: float, cost: float
) -> tuple[float, float]:
    """Take tokens from a bucket that is stored as the time at which it will be full.

    If the clock was set back, or the bucket was larger before, it counts as empty: a caller never waits longer than the
    bucket takes to fill.

    Args:
        full_at: Time at which the bucket will be full; any time in the past for a full one.
        now: The current time by the same clock.
        every: Seconds in which one token is added.
        burst: Capacity of the bucket.
        cost: Number of tokens to take.

    Returns:
        The new `full_at`, and 0.0; or the seconds until there are enough tokens, and then none are taken.
    """
    slack = slack_of(every)
    empty = now + burst * every
    full_at = max(full_at, now) if full_at <= empty + slack else empty
    wait = full_at - now - (burst - cost) * every
    if wait > slack:
        return full_at, wait
    return full_at + cost * every, 0.0
