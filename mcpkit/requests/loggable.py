"""Log and progress messages with any Python value: a value without a JSON form is sent as text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from pydantic_core import to_json

from ..protocol import jsonrpc

_DEEPEST: Final = 64
"""Levels of lists and objects; clients read about 200, and what is deeper is sent as text."""

_CERTAIN: Final = 256
"""Bytes of a message in which there is no room for numbers and levels that clients cannot read."""

_GREATEST: Final = 1 << 1023
"""Integers from here on leave the range of a double, in which most clients read them."""


def log_message(level: str, data: object, logger: object = None) -> bytes:
    """Return a `notifications/message`, whatever its data are.

    Args:
        level: The level.
        data: Any value. NaN and infinities become strings; exceptions, objects, and whatever else has no form in
            JSON become their `repr`, and half surrogate pairs become escapes.
        logger: The name of the logger, if it has one.
    """
    params = {"level": level, "data": data}
    if logger is not None:
        params["logger"] = as_text(logger)
    try:
        line = _notification(params)
        if len(line) > _CERTAIN:
            jsonrpc.decode(line)
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        line = _notification({**params, "data": loggable(data)})
    return line


def loggable(value: object) -> Any:
    """Return a JSON value for any value, with text for parts without a JSON form."""
    return _loggable(value, ())


def as_text(value: object) -> str:
    """Return a text itself, and any other value's `repr`, with half surrogate pairs as escapes; never raises."""
    try:
        text = value if isinstance(value, str) else repr(value)
        return str.encode(text, errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        return object.__repr__(value)


def _loggable(value: object, holders: tuple[int, ...]) -> Any:
    if isinstance(value, str):
        return as_text(value)
    group = value
    if not isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return _plain(group)
    if len(holders) >= _DEEPEST or id(group) in holders:
        return as_text(group)
    holders = (*holders, id(group))
    try:
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value).items()
            return {as_text(name): _loggable(each, holders) for name, each in entries}
        return [_loggable(each, holders) for each in cast("Collection[object]", value)]
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        return as_text(group)


def _plain(value: object) -> Any:
    if isinstance(value, int) and not -_GREATEST < value < _GREATEST:
        return as_text(value)
    try:
        return jsonrpc.decode(to_json(value, inf_nan_mode="strings"))
    except Exception:  # noqa: BLE001 - a value's class may raise anything
        return as_text(value)


def _notification(params: object) -> bytes:
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    return to_json(message, inf_nan_mode="strings")
