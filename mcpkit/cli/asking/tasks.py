"""Calls that become tasks: looked at until they have ended, and cancelled where nobody waits any more.

The extension io.modelcontextprotocol/tasks; in 2025-11-25 a part of the revision, for tools that insist on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ...client.asking.questions import Questions
from ...client.client import Client
from ...client.group import servers_of
from ...client.link.results import CallResult
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import STATELESS, TASKS, TASKS_IN_CORE

_PAUSE: Final = 1.0
"""Seconds between two polls of a task without `pollInterval`."""

_SHORTEST: Final = 0.02
_FAREWELL: Final = 2.0
"""Seconds that `tasks/cancel` may take at the end."""

Tell = Callable[[str], object]
"""Receives the status messages of a task."""


class Answers(Questions):
    """Answers what a server asks, and lets it make tasks of calls."""

    def capabilities(self, revision: str) -> Json:
        """Return what the client declares in a revision."""
        declared = super().capabilities(revision)
        return {**declared, "extensions": {TASKS: {}}} if revision in STATELESS else declared


def insists(client: Client, definition: Mapping[str, object]) -> bool:
    """Say whether a tool is called as a task alone, in the words of 2025-11-25."""
    execution: object = definition.get("execution")
    is_of_revision = len(servers_of(client)) == 1 and client.protocol_version == TASKS_IN_CORE
    return is_of_revision and is_object(execution) and execution.get("taskSupport") == "required"


async def called_as_task(client: Client, tool: str, arguments: Json, tell: Tell) -> CallResult:
    """Call a tool that insists on it as a task, in 2025-11-25, and wait for its result.

    Raises:
        ProtocolError: The server has answered with an error.
    """
    created = await client.request("tools/call", {"name": tool, "arguments": arguments, "task": {}})
    task: object = created.get("task")
    if not is_object(task):
        return CallResult(created, may_be_null=False)
    asked: Json = {"taskId": task.get("taskId")}
    told = asyncio.ensure_future(_told(client, asked, task, tell))
    try:
        return CallResult(await client.request("tasks/result", asked), may_be_null=False)
    except asyncio.CancelledError:
        await _cancel(client, asked)
        raise
    finally:
        told.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await told


async def followed(client: Client, answers: Questions, task: Json, tell: Tell) -> CallResult:
    """Wait for the result of a task that a call has become, and answer what it asks.

    Args:
        client: The client of its server.
        answers: What answers its questions.
        task: The result of the call.
        tell: Is told what the task says of itself.

    Raises:
        ProtocolError: It has failed, or was cancelled.
    """
    asked: Json = {"taskId": task.get("taskId")}
    answered: set[str] = set()
    try:
        while True:
            status = task.get("status")
            if status == "completed" and is_object(result := task.get("result")):
                return CallResult(result)
            if status not in ("working", "input_required"):
                raise _failure(task)
            tell(str(task.get("statusMessage") or ""))
            questions: object = task.get("inputRequests")
            open_ones = questions if is_object(questions) else {}
            responses: Json = {}
            for key, question in open_ones.items():
                if key not in answered:
                    responses[key] = await answers.answer(question["method"], question.get("params", {}))
            if responses:
                answered |= responses.keys()
                await client.request("tasks/update", {**asked, "inputResponses": responses})
            else:
                await asyncio.sleep(_pause(task.get("pollIntervalMs")))
            task = await client.request("tasks/get", asked)
    except asyncio.CancelledError:
        await _cancel(client, asked)
        raise


async def _told(client: Client, asked: Json, task: Json, tell: Tell) -> None:
    """Tell what a task says of itself, until it has ended."""
    while task.get("status") in ("working", "input_required"):
        tell(str(task.get("statusMessage") or ""))
        await asyncio.sleep(_pause(task.get("pollInterval")))
        task = await client.request("tasks/get", asked)


async def _cancel(client: Client, asked: Json) -> None:
    with suppress(ProtocolError, OSError, asyncio.TimeoutError):
        await asyncio.wait_for(client.request("tasks/cancel", asked), _FAREWELL)


def _pause(milliseconds: object) -> float:
    return max(milliseconds / 1000, _SHORTEST) if isinstance(milliseconds, int | float) else _PAUSE


def _failure(task: Json) -> ProtocolError:
    error: object = task.get("error")
    if is_object(error):
        return ProtocolError(
            int(error.get("code", INTERNAL_ERROR)), str(error.get("message")), error.get("data")
        )
    return ProtocolError(
        INTERNAL_ERROR, f"the task ended without a result; its status is {task.get('status')!r}"
    )
