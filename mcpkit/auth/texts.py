"""Lists of texts that an author gives."""

from __future__ import annotations

from collections.abc import Collection


def texts_in(option: str, given: object, *, or_else: str = "") -> tuple[str, ...]:
    """Return the texts of a list, in the author's order.

    Args:
        option: What it is called.
        given: The list.
        or_else: What it may be as well, for the message.

    Raises:
        TypeError: It is no list, or holds anything else.
    """
    wrong = TypeError(f"{option} must be {or_else}a list of texts, got {given!r}")
    if isinstance(given, str) or not isinstance(given, Collection):
        raise wrong
    items: Collection[object] = given  # pyright: ignore[reportUnknownVariableType]  # it is of objects
    texts = tuple(each for each in items if isinstance(each, str))
    if len(texts) < len(items):
        raise wrong
    return texts
