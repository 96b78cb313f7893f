"""Checks of content blocks that authors write as dicts (server/tools, "Tool Result")."""

from __future__ import annotations

from typing import Any

from .._utils.exceptions import OutputError
from ..protocol.jsonrpc import is_object
from .wording import described

BLOCKS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": (),
    "resource_link": ("uri", "name"),
}
"""The types of blocks, and the strings that a block of each must have."""


def check_block(block: dict[str, Any], place: str) -> None:
    """Check the members of a block that older protocol versions need; types that are not in `BLOCKS` pass.

    Args:
        block: The block; its `type` is a string.
        place: Place in the result, for messages.

    Raises:
        OutputError: A member is missing, or has another type.
    """
    kind = block["type"]
    for name in BLOCKS.get(kind, ()):
        if not isinstance(block.get(name), str):
            raise OutputError(f"{place}.{name}: expected a string{_instead(block, name)}")
    if kind != "resource":
        return
    resource, place = block.get("resource"), f"{place}.resource"
    if not is_object(resource):
        raise OutputError(f"{place}: expected an object with a uri, and text or blob")
    if not isinstance(resource.get("uri"), str):
        raise OutputError(f"{place}.uri: expected a string{_instead(resource, 'uri')}")
    if not isinstance(resource.get("text", resource.get("blob")), str):
        raise OutputError(f"{place}: expected text, or blob in base64, as a string")


def shown(value: Any) -> str:
    """Return what is found where something else was expected: a text itself, else its class."""
    return f'"{value[:60]}"' if isinstance(value, str) else described(value)


def _instead(holder: dict[str, Any], name: str) -> str:
    if name not in holder:
        return ", but it is missing"
    return f", got {described(holder[name])}"
