"""Lists of strings in options, and sanitizing of untrusted text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

_UNSAYABLE: Final = re.compile(r"[^\x20\x21\x23-\x5B\x5D-\x7E]")
_SHORTEST_SECRET: Final = 6
"""Minimum characters of a secret that is removed from messages. Shorter ones can be ordinary words."""


def texts_in(option: str, given: object, *, or_else: str = "") -> tuple[str, ...]:
    """Return the strings of an option that is a list.

    Args:
        option: Name of the option.
        given: The list.
        or_else: Other accepted types, for the message.

    Raises:
        TypeError: The value is not a list of strings.
    """
    wrong = TypeError(f"{option} must be {or_else}a list of strings, got {given!r}")
    if isinstance(given, str) or not isinstance(given, Collection):
        raise wrong
    items: Collection[object] = given  # pyright: ignore[reportUnknownVariableType]  # it is of objects
    texts = tuple(each for each in items if isinstance(each, str))
    if len(texts) < len(items):
        raise wrong
    return texts


def sayable(text: str) -> str:
    """Return a text for an OAuth error description: forbidden characters become question marks (RFC 6749, 5.2)."""
    return _UNSAYABLE.sub("?", text)


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text with the secrets removed."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "...")
    return text
