"""JSON of strangers, of which nothing can be read in two ways."""

from __future__ import annotations

import json

from ..common.errors import ProtocolError
from ..protocol.jsonrpc import BYTE_ORDER_MARK, decode


def read_object(data: bytes) -> dict[str, object]:
    """Return a JSON object.

    Args:
        data: Its text, of a length that has been bounded.

    Raises:
        ValueError: It is something else: not UTF-8, not JSON, nested too deeply, with a number or a text that JSON has
            not, with a byte order mark, or with a member twice, of which each reader may take another. The message has
            nothing of it.
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
    """Return a value that JSON has as an array; None for any other."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType]  # it is of objects


def members_in(value: object) -> dict[str, object] | None:
    """Return a value that JSON has as an object; None for any other."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]  # it is of objects


def several_of(value: object) -> list[object]:
    """Return the items of a list, a tuple or a set, and of any other value that alone."""
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]  # pyright: ignore[reportUnknownVariableType]  # it is of objects
    return [value]


def _once(members: list[tuple[str, object]]) -> None:
    if len({name for name, _ in members}) < len(members):
        raise ValueError("duplicate member")
