"""What a server says of itself: its tools, resources, templates and prompts, as clients see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ...common.errors import METHOD_NOT_FOUND, ProtocolError
from ...protocol.revisions import LATEST
from ...protocol.types import Json
from ..client import Client
from ..group import failures_of, servers_of


@dataclass(frozen=True)
class Surface:
    """What one server says of itself.

    Attributes:
        server: What its users call it: its name in a configuration, or else its own.
        revision: The revision in which it says so.
        instructions: What it tells models about itself.
        tools: Its tools, as `tools/list` has them.
        resources: Its resources.
        templates: Its templates of resources.
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
    """Ask an open client's server for all that it says of itself.

    Args:
        client: The client, of one server.
        name: What its users call the server; by default its own name.
    """

    async def listed(capability: str, ask: Callable[[], Awaitable[list[Json]]]) -> list[Json]:
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
    """Ask an open client for what its servers say of themselves: one, or all of a configuration.

    Raises:
        ConnectionError: A server of the configuration cannot be reached.
    """
    for name, error in failures_of(client).items():
        raise ConnectionError(f"server {name} cannot be reached: {error}") from error
    servers = servers_of(client)
    if list(servers.values()) == [client]:
        return [await surface_of(client)]
    return [await surface_of(each, name) for name, each in servers.items()]
