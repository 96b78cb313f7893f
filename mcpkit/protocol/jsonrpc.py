"""JSON-RPC 2.0 messages to and from bytes (base protocol, "Messages")."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, cast

from pydantic_core import from_json, to_json

from .._utils.exceptions import PARSE_ERROR, ProtocolError

Json = dict[str, Any]  # a JSON object with any members
RequestId = str | int

# U+FEFF in UTF-8, which some programs on Windows write first; a parser may ignore it (RFC 8259, 8.1).
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Types of JSON values that contain no others.
SCALARS = frozenset({str, int, float, bool, type(None)})

# Maximum characters of an id, which is stored while its request runs and repeated in messages about it; and bits of an
# id that is an integer, with its sign.
MAX_ID_LENGTH = 256
MAX_ID_BITS = 64
ID_FORM = f"a string of at most {MAX_ID_LENGTH} characters or an integer of at most {MAX_ID_BITS} bits"
_IDS_END = 1 << MAX_ID_BITS - 1
_DIGITS = r"-?[1-9][0-9]{0,18}|0"


# Parsing

# A number leaves the range of a double only with a three-digit exponent or hundreds of digits. Most messages contain
# neither, which a search shows after all digits, and the plus signs, were replaced by zeros.
_SHAPE = bytes(48 if byte in b"+0123456789" else 101 if byte in b"eE" else byte for byte in range(256))
_LONG_EXPONENT = b"0e000"
_LONG_NUMBER = b"0" * 32
_LONG = 200  # bytes of the shortest message that can contain hundreds of digits

# A message of this length with few values is searched by its values, which is cheaper than by its bytes.
_LARGE = 4096
_BYTES_A_VALUE = 64


def decode(data: bytes) -> Any:
    """Parse one JSON text.

    Args:
        data: UTF-8 bytes of one message, or of a batch; a byte order mark before it is ignored.

    Returns:
        The JSON value as Python's own types.

    Raises:
        ProtocolError: -32700, when the bytes are not UTF-8, not JSON, nested too deeply, or contain a number out of
            the range of a double (`NaN`, `1e400`) or half of a surrogate pair.
    """
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")  # values would stay in the cache
    except ValueError as error:
        text = data.removeprefix(BYTE_ORDER_MARK)
        if len(text) == len(data) or text.startswith(BYTE_ORDER_MARK):
            raise ProtocolError(PARSE_ERROR, f"Parse error: {error}") from None
        return decode(text)
    found = _find_infinity(value, len(data) // _BYTES_A_VALUE) if len(data) > _LARGE else None
    if found is None:
        shape = data.translate(_SHAPE)
        may_be = shape.find(_LONG_EXPONENT) >= 0 or (len(data) > _LONG and shape.find(_LONG_NUMBER) >= 0)
        found = may_be and _find_infinity(value, len(data))
    if found:
        raise ProtocolError(PARSE_ERROR, "Parse error: number out of range; numbers must be below 1.8e308")
    return value


def _find_infinity(value: Any, limit: int) -> bool | None:
    """Return whether a JSON value contains an infinity; None if it has more than `limit` values."""
    waiting: list[Any] = [(value,)]
    while waiting:
        holder = waiting.pop()
        limit -= len(holder)
        if limit < 0:
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


def without(members: Mapping[str, Any], *names: str) -> Json:
    """Return a copy of an object that has none of the named members."""
    return {name: value for name, value in members.items() if name not in names}


def is_object(value: Any) -> TypeGuard[Json]:
    """Return True if a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return True if a JSON value is an array."""
    return isinstance(value, list)


def object_at(container: Mapping[str, Any], key: str) -> Json:
    """Return the object at a key of another one, such as `params` of a message; an empty one if there is none."""
    value: object = container.get(key)
    return value if is_object(value) else {}


def is_id(value: Any) -> TypeGuard[RequestId]:
    """Return True if a JSON value may be a request id or progress token: not null, and not too long or large."""
    if type(value) is int:
        return -_IDS_END <= value < _IDS_END
    return type(value) is str and len(value) <= MAX_ID_LENGTH


def whole_number(value: object) -> int | None:
    """Return an integer that was written as one, as a decimal string, or as a float; None for anything else.

    Peers in languages with one type of numbers repeat the id 1 as 1.0; others repeat every id as a string.
    """
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    return int(value) if type(value) is str and re.fullmatch(_DIGITS, value) else None


# Writing


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
    """The JSON of a long result, in pieces that are joined once."""

    __slots__ = ()


Ready = Json | bytes  # a result object, or its JSON
Outcome = Ready | Pieces


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
        id_: The id of the request; None if it has none.
        problem: Code, message and data.
        absent: Whether the member `id` is left out for None; versions before 2025-11-25 require null.
    """
    body: Json = {"code": problem.code, "message": problem.message}
    if problem.data is not None:
        body["data"] = problem.data
    id_member = {} if id_ is None and absent else {"id": id_}
    return encode({"jsonrpc": "2.0", **id_member, "error": body})


def notification(method: str, params: Json | None = None) -> bytes:
    """Write a notification."""
    params_member = {} if params is None else {"params": params}
    return encode({"jsonrpc": "2.0", "method": method, **params_member})


# Characters of a text from which on encoding it twice takes longer than inserting it twice.
LONG = 64 * 1024


class RepetitiveResult(dict[str, Any]):
    """A long tool result with the same data as structured content and as text, which are encoded once.

    It has one block, the JSON of the structured content, or the structured content if it is a string.

    Args:
        data: Structured content.
        data_json: JSON of the structured content.
        text: Text of the block.
    """

    __slots__ = ("data_json",)

    def __init__(self, data: Any, data_json: bytes, text: str) -> None:
        super().__init__(content=[{"type": "text", "text": text}], structuredContent=data)
        self.data_json = data_json

    def rendered(self, render: Callable[[dict[str, Any]], bytes]) -> Pieces:
        """Return the result as JSON.

        Args:
            render: Renders a result in the request's protocol version; it is called with short texts in place of the
                long ones.

        Raises:
            ValueError: The text has a lone surrogate.
        """
        data = self["structuredContent"]
        text = self["content"][0]["text"]
        text_json = self.data_json if text is data else encode(text)
        mark = os.urandom(16).hex()  # so that it is unique in the result
        text_mark, data_mark = f"text {mark}", f"data {mark}"
        placeholder = {data_mark: 0} if type(data) is dict else data_mark  # some versions only allow objects
        template = render(
            {"content": [{"type": "text", "text": text_mark}], "structuredContent": placeholder}
        )
        before, rest = template.split(encode(text_mark))
        between, _, after = rest.partition(encode(placeholder))
        if not after:  # versions without structured content
            return Pieces((before, text_json, rest))
        return Pieces((before, text_json, between, self.data_json, after))
