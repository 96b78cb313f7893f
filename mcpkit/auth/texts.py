"""Texts: lists of them that an author gives, and what strangers say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

_UNSAYABLE: Final = re.compile(r"[^\x20\x21\x23-\x5B\x5D-\x7E]")
_SHORTEST_SECRET: Final = 6
"""Characters of a secret that is removed from messages; shorter ones may be ordinary words."""


def texts_in(option: str, given: object, *, or_else: str = "") -> tuple[str, ...]:
    """Return the texts of a list, in the author's order.

    Args:
        option: What it is called.
        given: The list.
        or_else: What it may be as well, for the message.

    Raises:
        TypeError: It is no list, or holds anything else.
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
    """Return a text as an error of OAuth may say it: what must not stand there is a question mark (RFC 6749, 5.2)."""
    return _UNSAYABLE.sub("?", text)


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which nothing is repeated of some secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "...")
    return text
