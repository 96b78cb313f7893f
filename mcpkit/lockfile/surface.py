"""The surface of a server: its tools, resources, templates and prompts, as clients see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from .._utils.exceptions import METHOD_NOT_FOUND, ProtocolError
from ..client.client import Client
from ..client.group import failures_of, servers_of
from ..protocol.jsonrpc import Json
from ..protocol.revisions import LATEST


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

    async def listed(capability: str, ask: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        if capability not in client.server_capabilities:
            return []
        try:
            return await ask()
        except ProtocolError as error:
            if error.code == METHOD_NOT_FOUND:  # such as of servers without templates
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
