"""Tasks as a client of 2025-11-25 uses them, in validated messages."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Principal, Server, Task
from tests.helpers.pipe import Pipe, open_pipe

REVISION = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"
ADA, BOB = Principal("ada"), Principal("bob")

OpenPipe = Callable[..., AbstractAsyncContextManager[Pipe]]


def pipe_opener(folder: Path) -> OpenPipe:
    """Return a function that opens a checked pipe: `async with open_judged(server, ADA) as pipe`."""

    def open_judged(
        server: Server,
        principal: Principal = ADA,
        revision: str = REVISION,
        capabilities: dict[str, Any] | None = None,
    ) -> AbstractAsyncContextManager[Pipe]:
        can = {"elicitation": {}} if capabilities is None else capabilities
        return open_pipe(server, revision, folder, principal=principal, capabilities=can)

    return open_judged


@asynccontextmanager
async def working(pipe: Pipe, tool: str, **arguments: Any) -> AsyncIterator[str]:
    """Have a task made, and cancel it at the end where it has not ended."""
    id_ = (await begin(pipe, tool, arguments))["taskId"]
    yield id_
    await pipe.request("tasks/cancel", {"taskId": id_})


async def begin(
    pipe: Pipe, tool: str, arguments: dict[str, Any] | None = None, **meta: Any
) -> dict[str, Any]:
    """Call a tool as a task, and return the task."""
    params = {"name": tool, "arguments": arguments or {}, "task": {}}
    result = await pipe.result("tools/call", params, **meta)
    assert result.keys() == {"task"}
    task: dict[str, Any] = result["task"]
    return task


async def get_task(pipe: Pipe, id_: str) -> dict[str, Any]:
    return await pipe.result("tasks/get", {"taskId": id_})


async def ended(pipe: Pipe, id_: str) -> dict[str, Any]:
    """Wait for the end of a task by its result, and return the task."""
    await pipe.request("tasks/result", {"taskId": id_})
    return await get_task(pipe, id_)


def server_of(*functions: Any, task: Task | bool = True, **options: Any) -> Server:
    server = Server("lab", **options)
    for function in functions:
        server.tool(function, task=task)
    return server
