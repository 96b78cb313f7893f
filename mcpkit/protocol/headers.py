"""Comparison of HTTP headers with the request's body (basic/transports/streamable-http, since 2026-07-28).

Proxies that route or count by headers must see the values that the server uses. A header that is missing, malformed or
different from the body is refused ("Server Validation").
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from typing import Any

from .._utils.exceptions import HEADER_MISMATCH, ProtocolError
from .jsonrpc import is_array, is_object
from .mirrored import MirroredParameter

Headers = Mapping[bytes, bytes]
"""Values by name in lower case."""

NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of the params that `Mcp-Name` repeats ("Standard Request Headers")."""

_MAY_BE_UNNAMED = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
"""Requests without a required `Mcp-Name`, as fastmcp 4 leaves it out: an id of a task is for its owner alone."""

_PREFIX = b"=?base64?"
_SUFFIX = b"?="
_BLANKS = b" \t"
_PLAIN = bytes(range(ord("!"), ord("~") + 1)).replace(b"=", b"")
"""What stands in a header as it is: visible ASCII, and nothing that the Base64 form begins with."""

_FITS = re.compile(r"(?! )[ -~]*(?<! )")
"""Text that a header carries unchanged, unless it looks like the Base64 form."""

_NUMBER = re.compile(r"(-?[0-9]{1,16})(?:\.0+)?")
_LARGEST = 2**53 - 1
"""Integers beyond it are not exact in JavaScript, so the specification leaves them out of headers."""


def check_standard(
    headers: Headers, method: str, params: dict[str, Any], revision: str, named_by: str | None = None
) -> None:
    """Compare the standard headers with a request.

    Args:
        headers: The headers of the POST.
        method: The request's method.
        params: Its params.
        revision: The `protocolVersion` of its `_meta`.
        named_by: The member that `Mcp-Name` repeats, for a method outside the core protocol.

    Raises:
        ProtocolError: -32020, when `MCP-Protocol-Version`, `Mcp-Method` or, where the request has a
            name, `Mcp-Name` is missing or differs. Of a request about a task it may be missing.
    """
    told = headers.get(b"mcp-protocol-version")
    if told != revision.encode() and (told is None or told.strip(_BLANKS) != revision.encode()):
        raise _mismatch("MCP-Protocol-Version", told, revision)
    told = headers.get(b"mcp-method")
    if told != method.encode() and (told is None or told.strip(_BLANKS) != method.encode()):
        raise _mismatch("Mcp-Method", told, method)
    if (member := NAMED_BY.get(method, named_by)) is not None:
        value = params.get(member)
        # Params without a name, or with something else in its place, are malformed whatever the header says.
        if type(value) is str:
            told = headers.get(b"mcp-name")
            if told is None:
                if method in _MAY_BE_UNNAMED:
                    return
                raise _mismatch("Mcp-Name", told, value)
            is_same = told == value.encode() and not told.strip(_PLAIN)
            if not is_same and decode("Mcp-Name", told) != value:
                raise _mismatch("Mcp-Name", told, value)


def check_mirrored(
    headers: Headers, mirrored: Sequence[MirroredParameter], arguments: dict[str, Any]
) -> None:
    """Compare the `Mcp-Param-*` headers with the arguments of a call.

    Args:
        headers: The headers of the POST.
        mirrored: What the tool has clients mirror.
        arguments: The arguments, not yet validated.

    Raises:
        ProtocolError: -32020, when a header is missing, malformed, unlike its argument, or there without one.
    """
    for each in mirrored:
        header = each.header
        value: Any = arguments
        for name in each.path:
            value = value.get(name) if is_object(value) else None
        told = headers.get(header)
        if told is None and (value is None or is_object(value) or is_array(value)):
            continue  # what has no text is left to the validator, which says what was expected
        field = header.decode().title()
        if told is None or value is None or not _is_same(decode(field, told), value):
            raise _mismatch(field, told, value)


def _is_same(text: str, value: Any) -> bool:
    if type(value) is str:
        return text == value
    if type(value) is bool:
        return text == ("true" if value else "false")
    if type(value) is int or type(value) is float:
        number = _NUMBER.fullmatch(text)
        return number is not None and int(number[1]) == value and abs(value) <= _LARGEST
    return False


def decode(field: str, value: bytes) -> str:
    """Return the text that a header carries ("Value Encoding").

    Args:
        field: The header's name, for messages.
        value: Its value, with the blanks round it that some servers leave there.

    Raises:
        ProtocolError: -32020 for characters that a header cannot hold, and for broken Base64.
    """
    value = value.strip(_BLANKS)
    try:
        if value.startswith(_PREFIX) and value.endswith(_SUFFIX):
            packed = value[len(_PREFIX) : -len(_SUFFIX)]
            data = a2b_base64(packed)
            # Decoding skips what is not of the alphabet and forgives padding; encoding shows it.
            if b2a_base64(data, newline=False) == packed and len(value) >= len(_PREFIX) + len(_SUFFIX):
                return data.decode()
        else:
            text = value.decode("ascii")
            if text.isprintable() or text.replace("\t", "").isprintable():
                return text
    except ValueError:
        pass
    raise ProtocolError(
        HEADER_MISMATCH,
        f"Header mismatch: {field} must be visible ASCII characters, or =?base64?...?= with the Base64 of UTF-8",
    )


def encode(text: str) -> bytes:
    """Return what a header carries for a text: itself where it can, else the Base64 of its UTF-8 ("Value Encoding").

    Raises:
        ValueError: The text holds half of a surrogate pair.
    """
    if _FITS.fullmatch(text):
        plain = text.encode("ascii")
        if not (plain.startswith(_PREFIX) and plain.endswith(_SUFFIX)):
            return plain
    return _PREFIX + b2a_base64(text.encode(), newline=False) + _SUFFIX


def _mismatch(field: str, told: bytes | None, value: Any) -> ProtocolError:
    if told is None:
        what = f"{field} header is missing"
    elif value is None:
        what = f"{field} header is set, but the body has no such argument"
    elif type(value) is int and abs(value) > _LARGEST:
        what = (
            f"{field} header needs an integer from -(2**53 - 1) to 2**53 - 1, and the body value is not one"
        )
    else:
        shown = told[:100].decode(errors="backslashreplace")
        what = f"{field} header value {shown!r} does not match body value {_shown(value)}"
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {what}")


def _shown(value: Any) -> str:
    return repr(value[:100] if isinstance(value, str) else value)[:110]
