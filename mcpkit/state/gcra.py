"""The generic cell rate algorithm: so many at once, so many in the long run, and one number to remember."""

from __future__ import annotations

_EARLY = 0.001
"""The part of the time between two by which one may be early; the next one is not the earlier for that."""

_ROUNDING = 1e-6
"""Seconds that floating point leaves over where times are those of the calendar."""


def slack_of(every: float) -> float:
    """Return the seconds by which one may be early where one comes into a bucket in so many."""
    return _EARLY * every + _ROUNDING


def take_tokens(
    full_at: float, now: float, *, every: float, burst: float, cost: float
) -> tuple[float, float]:
    """Take something out of a bucket, which is known by the time at which it will be full.

    Where the clock has been put back, or the bucket was larger, it is taken for empty: nobody waits for longer than
    it takes to fill up.

    Args:
        full_at: That time; any in the past for one that is full.
        now: The time, by the same clock.
        every: Seconds in which one comes into the bucket.
        burst: How many it holds.
        cost: How many are taken.

    Returns:
        The time at which it will be full from now on, to be kept where it is another one; and 0.0, or the seconds after
        which there will be as many, where there are not: then nothing is taken.
    """
    slack = slack_of(every)
    empty = now + burst * every
    full_at = max(full_at, now) if full_at <= empty + slack else empty
    wait = full_at - now - (burst - cost) * every
    if wait > slack:
        return full_at, wait
    return full_at + cost * every, 0.0
