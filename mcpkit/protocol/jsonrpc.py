"""JSON-RPC 2.0 messages to and from bytes (base protocol, "Messages")."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeGuard, cast

from pydantic_core import from_json, to_json

from .._utils.exceptions import PARSE_ERROR, ProtocolError
from .types import Json

RequestId = str | int

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""U+FEFF in UTF-8, which some programs on Windows write first; a parser may ignore it (RFC 8259, 8.1)."""

SCALARS = frozenset({str, int, float, bool, type(None)})
"""The types of JSON's values that hold no others."""

MAX_ID_LENGTH = 256
"""Maximum characters of an id, which is kept while its request runs and repeated in messages about it."""

MAX_ID_BITS = 64
"""Bits of an id that is an integer, its sign among them: what peers have room for, and no client counts to."""

_IDS_END = 1 << MAX_ID_BITS - 1

ID_FORM = f"a string of at most {MAX_ID_LENGTH} characters or an integer of at most {MAX_ID_BITS} bits"
"""What `is_id` takes, for messages."""

# A number leaves the range of a double only with a three-digit exponent or hundreds of digits. Most messages hold
# neither, which a look at the bytes with all digits, and the plus signs, made alike tells at once.
_SHAPE = bytes(48 if byte in b"+0123456789" else 101 if byte in b"eE" else byte for byte in range(256))
_LONG_EXPONENT = b"0e000"
_LONG_NUMBER = b"0" * 32
_LONG = 200
"""Bytes below which there cannot be hundreds of digits."""

_LARGE = 4096
_BYTES_A_VALUE = 64
"""From how many bytes on, and with how many for each value, it is cheaper to look at the values than at the bytes."""


def decode(data: bytes) -> Any:
    """Parse one JSON text.

    Args:
        data: UTF-8 bytes of one message, or of a batch; a byte order mark before it is ignored.

    Returns:
        The JSON value as Python's own types.

    Raises:
        ProtocolError: -32700, when the bytes are not UTF-8, not JSON, nested too deeply, or hold a
            number that no double can hold (`NaN`, `1e400`) or half of a surrogate pair.
    """
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")  # what clients say is not kept
    except ValueError as error:
        text = data.removeprefix(BYTE_ORDER_MARK)
        if len(text) == len(data) or text.startswith(BYTE_ORDER_MARK):
            raise ProtocolError(PARSE_ERROR, f"Parse error: {error}") from None
        return decode(text)
    if len(data) > _LARGE:
        is_out_of_range = _has_infinity(value, data)
    else:
        shape = data.translate(_SHAPE)
        is_out_of_range = (
            shape.find(_LONG_EXPONENT) >= 0 or (len(data) > _LONG and shape.find(_LONG_NUMBER) >= 0)
        ) and _find_infinity(value, _LARGE) is True
    if is_out_of_range:
        raise ProtocolError(PARSE_ERROR, "Parse error: number out of range; numbers must be below 1.8e308")
    return value


def _has_infinity(value: Any, data: bytes) -> bool:
    """Return whether a number of a long JSON text was out of range; `data` is the text of `value`."""
    found = _find_infinity(value, len(data) // _BYTES_A_VALUE)
    if found is None:
        shape = data.translate(_SHAPE)
        may_be = shape.find(_LONG_EXPONENT) >= 0 or shape.find(_LONG_NUMBER) >= 0
        found = may_be and _find_infinity(value, len(data))
    return found is True


def _find_infinity(value: Any, most: int) -> bool | None:
    """Return whether a JSON value contains an infinity; None if it has more than `most` values."""
    waiting: list[Any] = [(value,)]
    while waiting:
        holder = waiting.pop()
        most -= len(holder)
        if most < 0:
            return None
        for each in holder:
            if type(each) is float:
                if math.isinf(each):
                    return True
            elif type(each) is dict:
                waiting.append(cast("Json", each).values())
            elif type(each) is list:
                waiting.append(each)
    return False


def encode(message: Any) -> bytes:
    """Write one JSON text on one line.

    Args:
        message: Dicts, lists, strings, numbers, booleans and None. NaN and the infinities become null; callers that
            must not lose them check before.

    Returns:
        UTF-8 bytes without a newline.

    Raises:
        ValueError: A string has a lone surrogate.
    """
    return to_json(message, inf_nan_mode="null")


class Pieces(tuple[bytes, ...]):
    """The JSON of a long result, in pieces that are put together once."""

    __slots__ = ()


Ready = Json | bytes
"""A result object, or its JSON already rendered."""

Outcome = Ready | Pieces
"""The same, and a long one in pieces, where the author's code has run."""


def result(id_: RequestId, value: Outcome) -> bytes:
    """Write a result response; `value` is the result object, or its JSON already rendered."""
    if type(value) is bytes:
        return b"".join((b'{"jsonrpc":"2.0","id":', to_json(id_), b',"result":', value, b"}"))
    if type(value) is Pieces:
        return b"".join((b'{"jsonrpc":"2.0","id":', to_json(id_), b',"result":', *value, b"}"))
    return to_json({"jsonrpc": "2.0", "id": id_, "result": value}, inf_nan_mode="null")


def error(id_: RequestId | None, problem: ProtocolError, *, absent: bool = True) -> bytes:
    """Write an error response.

    Args:
        id_: The request's id, or None when there is none to name.
        problem: Code, message and data.
        absent: Whether the member `id` is left out when there is none; revisions before
            2025-11-25 want null instead.
    """
    body: Json = {"code": problem.code, "message": problem.message}
    if problem.data is not None:
        body["data"] = problem.data
    id_member = {} if id_ is None and absent else {"id": id_}
    return encode({"jsonrpc": "2.0", **id_member, "error": body})


def notification(method: str, params: Json | None = None) -> bytes:
    """Write a notification."""
    if params is None:
        return encode({"jsonrpc": "2.0", "method": method})
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def without(members: Mapping[str, Any], *names: str) -> Json:
    """Return a copy of an object that has none of the named members."""
    return {name: value for name, value in members.items() if name not in names}


def is_object(value: Any) -> TypeGuard[Json]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def is_id(value: Any) -> TypeGuard[RequestId]:
    """Return whether a JSON value may be a request id or progress token: not null, and not too long or large."""
    if type(value) is int:
        return -_IDS_END <= value < _IDS_END
    return type(value) is str and len(value) <= MAX_ID_LENGTH


_DIGITS = r"-?[1-9][0-9]{0,18}|0"


def whole_number(value: object) -> int | None:
    """Return an integer that was written as one, as a decimal string, or as a float; None for anything else.

    Peers in languages with one type of numbers repeat the id 1 as 1.0; others repeat every id as a string.
    """
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    return int(value) if type(value) is str and re.fullmatch(_DIGITS, value) else None
