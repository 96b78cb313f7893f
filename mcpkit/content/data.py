"""Conversion of values to JSON values and JSON text; JSON values are passed on at little cost."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from .._utils.exceptions import OutputError, RegistrationError
from .plain import is_json

LONG = 308
"""Digits that a number needs at least to be infinite to readers of JSON that have doubles only."""

_STEP = 20
_SHAPE = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_LONG_RUN = b"0" * (LONG // _STEP)


def json_value(value: Any, place: str = "result") -> Any:
    """Return a value of any type as a JSON value; JSON values are returned as they are.

    Models, dataclasses and the like follow the schemas of their classes, bytes become base64 (RFC 4648, section 4),
    and iterators are read. NaN and the infinities become null.

    Args:
        value: The value.
        place: Name of the value in messages.

    Raises:
        OutputError: It cannot be converted to JSON. The message has the place, the type and the remedy.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    if is_json(value):
        return value
    from .reading import converted

    return converted(value, place)


def text_of(data: Any) -> str:
    """Return a JSON value as text: a string as it is, other values as JSON.

    Raises:
        OutputError: It has a lone surrogate, or a number that few JSON parsers support.
    """
    return data if type(data) is str else json_of(data).decode()


def json_of(data: Any) -> bytes:
    """Return the JSON of a JSON value.

    Raises:
        OutputError: It has a lone surrogate, or a number that few JSON parsers support.
    """
    try:
        written = to_json(data, inf_nan_mode="null")  # as `encode`, with a frame less
    except ValueError as error:
        raise unwritten(data) or error from None
    if len(written) > LONG and may_hold_huge_number(written) and (problem := unwritten(data)):
        raise problem
    return written


def check_sendable(where: str, part: str, value: Any) -> None:
    """Check that a text or schema can be sent, as one wrong entry would make a whole list fail.

    Args:
        where: Component or argument, for messages; empty if the caller adds it.
        part: Name of the value in messages: `description`, `schema`.
        value: The value.

    Raises:
        RegistrationError: It is not JSON, or has a lone surrogate, NaN, or a number that few clients support.
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
    """Return whether a JSON text may have a number of more than 300 digits, by checking every twentieth byte."""
    return text[::_STEP].translate(_SHAPE).find(_LONG_RUN) >= 0


def unwritten(value: Any) -> OutputError | None:
    """Return the error of a result or its data that cannot be converted to JSON; None if there is none."""
    from .reading import unsayable

    if type(value) is dict and "structuredContent" in value:
        return unsayable(value["structuredContent"]) or unsayable(value)
    return unsayable(value)
