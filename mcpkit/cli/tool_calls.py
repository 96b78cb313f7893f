"""Tools by name, and tool calls with progress; calls that become tasks are followed until the task has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from .._utils.exceptions import ProtocolError
from .._utils.option_checks import nearest
from ..client.call_results import CallResult
from ..client.client import Client
from ..client.client_group import failures_of, servers_of
from ..protocol.jsonrpc import Json, is_object
from ..protocol.objects import ToolDefinition
from .console import ProgressDisplay
from .exit_status import CommandError, Status

_CANCEL_TIMEOUT: Final = 2.0
"""Seconds to wait for the response to `tasks/cancel` when the command is interrupted."""


def connected_servers(client: Client) -> dict[str, Client]:
    """Return the clients of the servers that are connected, by the name of the server."""
    failures = failures_of(client)
    return {name: each for name, each in servers_of(client).items() if name not in failures}


def has_capability(client: Client, capability: str) -> bool:
    """Return whether a connected server declares a capability."""
    return any(capability in each.server_capabilities for each in connected_servers(client).values())


async def find_tool(client: Client, name: str) -> ToolDefinition:
    """Return the definition of a tool.

    Raises:
        CommandError: The server has no tool with that name.
    """
    listed = await client.list_tools() if has_capability(client, "tools") else []
    tools = {str(each.get("name")): each for each in listed}
    if name not in tools:
        raise not_found("tool", name, tools)
    return tools[name]


def not_found(kind: str, name: str, names: Iterable[str]) -> CommandError:
    """Return the error for an unknown tool or prompt, with the nearest name or all names."""
    names = list(names)
    close = nearest(name, names)
    all_names = f"the server has {', '.join(names)}" if names else f"the server has no {kind}s"
    hint = f"did you mean {close}?" if close else all_names
    return CommandError(f"no such {kind}: {name}; {hint}", Status.NO_SUCH_THING)


async def call_tool(
    client: Client, tool: Mapping[str, object], arguments: Json, *, progress: ProgressDisplay
) -> CallResult:
    """Call a tool, and wait for the result of its task if the call becomes one.

    Args:
        client: The client.
        tool: The definition of the tool.
        arguments: The arguments.
        progress: Shows progress notifications and the status messages of tasks.

    Raises:
        InvalidResultError: The result does not match the output schema.
        ProtocolError: The server responded with an error, or the task failed.
    """
    name, execution = str(tool.get("name")), tool.get("execution")
    try:
        # In 2025-11-25 the client may choose: then the call is no task. Since 2026-07-28 the server decides.
        if is_object(execution) and execution.get("taskSupport") == "optional":
            return await client.call_tool(name, arguments, progress=progress.show_progress)
        handle = await client.call_tool(name, arguments, task=True, progress=progress.show_progress)
        try:
            if handle.id is not None:
                async for status in handle.events():
                    if not status.is_over:
                        progress.show_status(status.message or "")
            return await handle.result()
        except asyncio.CancelledError:
            with suppress(ProtocolError, OSError, asyncio.TimeoutError):
                await asyncio.wait_for(handle.cancel(), _CANCEL_TIMEOUT)
            raise
    finally:
        progress.close()
