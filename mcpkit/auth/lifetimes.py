"""Lifetimes of tokens in token responses."""

from __future__ import annotations


def lifetime_of(value: object) -> float | None:
    """Return `expires_in` in seconds, as a number or, from some providers, a string; None if it is not valid."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        return None
    return float(value)
