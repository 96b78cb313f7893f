"""Checks of numeric options: counts and seconds."""

from __future__ import annotations

from math import isfinite


def check_count(name: str, count: object, *, least: int = 1, none: str = "", example: str = "") -> None:
    """Check an option with a count.

    Args:
        name: Name of the option.
        count: The number.
        least: The minimum.
        none: Meaning of None, such as `one page`; empty if None is invalid.
        example: Text after "must be an integer" in the message of the TypeError.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is below the minimum.
    """
    or_none = f", or None for {none}" if none else ""
    if count is None and none:
        return
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{name} must be an integer{example}{or_none}, got {count!r}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}{or_none}, got {count!r}")


def check_seconds(
    name: str, seconds: object, *, may_be_zero: bool = False, may_be_none: bool = False
) -> None:
    """Check an option with seconds.

    Args:
        name: Name of the option.
        seconds: The number of seconds.
        may_be_zero: Whether 0 is valid.
        may_be_none: Whether None is valid.

    Raises:
        TypeError: It is not a number.
        ValueError: It is too small, or not finite.
    """
    if seconds is None and may_be_none:
        return
    least = "of at least 0" if may_be_zero else "above 0"
    or_none = ", or None" if may_be_none else ""
    expected = f"{name} must be a number of seconds {least}{or_none}, got {seconds!r}"
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(expected)
    if not isfinite(seconds) or seconds < 0 or (seconds == 0 and not may_be_zero):
        raise ValueError(expected)
