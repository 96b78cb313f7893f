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
from .types import MirroredParameter

Headers = Mapping[bytes, bytes]  # values by name in lower case

# The member of the params that `Mcp-Name` repeats ("Standard Request Headers").
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

# Requests without a required `Mcp-Name`: fastmcp 4 omits it, and only the owner of a task can use its id.
_MAY_BE_UNNAMED = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})

_PREFIX = b"=?base64?"
_SUFFIX = b"?="
_BLANKS = b" \t"
_PLAIN = bytes(range(ord("!"), ord("~") + 1)).replace(
    b"=", b""
)  # visible ASCII, without the start of `_PREFIX`
_FITS = r"(?! )[ -~]*(?<! )"  # text that a header carries unchanged, unless it looks like the Base64 form
_NUMBER = r"(-?[0-9]{1,16})(?:\.0+)?"
_MAX_INTEGER = (
    2**53 - 1
)  # larger ones are not exact in JavaScript, so the specification excludes them from headers


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
        ProtocolError: -32020, when `MCP-Protocol-Version`, `Mcp-Method` or, for a request with a name, `Mcp-Name` is
            missing or differs. In a request about a task it may be missing.
    """
    header = headers.get(b"mcp-protocol-version")
    if header != revision.encode() and (header is None or header.strip(_BLANKS) != revision.encode()):
        raise _mismatch("MCP-Protocol-Version", header, revision)
    header = headers.get(b"mcp-method")
    if header != method.encode() and (header is None or header.strip(_BLANKS) != method.encode()):
        raise _mismatch("Mcp-Method", header, method)
    member = NAMED_BY.get(method, named_by)
    name = None if member is None else params.get(member)
    if type(name) is not str:  # params without a required name are refused by the handler of the method
        return
    header = headers.get(b"mcp-name")
    if header is None and method in _MAY_BE_UNNAMED:
        return
    is_same = header is not None and header == name.encode() and not header.strip(_PLAIN)
    if header is None or (not is_same and decode("Mcp-Name", header) != name):
        raise _mismatch("Mcp-Name", header, name)


def check_mirrored(
    headers: Headers, mirrored: Sequence[MirroredParameter], arguments: dict[str, Any]
) -> None:
    """Compare the `Mcp-Param-*` headers with the arguments of a call.

    Args:
        headers: The headers of the POST.
        mirrored: The arguments that clients of the tool repeat in headers.
        arguments: The arguments, not yet validated.

    Raises:
        ProtocolError: -32020, when a header is missing, malformed, unlike its argument, or there without one.
    """
    for each in mirrored:
        value: Any = arguments
        for name in each.path:
            value = value.get(name) if is_object(value) else None
        header = headers.get(each.header)
        if header is None and (value is None or is_object(value) or is_array(value)):
            continue  # a value of a wrong type is refused by the validator, with a better message
        field = each.header.decode().title()
        if header is None or value is None or not _is_same(decode(field, header), value):
            raise _mismatch(field, header, value)


def _is_same(text: str, value: Any) -> bool:
    if type(value) is str:
        return text == value
    if type(value) is bool:
        return text == ("true" if value else "false")
    if type(value) is int or type(value) is float:
        number = re.fullmatch(_NUMBER, text)
        return number is not None and int(number[1]) == value and abs(value) <= _MAX_INTEGER
    return False


def decode(field: str, value: bytes) -> str:
    """Return the text of a header value ("Value Encoding").

    Args:
        field: The header's name, for messages.
        value: Its value; blanks around it, which some servers do not remove, are ignored.

    Raises:
        ProtocolError: -32020 for characters that a header cannot hold, and for broken Base64.
    """
    value = value.strip(_BLANKS)
    try:
        if value.startswith(_PREFIX) and value.endswith(_SUFFIX):
            packed = value[len(_PREFIX) : -len(_SUFFIX)]
            data = a2b_base64(packed)
            # Decoding ignores other characters and wrong padding; the comparison finds them.
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
    """Return a text as a header value: unchanged if possible, else the Base64 of its UTF-8 ("Value Encoding").

    Raises:
        ValueError: The text contains half of a surrogate pair.
    """
    if re.fullmatch(_FITS, text):
        plain = text.encode("ascii")
        if not (plain.startswith(_PREFIX) and plain.endswith(_SUFFIX)):
            return plain
    return _PREFIX + b2a_base64(text.encode(), newline=False) + _SUFFIX


def _mismatch(field: str, header: bytes | None, value: Any) -> ProtocolError:
    if header is None:
        what = f"{field} header is missing"
    elif value is None:
        what = f"{field} header is set, but the body has no such argument"
    elif type(value) is int and abs(value) > _MAX_INTEGER:
        what = (
            f"{field} header needs an integer from -(2**53 - 1) to 2**53 - 1, and the body value is not one"
        )
    else:
        shown = header[:100].decode(errors="backslashreplace")
        body = repr(value[:100] if isinstance(value, str) else value)[:110]
        what = f"{field} header value {shown!r} does not match body value {body}"
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {what}")
