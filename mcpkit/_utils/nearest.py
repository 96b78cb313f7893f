"""Did you mean: the known name that an unknown one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 100
_MOST = 500
"""With how many names a name is compared: those that are as long, or nearly."""
_SHORTEST_PART = 3


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another, or None when none is.

    `maxResults` is like `max_results`, `lattitude` and `lat` are like `latitude`.

    Args:
        name: A name that is not known.
        known: Those that are.
    """
    if len(name) > _LONGEST:
        return None
    bare = {_bare(each): each for each in known}
    wanted = _bare(name)
    if wanted in bare:
        return bare[wanted]
    import difflib
    from heapq import nsmallest

    # Each comparison takes as long as a thousand values take to validate.
    likely = bare if len(bare) <= _MOST else nsmallest(_MOST, bare, lambda each: abs(len(each) - len(wanted)))
    if close := difflib.get_close_matches(wanted, likely, n=1):
        return bare[close[0]]
    related = [each for part, each in bare.items() if _is_part(wanted, part) or _is_part(part, wanted)]
    return related[0] if len(related) == 1 else None


def _bare(name: str) -> str:
    """Return a name without the style of its spelling."""
    return "".join(character for character in name.casefold() if character.isalnum())


def _is_part(part: str, whole: str) -> bool:
    return len(part) >= _SHORTEST_PART and part in whole
