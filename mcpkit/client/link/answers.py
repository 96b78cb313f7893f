"""Checks of the members of results."""

from __future__ import annotations

from typing import Any, cast

from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ...protocol.jsonrpc import Json, is_array, is_object


def objects(result: Json, member: str, method: str) -> list[Json]:
    """Return the objects in a member of a result.

    Raises:
        ProtocolError: The member is not an array of objects.
    """
    found: object = result.get(member)
    if type(found) is list:
        items = cast("list[Json]", found)
        for each in items:
            if type(each) is not dict:
                break
        else:
            return items
    raise malformed(method, f"an array of objects as {member}")


def strings(result: Json, member: str, method: str) -> list[str]:
    """Return the strings in a member of a result.

    Raises:
        ProtocolError: The member is not an array of strings.
    """
    found = result.get(member)
    if not is_array(found) or not all(isinstance(each, str) for each in found):
        raise malformed(method, f"an array of strings as {member}")
    return found


def member_object(result: Json, member: str, method: str) -> Json:
    """Return the object in a member of a result.

    Raises:
        ProtocolError: The member is not an object.
    """
    found: Any = result.get(member)
    if not is_object(found):
        raise malformed(method, f"an object as {member}")
    return found


def malformed(method: str, expected: str) -> ProtocolError:
    """Return the error for a result that does not have the form of the specification."""
    return ProtocolError(INTERNAL_ERROR, f"the server's answer to {method} is malformed: expected {expected}")
