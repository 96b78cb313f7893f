"""The interface of a server, and its lockfile, which is sorted, so that all differences are changes of the server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .._utils.exceptions import METHOD_NOT_FOUND, ProtocolError
from ..client.client import Client
from ..client.client_group import failures_of, servers_of
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import LATEST

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


class LockfileError(ValueError):
    """A file is not a lockfile that this version can read."""


# Interfaces of running servers


@dataclass(frozen=True)
class Surface:
    """The tools, resources, templates and prompts of one server.

    Attributes:
        server: Its name in a configuration, or else its own name.
        revision: The protocol version of the connection.
        instructions: Its instructions for models.
        tools: Its tools, as in `tools/list`.
        resources: Its resources.
        templates: Its resource templates.
        prompts: Its prompts.
    """

    server: str = "server"
    revision: str = LATEST
    instructions: str = ""
    tools: list[Json] = field(default_factory=list[Json])
    resources: list[Json] = field(default_factory=list[Json])
    templates: list[Json] = field(default_factory=list[Json])
    prompts: list[Json] = field(default_factory=list[Json])


async def surface_of(client: Client, name: str | None = None) -> Surface:
    """List the surface of the server of an open client.

    Args:
        client: The client of one server.
        name: The name of the server; its own name by default.
    """

    async def listed(capability: str, request: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        if capability not in client.server_capabilities:
            return []
        try:
            return await request()
        except ProtocolError as error:
            if error.code == METHOD_NOT_FOUND:  # for example by a server without templates
                return []
            raise

    return Surface(
        name or str(client.server_info.get("name") or "server"),
        client.protocol_version,
        client.instructions or "",
        await listed("tools", client.list_tools),
        await listed("resources", client.list_resources),
        await listed("resources", client.list_resource_templates),
        await listed("prompts", client.list_prompts),
    )


async def surfaces_of(client: Client) -> list[Surface]:
    """List the surfaces of the servers of an open client: one, or all of a configuration.

    Raises:
        ConnectionError: A server of the configuration cannot be reached.
    """
    for name, error in failures_of(client).items():
        raise ConnectionError(f"server {name} cannot be reached: {error}") from error
    servers = servers_of(client)
    if list(servers.values()) == [client]:
        return [await surface_of(client)]
    return [await surface_of(each, name) for name, each in servers.items()]


# Lockfiles


def contract_of(surfaces: Sequence[Surface]) -> Json:
    """Return the content of a lockfile.

    Args:
        surfaces: The surfaces of one server, or of several in a configuration.
    """
    if len(surfaces) == 1:
        return {"format": FORMAT, **_lists(surfaces[0])}
    return {"format": FORMAT, "servers": {each.server: _lists(each) for each in surfaces}}


def read(path: Path) -> Json:
    """Read a lockfile.

    Raises:
        FileNotFoundError: There is no such file.
        LockfileError: The file is not a lockfile.
    """
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LockfileError(f"{path} is not valid JSON: {error}") from None
    if not is_object(found) or "format" not in found:
        raise LockfileError(f"{path} is not a lockfile of mcpkit. Delete it, and write it with mcpkit lock")
    if found["format"] != FORMAT:
        raise LockfileError(
            f"{path} has format {found['format']!r:.20}, but this version of mcpkit supports {FORMAT}. "
            "Delete it, and write it with mcpkit lock"
        )
    for part in servers_in(found).values():
        for kind, keys in KEYS.items():
            items: object = part.get(kind, []) if is_object(part) else None
            if not is_array(items) or not all(
                is_object(each) and isinstance(each.get(keys[0]), str) for each in items
            ):
                raise LockfileError(f"{path} has invalid {kind}. Delete it, and write it with mcpkit lock")
    return found


def read_if_exists(path: Path) -> Json | None:
    """Read a lockfile; None if there is no such file.

    Raises:
        LockfileError: The file is not a lockfile.
    """
    return read(path) if path.is_file() else None


def write(path: Path, contract: Json) -> None:
    """Write a lockfile."""
    text = json.dumps(contract, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def servers_in(contract: Json) -> Json:
    """Return the lists of each server by its name; the only server has an empty name."""
    servers: object = contract.get("servers")
    return servers if is_object(servers) else {"": contract}


def _lists(surface: Surface) -> Json:
    lists = {
        "tools": surface.tools,
        "resources": surface.resources,
        "templates": surface.templates,
        "prompts": surface.prompts,
    }
    return {
        kind: sorted((_stored_members(kind, item) for item in items), key=_name)
        for kind, items in lists.items()
    }


def _stored_members(kind: str, item: Json) -> Json:
    stored: Json = {key: item[key] for key in KEYS[kind] if item.get(key) is not None}
    if is_array(stored.get("arguments")):
        stored["arguments"] = sorted(stored["arguments"], key=_name)
    for key in ("inputSchema", "outputSchema"):
        if key in stored:
            stored[key] = _with_sorted_required(stored[key])
    return stored


def _with_sorted_required(schema: object) -> object:
    """Return a schema with its `required` sorted, as the order has no meaning."""
    if is_array(schema):
        return [_with_sorted_required(each) for each in schema]
    if not is_object(schema):
        return schema
    required: object = schema.get("required")
    inner: Json = {key: _with_sorted_required(value) for key, value in schema.items()}
    if is_array(required) and all(isinstance(name, str) for name in required):
        inner["required"] = sorted(map(str, required))
    return inner


def _name(item: object) -> str:
    return json.dumps([item.get(key) for key in ("name", "uri", "uriTemplate")]) if is_object(item) else ""
