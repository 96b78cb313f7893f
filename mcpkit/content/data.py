"""Values as JSON values, and these as text: what is JSON already at next to no cost, all else by reading.py."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ..common.errors import OutputError, RegistrationError
from .plain import is_json

LONG = 308
"""Digits that a number needs at least to be infinite to readers of JSON that have doubles only."""

_STEP = 20
_SHAPE = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_LONG_RUN = b"0" * (LONG // _STEP)


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


def check_sendable(where: str, part: str, value: Any) -> None:
    """Refuse a text or a schema that cannot be sent: one such entry would fail a whole list.

    Args:
        where: The component, or an argument of it, for messages; empty if the caller adds it.
        part: What the value is, for messages: `description`, `schema`.
        value: The value.

    Raises:
        RegistrationError: It is not JSON, or holds half of a surrogate pair, NaN, or a number that few clients read.
    """
    if value is None or (type(value) is str and value.isascii()):
        return
    prefix = f"{where}: " if where else ""
    try:
        text = to_json(value, inf_nan_mode="constants")
    except ValueError:
        problem = unwritten(value)
    else:
        is_long = len(text) > LONG and may_hold_huge_number(text)
        if not is_long and b"NaN" not in text and b"Infinity" not in text:
            return
        problem = unwritten(value)
    if problem is not None:
        reason = str(problem).removeprefix("result")
        if problem.__cause__ is not None:  # raised by the author's class, whose text is for the log of a call
            reason = f"{reason.partition(';')[0]}; write it as JSON"
        raise RegistrationError(f"{prefix}{part}{reason}") from problem.__cause__
    from .reading import infinite_places
    from .wording import path

    for steps, name in infinite_places(value).items():
        place = path((part, *steps))
        raise RegistrationError(f"{prefix}{place} cannot be converted to JSON: {name}; use a finite number")


def may_hold_huge_number(text: bytes) -> bool:
    """Tell from every twentieth byte of a JSON text whether a number of more than 300 digits may be in it."""
    return text[::_STEP].translate(_SHAPE).find(_LONG_RUN) >= 0


def unwritten(value: Any) -> OutputError | None:
    """Return why a result, or its data, cannot be written as JSON; None where nothing is found."""
    from .reading import unsayable

    if type(value) is dict and "structuredContent" in value:
        return unsayable(value["structuredContent"]) or unsayable(value)
    return unsayable(value)
