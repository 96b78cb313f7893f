"""Tools and other things that a server has listed, found by their names."""

from __future__ import annotations

from collections.abc import Mapping

from ..._utils.option_checks import nearest
from ...client.client import Client
from ...client.group import failures_of, servers_of
from ...client.link.results import CallResult
from ...protocol.jsonrpc import Json, is_object
from ...protocol.objects import ToolDefinition
from ..exit_status import CommandError, Status
from .conversation import Conversation
from .tasks import called_as_task, followed, insists


async def found(client: Client, tool: str) -> ToolDefinition:
    """Return a tool as it is listed.

    Raises:
        CommandError: There is none of that name; the message says which may be meant.
    """
    tools = (
        {str(each.get("name")): each for each in await client.list_tools()} if has(client, "tools") else {}
    )
    if tool in tools:
        return tools[tool]
    close = nearest(tool, tools)
    there_are = f"the server has {', '.join(tools)}" if tools else "the server has no tools"
    raise CommandError(
        f"no such tool: {tool}; {f'did you mean {close}?' if close else there_are}", Status.NO_SUCH_THING
    )


def has(client: Client, capability: str) -> bool:
    """Say whether a server, or one of several, declares a capability."""
    return any(
        capability in each.server_capabilities
        for name, each in servers_of(client).items()
        if name not in failures_of(client)
    )


def schema_of(definition: Mapping[str, object]) -> Json:
    """Return the schema of a tool's arguments."""
    schema: object = definition.get("inputSchema")
    return schema if is_object(schema) else {}


async def called(
    client: Client, conversation: Conversation, definition: Mapping[str, object], values: Json
) -> CallResult:
    """Call a tool that the server has listed, and show how far it is meanwhile; a task is waited for.

    Args:
        client: The client.
        conversation: What goes on meanwhile.
        definition: The tool as it is listed.
        values: Its arguments.

    Raises:
        InvalidResultError: The result does not fit what the tool promises.
        ProtocolError: The server has answered with an error.
    """
    tool, progress, answers = str(definition.get("name")), conversation.progress, conversation.answers
    try:
        if insists(client, definition):
            return await called_as_task(client, tool, values, progress.show_status)
        result = await client.call_tool(tool, values, progress=progress.show_progress)
        if result.type == "task" and answers is not None:
            return await followed(client, answers, result.raw, progress.show_status)
        return result
    finally:
        progress.close()
