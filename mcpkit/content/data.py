"""Results that are JSON already, which costs them next to nothing; others are made so by reading.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final, cast

from pydantic_core import to_json

from ..errors import OutputError
from ..protocol.jsonrpc import SCALARS

DEEPEST: Final = 190
"""The levels of arrays and objects that a result may have: readers of JSON that clients use end at 200."""

LONG: Final = 308
"""Digits that a number needs at least to be infinite to readers of JSON that have doubles only."""

_STEP: Final = 20
_SHAPE: Final = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_LONG_RUN: Final = b"0" * (LONG // _STEP)

_TEXT: Final = frozenset({str})
_JSON: Final = SCALARS | {dict, list}
_VALUES: Final = cast("Callable[[Any], Iterable[Any]]", vars(dict)["values"])
_FEW: Final = 8
_MANY: Final = 10_000


def is_json(value: Any, levels: int = DEEPEST) -> bool:
    """Tell whether a value consists of nothing but JSON's own types.

    Strings and numbers are not looked into: what cannot be written of them is found where they are.

    Args:
        value: A value.
        levels: How many levels of arrays and objects it may have.
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
    """Tell the same of many arrays and objects at once, with few steps in Python for each."""
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


def json_value(value: Any, place: str = "result") -> Any:
    """Return a value of any type as the JSON value that it stands for; itself where it is one.

    Models, dataclasses and the like are as their classes' schemas say, bytes are base64 (RFC 4648, section 4),
    iterators are read. NaN and the infinities are written as null.

    Args:
        value: The value.
        place: What it is called in an error.

    Raises:
        OutputError: It has no form in JSON; the text names the place, the type and the cure.
        HandlerError: The author's code has raised it, while it was read.
    """
    if is_json(value):
        return value
    from .reading import converted

    return converted(value, place)


def text_of(data: Any) -> str:
    """Return a JSON value as text: its JSON, or itself where it is a string.

    Raises:
        OutputError: Something in it cannot be written: half of a surrogate pair, a number that few can read.
    """
    return data if type(data) is str else json_of(data).decode()


def json_of(data: Any) -> bytes:
    """Return the JSON of a JSON value; raises as `text_of` does."""
    try:
        written = to_json(data, inf_nan_mode="null")  # as `encode`, with a frame less
    except ValueError as error:
        raise unwritten(data) or error from None
    if len(written) > LONG and may_hold_huge_number(written) and (problem := unwritten(data)):
        raise problem
    return written


def may_hold_huge_number(text: bytes) -> bool:
    """Tell from every twentieth byte of a JSON text whether a number of more than 300 digits may be in it."""
    return text[::_STEP].translate(_SHAPE).find(_LONG_RUN) >= 0


def unwritten(value: Any) -> OutputError | None:
    """Return why a result, or its data, cannot be written as JSON; None where nothing is found."""
    from .reading import unsayable

    if type(value) is dict and "structuredContent" in value:
        return unsayable(value["structuredContent"]) or unsayable(value)
    return unsayable(value)


def unreadable(place: str, error: Exception) -> str:
    """Return what is said of a place where code of the author's has raised something; its text is for nobody else."""
    return f"{place} could not be read: {type(error).__name__} was raised; the server's log says where"


def described(value: object) -> str:
    """Return what a value is called in a message, by its class."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
