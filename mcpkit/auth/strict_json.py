"""Strict parsing of untrusted JSON, without ambiguity."""

from __future__ import annotations

import json

from .._utils.exceptions import ProtocolError
from ..protocol.jsonrpc import BYTE_ORDER_MARK, decode


def read_object(data: bytes) -> dict[str, object]:
    """Parse a JSON object.

    Args:
        data: The text, of bounded length.

    Raises:
        ValueError: The text is not a JSON object in UTF-8, is nested too deeply, contains values outside JSON, begins
            with a byte order mark, or has a duplicate member. The message contains nothing of the text.
    """
    try:
        if data.startswith(BYTE_ORDER_MARK):  # which `decode` ignores
            raise ValueError
        value = decode(data)
        json.loads(data, object_pairs_hook=_once)
    except (ProtocolError, ValueError, RecursionError):
        raise ValueError("not a valid JSON object") from None
    members = members_in(value)
    if members is None:
        raise ValueError("not a JSON object")
    return members


def items_in(value: object) -> list[object] | None:
    """Return a JSON array; None for any other value."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType]  # it is of objects


def members_in(value: object) -> dict[str, object] | None:
    """Return a JSON object; None for any other value."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]  # it is of objects


def several_of(value: object) -> list[object]:
    """Return the items of a list, tuple or set; any other value as the only item."""
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]  # pyright: ignore[reportUnknownVariableType]  # it is of objects
    return [value]


def _once(members: list[tuple[str, object]]) -> None:
    if len({name for name, _ in members}) < len(members):
        raise ValueError("duplicate member")
