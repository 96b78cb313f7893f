"""Calls of tools by name, with progress; calls that become tasks are polled until the task has ended.

Tasks are those of the extension io.modelcontextprotocol/tasks. In 2025-11-25 they are part of the revision, for tools
that require them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from .._utils.exceptions import INTERNAL_ERROR, ProtocolError
from .._utils.option_checks import nearest
from ..client.asking.questions import Questions
from ..client.call_results import CallResult
from ..client.client import Client
from ..client.group import failures_of, servers_of
from ..protocol.jsonrpc import Json, is_object
from ..protocol.objects import ToolDefinition
from ..protocol.revisions import STATELESS, TASKS, TASKS_IN_CORE
from .console import ProgressDisplay
from .exit_status import CommandError, Status

_POLL_INTERVAL: Final = 1.0
"""Seconds between two polls of a task without `pollInterval`."""

_MIN_POLL_INTERVAL: Final = 0.02
_CANCEL_TIMEOUT: Final = 2.0
"""Seconds to wait for the response to `tasks/cancel` when the command is interrupted."""

ShowStatus = Callable[[str], object]
"""Shows the status message of a task."""


class TaskRequestHandler(Questions):
    """Handles requests from the server, and declares that calls may become tasks."""

    def capabilities(self, revision: str) -> Json:
        """Return the client's capabilities for a revision."""
        capabilities = super().capabilities(revision)
        return {**capabilities, "extensions": {TASKS: {}}} if revision in STATELESS else capabilities


# Tools by name


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
    client: Client,
    tool: Mapping[str, object],
    arguments: Json,
    *,
    progress: ProgressDisplay,
    handler: TaskRequestHandler | None,
) -> CallResult:
    """Call a tool, and wait for the result of its task if the call becomes one.

    Args:
        client: The client.
        tool: The definition of the tool.
        arguments: The arguments.
        progress: Shows progress notifications and the status messages of tasks.
        handler: Handles requests of a task; None with several servers, as their calls do not become tasks.

    Raises:
        InvalidResultError: The result does not match the output schema.
        ProtocolError: The server responded with an error, or the task failed.
    """
    name, execution = str(tool.get("name")), tool.get("execution")
    requires_task = (
        len(servers_of(client)) == 1
        and client.protocol_version == TASKS_IN_CORE
        and is_object(execution)
        and execution.get("taskSupport") == "required"
    )
    try:
        if requires_task:
            return await _call_as_task(client, name, arguments, progress.show_status)
        result = await client.call_tool(name, arguments, progress=progress.show_progress)
        if result.type == "task" and handler is not None:
            return await _wait_for_task(client, handler, result.raw, progress.show_status)
        return result
    finally:
        progress.close()


# Tasks


async def _call_as_task(client: Client, name: str, arguments: Json, show_status: ShowStatus) -> CallResult:
    """Call a tool as a task of 2025-11-25. `tasks/result` waits for the result, while the status is polled."""
    created = await client.request("tools/call", {"name": name, "arguments": arguments, "task": {}})
    task: object = created.get("task")
    if not is_object(task):
        return CallResult(created, may_be_null=False)
    params: Json = {"taskId": task.get("taskId")}
    polling = asyncio.ensure_future(_poll_status(client, params, task, show_status))
    try:
        return CallResult(await client.request("tasks/result", params), may_be_null=False)
    except asyncio.CancelledError:
        await _cancel(client, params)
        raise
    finally:
        polling.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await polling


async def _poll_status(client: Client, params: Json, task: Json, show_status: ShowStatus) -> None:
    while task.get("status") in ("working", "input_required"):
        show_status(str(task.get("statusMessage") or ""))
        await asyncio.sleep(_seconds(task.get("pollInterval")))
        task = await client.request("tasks/get", params)


async def _wait_for_task(
    client: Client, handler: Questions, task: Json, show_status: ShowStatus
) -> CallResult:
    """Poll a task of the extension until it has ended, and respond to its input requests."""
    params: Json = {"taskId": task.get("taskId")}
    handled: set[str] = set()
    try:
        while True:
            status = task.get("status")
            if status == "completed" and is_object(result := task.get("result")):
                return CallResult(result)
            if status not in ("working", "input_required"):
                raise _task_error(task)
            show_status(str(task.get("statusMessage") or ""))
            requests: object = task.get("inputRequests")
            responses: Json = {}
            for key, request in requests.items() if is_object(requests) else ():
                if key not in handled:
                    responses[key] = await handler.answer(request["method"], request.get("params", {}))
            if responses:
                handled |= responses.keys()
                await client.request("tasks/update", {**params, "inputResponses": responses})
            else:
                await asyncio.sleep(_seconds(task.get("pollIntervalMs")))
            task = await client.request("tasks/get", params)
    except asyncio.CancelledError:
        await _cancel(client, params)
        raise


async def _cancel(client: Client, params: Json) -> None:
    with suppress(ProtocolError, OSError, asyncio.TimeoutError):
        await asyncio.wait_for(client.request("tasks/cancel", params), _CANCEL_TIMEOUT)


def _seconds(milliseconds: object) -> float:
    if not isinstance(milliseconds, int | float):
        return _POLL_INTERVAL
    return max(milliseconds / 1000, _MIN_POLL_INTERVAL)


def _task_error(task: Json) -> ProtocolError:
    error: object = task.get("error")
    if is_object(error):
        code = int(error.get("code", INTERNAL_ERROR))
        return ProtocolError(code, str(error.get("message")), error.get("data"))
    return ProtocolError(
        INTERNAL_ERROR, f"the task ended without a result; its status is {task.get('status')!r}"
    )
