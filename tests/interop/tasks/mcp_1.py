"""The official Python SDK 1.x as a client: `mcp_1.py JOURNEY stdio COMMAND ARGUMENT... | http URL TOKEN`.

It runs in an environment of its own, and prints what it saw as one JSON object.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import (
    CallToolResult,
    ElicitResult,
    Implementation,
    ServerNotification,
    TaskStatusNotification,
)

RELATED = "io.modelcontextprotocol/related-task"


class Person:
    """Whoever is asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.related: list[Any] = []
        self.heard = anyio.Event()
        self.is_at_a_pipe = False

    async def hear(self, message: Any) -> None:
        """Note that a task is said to be cancelled."""
        told = message.root if isinstance(message, ServerNotification) else None
        if isinstance(told, TaskStatusNotification) and told.params.status == "cancelled":
            self.heard.set()

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        meta = params.meta.model_dump() if params.meta else {}
        self.related.append(meta.get(RELATED, {}).get("taskId"))
        entry = self.answers[params.message]
        return (
            ElicitResult(action=entry)
            if isinstance(entry, str)
            else ElicitResult(action="accept", content=entry)
        )


def told(result: CallToolResult) -> dict[str, Any]:
    return {"text": result.content[0].text, "isError": result.isError}


def refusal(error: McpError) -> dict[str, Any]:
    return {"code": error.error.code, "message": error.error.message}


async def call(
    session: ClientSession, person: Person, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Call a tool as a task, and wait for what comes of it."""
    person.asked, person.related = [], []
    made = (await session.experimental.call_tool_as_task(name, arguments)).task
    async for state in session.experimental.poll_task(made.taskId):
        if state.status == "input_required":  # which is asked on the stream of the request for the result
            break
    met: dict[str, Any] = {"of": None}
    try:
        result = await session.experimental.get_task_result(made.taskId, CallToolResult)
        met |= told(result) | {"of": (result.meta or {}).get(RELATED, {}).get("taskId") == made.taskId}
    except McpError as error:
        met["error"] = refusal(error)
    met["status"] = (await session.experimental.get_task(made.taskId)).status
    met["asked"] = person.asked
    met["related"] = [each and each == made.taskId for each in person.related]
    return met


async def train(session: ClientSession) -> dict[str, Any]:
    """Hear of progress with the token of the call that made the task."""
    progress: list[float] = []
    heard = anyio.Event()

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)
        if done == total:
            heard.set()

    token = "progress of the training"
    session._progress_callbacks[token] = hear  # this client keeps none for a task
    made = await session.experimental.call_tool_as_task("train", {"epochs": 3}, meta={"progressToken": token})
    await heard.wait()
    await session.call_tool("stop_training")
    result = await session.experimental.get_task_result(made.task.taskId, CallToolResult)
    return {"progress": progress, **told(result)}


async def visit(session: ClientSession, person: Person, calls: dict[str, Any]) -> dict[str, Any]:
    begun = await session.initialize()
    tools = (await session.list_tools()).tools
    seen: dict[str, Any] = {"revision": begun.protocolVersion, "calls": {}}
    seen["capabilities"] = begun.capabilities.model_dump(exclude_none=True).get("tasks")
    seen["support"] = {tool.name: tool.execution and tool.execution.taskSupport for tool in tools}
    for name, arguments in calls.items():
        if seen["support"][name] is None:
            result = await session.call_tool(name, arguments)
            seen["calls"][name] = told(result) | {"status": None, "asked": [], "related": [], "of": None}
        else:
            seen["calls"][name] = await call(session, person, name, arguments)
    seen["trained"] = await train(session)
    tasks = session.experimental
    held = (await tasks.call_tool_as_task("hold", {})).task.taskId
    seen["cancel"] = (await tasks.cancel_task(held)).status
    if person.is_at_a_pipe:  # there this client fails where it hears something while it leaves
        await person.heard.wait()
    seen["stopped"] = told(await session.call_tool("was_stopped"))["text"]
    for what, asked in {
        "again": lambda: tasks.cancel_task(held),
        "awaited": lambda: tasks.get_task_result(held, CallToolResult),
        "unknown": lambda: tasks.get_task("nobody-has-seen-this"),
        "plain": lambda: session.call_tool("train", {"epochs": 1}),
    }.items():
        try:
            seen[what] = (await asked()).model_dump(mode="json")
        except McpError as error:
            seen[what] = refusal(error)
    try:
        seen["listed"] = len((await tasks.list_tasks()).tasks)
    except McpError as error:
        seen["listed"] = refusal(error)
    return seen


async def main() -> None:
    journey, kind, *target = sys.argv[1:]
    known = json.loads(journey)
    person = Person(known["answers"])
    async with AsyncExitStack() as stack:
        if kind == "stdio":
            person.is_at_a_pipe = True
            way = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
        else:
            way = streamablehttp_client(target[0], headers={"authorization": f"Bearer {target[1]}"})
        read, write, *_ = await stack.enter_async_context(way)
        who = Implementation(name="mcp", version="1")
        options = {"elicitation_callback": person.elicit, "message_handler": person.hear}
        session = ClientSession(read, write, client_info=who, **options)
        await stack.enter_async_context(session)
        with anyio.fail_after(60):
            print(json.dumps(await visit(session, person, known["calls"])))


if __name__ == "__main__":
    anyio.run(main)
