"""Tool arguments that are repeated in HTTP headers, since 2026-07-28.

basic/transports/streamable-http, "Custom Headers from Tool Parameters".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..._utils.exceptions import RegistrationError
from ...protocol.jsonrpc import Json, encode, is_object
from ...protocol.objects import KEYWORD, MirroredParameter
from ...schema.arguments import mirrored

_KEYWORD: Final = KEYWORD.encode()
_LARGEST: Final = 2**53 - 1
"""Integers beyond it are not exact in JavaScript, so the specification leaves them out of headers."""


def mirrored_by(tool: Json) -> tuple[MirroredParameter, ...] | RegistrationError:
    """Return the arguments of a tool that are repeated in headers, or the error of an invalid tool.

    Args:
        tool: The tool, as the server lists it.
    """
    schema: object = tool.get("inputSchema")
    if not is_object(schema) or _KEYWORD not in encode(schema):
        return ()
    try:
        return mirrored(f"tool {tool.get('name')!r:.100}", schema)
    except RegistrationError as error:
        return error


def headers_of(repeated: Sequence[MirroredParameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat the arguments of a call, without those that are null or absent.

    Args:
        repeated: The arguments that the tool requires in headers.
        arguments: The arguments.

    Raises:
        ValueError: An integer is too large for a header.
    """
    headers: dict[str, str] = {}
    for each in repeated:
        header = each.header.decode()
        value: Any = dict(arguments)
        for key in each.path:
            value = value.get(key) if is_object(value) else None
        if isinstance(value, bool):
            headers[header] = "true" if value else "false"
        elif isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            if abs(value) > _LARGEST:
                raise ValueError(
                    f"the argument {'.'.join(each.path)} is also sent in a header, which only allows "
                    f"integers from -(2**53 - 1) to 2**53 - 1, got {value}"
                )
            headers[header] = str(int(value))
        elif isinstance(value, str):
            headers[header] = value
    return headers
