"""How long tokens live, as token endpoints say it."""

from __future__ import annotations


def lifetime_of(value: object) -> float | None:
    """Return a time to live in seconds (`expires_in`), which some write as a text; None where it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        return None
    return float(value)
