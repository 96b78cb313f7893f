"""Fast check whether a value is already JSON, and names of object members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, cast

from pydantic_core import from_json, to_json

from ..protocol.jsonrpc import SCALARS

DEEPEST = 190
"""The levels of arrays and objects that a result may have: readers of JSON that clients use end at 200."""

_TEXT = frozenset({str})
_JSON = SCALARS | {dict, list}
_VALUES = cast("Callable[[Any], Iterable[Any]]", vars(dict)["values"])
_FEW = 8
_MANY = 10_000


def is_json(value: Any, levels: int = DEEPEST) -> bool:
    """Return whether a value consists only of JSON types.

    Strings and numbers are not checked; they may still be impossible to encode.

    Args:
        value: The value.
        levels: Maximum number of levels of arrays and objects.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # `cast` costs as much as the rest
    if kind is list and len(value) > _FEW:
        return _is_level_json([value], levels)
    if kind is list or kind is dict:
        if kind is dict:
            for key in value:
                if type(key) is not str:
                    return False
            value = value.values()
        for item in value:  # noqa: SIM110 - `all` and a generator cost as much again
            if type(item) not in SCALARS and not (levels > 1 and is_json(item, levels - 1)):
                return False
        return True
    return kind in SCALARS


def _is_level_json(level: list[Any], levels: int) -> bool:
    """Return the same for many arrays and objects at once, with few steps in Python for each."""
    while levels:
        dicts: list[Any] = [each for each in level if type(each) is dict]
        if not _TEXT.issuperset(map(type, chain.from_iterable(dicts))):
            return False
        inner: list[Any] = list(chain.from_iterable(map(_VALUES, dicts)))
        if len(dicts) < len(level):
            lists: list[Any] = [each for each in level if type(each) is list]
            inner.extend(chain.from_iterable(lists))
        kinds: set[Any] = set(map(type, inner))
        if kinds <= SCALARS:
            return True
        if not kinds <= _JSON:
            return False
        level = [each for each in inner if type(each) not in SCALARS]
        if len(level) > _MANY:  # what holds itself would be met more and more often
            level = list(dict(zip(map(id, level), level, strict=True)).values())
        levels -= 1
    return False


def member_name(value: Any) -> str:
    """Return a scalar key as the name of a member of a JSON object."""
    name: str = next(iter(from_json(to_json({value: None}))))
    return name
