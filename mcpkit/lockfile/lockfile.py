"""The contract of a server as a file: sorted, so that its differences are those of the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..protocol.jsonrpc import Json, is_array, is_object
from .surface import Surface

FORMAT: Final = 1
"""The version of the file's format."""
NAME: Final = "mcp.lock.json"

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "tools": ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"),
    "resources": ("uri", "name", "title", "description", "mimeType"),
    "templates": ("uriTemplate", "name", "title", "description", "mimeType"),
    "prompts": ("name", "title", "description", "arguments"),
}
"""Members to store per item; the first one identifies it."""


class LockError(ValueError):
    """A file is no contract that can be read."""


def contract_of(surfaces: Sequence[Surface]) -> Json:
    """Return the contract of servers, without their versions and places.

    Args:
        surfaces: The surfaces of one server, or of several in a configuration.
    """
    if len(surfaces) == 1:
        return {"format": FORMAT, **_contract(surfaces[0])}
    return {"format": FORMAT, "servers": {each.server: _contract(each) for each in surfaces}}


def text_of(contract: Json) -> str:
    """Return a contract as the text of its file."""
    return json.dumps(contract, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read(path: Path) -> Json:
    """Read a contract from a file.

    Raises:
        FileNotFoundError: There is no such file.
        LockError: The file is not a contract.
    """
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LockError(f"{path} is not valid JSON: {error}") from None
    if not is_object(found) or "format" not in found:
        raise LockError(f"{path} is not a lockfile of mcpkit. Delete it, and write it with mcpkit lock")
    if found["format"] != FORMAT:
        raise LockError(
            f"{path} has format {found['format']!r:.20}, but this version of mcpkit supports {FORMAT}. "
            "Delete it, and write it with mcpkit lock"
        )
    for part in servers_of(found).values():
        for kind, keys in KEYS.items():
            items: object = part.get(kind, []) if is_object(part) else None
            if not is_array(items) or not all(
                is_object(each) and isinstance(each.get(keys[0]), str) for each in items
            ):
                raise LockError(f"{path} has invalid {kind}. Delete it, and write it with mcpkit lock")
    return found


def kept(path: Path) -> Json | None:
    """Return the contract in a file; None where there is no such file.

    Raises:
        LockError: It is none.
    """
    return read(path) if path.is_file() else None


def write(path: Path, contract: Json) -> None:
    """Write a contract into a file."""
    path.write_text(text_of(contract), encoding="utf-8", newline="\n")


def servers_of(contract: Json) -> Json:
    """Return what a contract has of each server, by its name; of the only one, by an empty name."""
    servers: object = contract.get("servers")
    return servers if is_object(servers) else {"": contract}


def _contract(surface: Surface) -> Json:
    lists = {
        "tools": surface.tools,
        "resources": surface.resources,
        "templates": surface.templates,
        "prompts": surface.prompts,
    }
    return {kind: sorted((_kept(kind, item) for item in items), key=_name) for kind, items in lists.items()}


def _kept(kind: str, item: Json) -> Json:
    kept: Json = {key: item[key] for key in KEYS[kind] if item.get(key) is not None}
    if is_array(kept.get("arguments")):
        kept["arguments"] = sorted(kept["arguments"], key=_name)
    for key in ("inputSchema", "outputSchema"):
        if key in kept:
            kept[key] = _sorted(kept[key])
    return kept


def _sorted(schema: object) -> object:
    """Return a schema with `required` sorted, whose order has no meaning."""
    if is_array(schema):
        return [_sorted(each) for each in schema]
    if not is_object(schema):
        return schema
    required: object = schema.get("required")
    inner: Json = {key: _sorted(value) for key, value in schema.items()}
    if is_array(required) and all(isinstance(name, str) for name in required):
        inner["required"] = sorted(map(str, required))
    return inner


def _name(item: object) -> str:
    return json.dumps([item.get(key) for key in ("name", "uri", "uriTemplate")]) if is_object(item) else ""
