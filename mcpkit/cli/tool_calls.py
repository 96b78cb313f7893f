"""Tools by name, and tool calls with progress; calls that become tasks are followed until the task has ended."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from .._utils.exceptions import UNSUPPORTED_PROTOCOL_VERSION, AuthorizationError, ProtocolError, StatusError
from .._utils.option_checks import nearest
from ..client.call_results import CallResult, InvalidResultError
from ..client.client import Client
from ..client.client_group import failures_of, servers_of
from ..protocol.jsonrpc import Json, object_at
from ..protocol.objects import ToolDefinition
from ..protocol.revisions import ALL
from .console import ProgressDisplay, write, write_json, write_stderr
from .exit_status import CommandError, Status
from .interactive_handlers import InteractiveHandlers
from .key_values_and_usage import parse_arguments
from .server_target import ServerTarget

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
    name = str(tool.get("name"))
    try:
        # In 2025-11-25 the client may choose: then the call is no task. Since 2026-07-28 the server decides.
        if object_at(tool, "execution").get("taskSupport") == "optional":
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


# mcpkit call --all-revisions

_REVISION_MEMBERS: Final = frozenset({"resultType", "_meta", "ttlMs", "cacheScope"})
"""Members of results that belong to the protocol revision and not to the tool's result."""


async def compare_revisions(
    server: ServerTarget, tool: str, texts: Sequence[str], base: str | None, *, is_confirmed: bool
) -> int:
    """Call a tool in each revision that the server supports, and write the results, equal ones together.

    Args:
        server: The target; it has handlers.
        tool: The name of the tool.
        texts: The arguments on the command line.
        base: The option `--args`.
        is_confirmed: Whether the tool may be called several times though it is neither read-only nor idempotent.

    Returns:
        The exit status.

    Raises:
        CommandError: The tool or an argument is unknown, or the tool must not be called twice.
    """
    assert server.handlers is not None
    results: dict[str, Json] = {}
    unsupported: dict[str, str] = {}
    async with server.client() as client:
        definition = await find_tool(client, tool)
        hints = object_at(definition, "annotations")
        if True not in (hints.get("readOnlyHint"), hints.get("idempotentHint"), is_confirmed):
            raise CommandError(
                f"tool {tool} is not annotated as read-only or idempotent, and --all-revisions calls it up to "
                f"{len(ALL)} times. Add --yes to call it anyway"
            )
        arguments = parse_arguments(tool, object_at(definition, "inputSchema"), texts, base)
        if len(servers_of(client)) > 1:
            raise CommandError(
                "--all-revisions works with one server, and the configuration has several. "
                "Name one, for example FILE.json:NAME"
            )
        newest = client.protocol_version
        results[newest] = await _call(client, server.handlers, definition, arguments)
    for revision in ALL:
        if revision == newest:
            continue
        try:
            async with server.client(protocol_version=revision) as client:
                if client.protocol_version != revision:
                    unsupported[revision] = client.protocol_version_reason
                else:
                    results[revision] = await _call(client, server.handlers, definition, arguments)
        except AuthorizationError:
            raise
        except (ProtocolError, StatusError) as error:
            if isinstance(error, ProtocolError) and error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            unsupported[revision] = str(error)
    _write_comparison(results, unsupported, is_json=server.is_json)
    is_error = any(
        result.get("isError") is True or "error" in result or "schema mismatch" in result
        for result in results.values()
    )
    return Status.TOOL_ERROR if is_error else Status.DONE


async def _call(
    client: Client, handlers: InteractiveHandlers, definition: Mapping[str, object], arguments: Json
) -> Json:
    """Return the result of a call, or its error as an object."""
    try:
        result = await call_tool(client, definition, arguments, progress=handlers.progress)
    except InvalidResultError as error:
        return {**error.result.raw, "schema mismatch": str(error)}
    except ProtocolError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    return result.raw


def _canonical_json(result: Json) -> str:
    """Return the JSON of a result, sorted and without the members of its revision."""
    own = {name: value for name, value in result.items() if name not in _REVISION_MEMBERS}
    if own.get("isError") is False:  # the default
        del own["isError"]
    return json.dumps(own, indent=2, sort_keys=True, ensure_ascii=False)


def _write_comparison(results: dict[str, Json], unsupported: dict[str, str], *, is_json: bool) -> None:
    revisions_by_result: dict[str, list[str]] = {}
    for revision in ALL:
        if revision in results:
            revisions_by_result.setdefault(_canonical_json(results[revision]), []).append(revision)
    if is_json:
        groups = [
            {"revisions": revisions, "result": json.loads(result)}
            for result, revisions in revisions_by_result.items()
        ]
        write_json({"results": groups, "unspoken": unsupported})
        return
    for revision, reason in unsupported.items():
        write_stderr(f"the server does not support revision {revision}: {reason}")
    (first, first_revisions), *others = revisions_by_result.items()
    write(f"{', '.join(first_revisions)}:\n{first}")
    for result, revisions in others:
        diff = list(difflib.unified_diff(first.splitlines(), result.splitlines(), n=1, lineterm=""))
        write("\n".join([f"{', '.join(revisions)}: differs from {first_revisions[0]}", *diff[2:]]))
    if not others and len(first_revisions) > 1:
        write_stderr(f"all {len(first_revisions)} results are the same")
