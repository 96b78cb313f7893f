"""Handles of tasks in both generations, over memory and HTTP, and in `SyncClient` and `ClientGroup`."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import Client, ClientGroup, Context, Server, SyncClient, Task
from mcpkit.client import TaskHandle
from mcpkit.exceptions import InvalidResultError, ProtocolError, ToolError
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered

GENERATIONS = ["2025-11-25", "2026-07-28"]


@dataclass
class Report:
    pages: int


class Work:
    """A server with tools that run as tasks, and the events that they wait for."""

    def __init__(self) -> None:
        self.server = Server("work")
        self.may_end = asyncio.Event()

        @self.server.tool(task=True)
        async def write(pages: int) -> Report:
            """Write a report."""
            return Report(pages)

        @self.server.tool(task=True)
        async def wait(ctx: Context) -> str:
            """Wait."""
            await ctx.report_progress(1, message="waiting")
            await self.may_end.wait()
            return "done"

        @self.server.tool(task=True)
        async def ask(ctx: Context) -> str:
            """Ask the user."""
            answer = await ctx.elicit("Sure?", bool)
            return f"{answer.action} {answer.value if answer else None}"

        @self.server.tool(task=True)
        async def fail() -> str:
            """Fail."""
            raise ToolError("no paper")

        @self.server.tool(task=Task(required=True))
        async def only_task() -> str:
            """Run as a task only."""
            return "task"

        @self.server.tool
        async def plain() -> str:
            """Run without a task."""
            return "plain"


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture(params=["memory", "http"])
def target(request: pytest.FixtureRequest, work: Work) -> Any:
    return work.server if request.param == "memory" else work.server.asgi()


@pytest.fixture(params=GENERATIONS)
def connect(request: pytest.FixtureRequest, target: Any) -> Callable[..., Client]:
    def connect(**options: Any) -> Client:
        return Client(target, protocol_version=request.param, **options)

    return connect


async def test_task_result_is_call_result(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("write", {"pages": 3}, task=True)
        assert isinstance(handle, TaskHandle)
        assert isinstance(handle.id, str)
        assert (await handle.result()).structured_content == {"pages": 3}
        status = await handle.status()
        assert (status.state, status.is_over, status.raw["taskId"]) == ("completed", True, handle.id)


async def test_task_result_type_converts_result(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("write", {"pages": 3}, task=True, result_type=Report)
        assert await handle.result() == Report(3)
        wrong = await client.call_tool("write", {"pages": 3}, task=True, result_type=int)
        with pytest.raises(InvalidResultError, match="the result of write cannot be read as int"):
            await wrong.result()


async def test_task_is_picked_up_by_id_in_another_client(work: Work, connect: Callable[..., Client]) -> None:
    async with connect() as client, connect() as other:
        handle = await client.call_tool("wait", task=True)
        assert handle.id is not None
        again = other.task(handle.id)
        assert (await again.status()).state == "working"
        work.may_end.set()
        assert (await again.result()).text == "done"


async def test_task_events_are_status_changes_until_end(work: Work, connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("wait", task=True)
        states: list[str] = []
        async for status in handle.events():
            states.append(status.state)
            work.may_end.set()
        assert states[0] == "working"
        assert states[-1] == "completed"
        assert states.count("completed") == 1
        assert (await handle.result()).text == "done"


async def test_task_cancel_ends_task_without_result(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("wait", task=True)
        await handle.cancel()
        assert [status.state async for status in handle.events()] == ["cancelled"]
        with pytest.raises(ProtocolError, match="cancelled"):
            await handle.result()


@pytest.mark.parametrize("method", ["result", "events"])
async def test_task_input_requests_go_to_handlers_once(connect: Callable[..., Client], method: str) -> None:
    forms: list[str] = []

    def fill_in(form: Any) -> bool:
        forms.append(form.message)
        return True

    async with connect(elicitation_handler=fill_in) as client:
        handle = await client.call_tool("ask", task=True)
        if method == "events":
            states = [status.state async for status in handle.events()]
            assert states[-1] == "completed"
        assert (await handle.result()).text == "accept True"
        assert forms == ["Sure?"]


async def test_task_result_and_events_at_once_call_handler_once(connect: Callable[..., Client]) -> None:
    forms: list[str] = []

    async def fill_in(form: Any) -> bool:
        forms.append(form.message)
        await asyncio.sleep(0)
        return True

    async def states(handle: TaskHandle[Any]) -> list[str]:
        return [status.state async for status in handle.events()]

    async with connect(elicitation_handler=fill_in) as client:
        handle = await client.call_tool("ask", task=True)
        result, seen = await asyncio.gather(handle.result(), states(handle))
        assert result.text == "accept True"
        assert seen[-1] == "completed"
        assert forms == ["Sure?"]


async def test_task_of_failed_tool_has_error_result(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("fail", task=True)
        result = await handle.result()
        assert (result.is_error, result.error_text) == (True, "no paper")
        typed = await client.call_tool("fail", task=True, result_type=str)
        with pytest.raises(ToolError, match="no paper"):
            await typed.result()


async def test_task_unknown_id_is_protocol_error(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = client.task("missing")
        for request in (handle.status, handle.result, handle.cancel):
            with pytest.raises(ProtocolError) as raised:
                await request()
            assert raised.value.code == -32602


async def test_task_of_tool_without_tasks_has_result_at_once(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("plain", task=True)
        assert handle.id is None
        assert [status.state async for status in handle.events()] == ["completed"]
        assert (await handle.result()).text == "plain"
        await handle.cancel()


async def test_task_true_calls_tool_that_requires_task(connect: Callable[..., Client]) -> None:
    async with connect() as client:
        with pytest.raises(ProtocolError):
            await client.call_tool("only_task")
        assert (await (await client.call_tool("only_task", task=True)).result()).text == "task"


async def test_task_true_is_plain_call_in_versions_without_tasks(target: Any) -> None:
    async with Client(target, protocol_version="2025-06-18") as client:
        handle = await client.call_tool("write", {"pages": 1}, task=True, result_type=Report)
        assert handle.id is None
        assert await handle.result() == Report(1)


async def test_task_cancelled_wait_leaves_task_running(work: Work, connect: Callable[..., Client]) -> None:
    async with connect() as client:
        handle = await client.call_tool("wait", task=True)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handle.result(), 0.05)
        assert (await handle.status()).state == "working"
        work.may_end.set()
        assert (await handle.result()).text == "done"


async def test_task_progress_callback_gets_progress_of_2025_11_25(work: Work) -> None:
    seen: list[Any] = []

    def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, message))
        work.may_end.set()

    async with Client(work.server, protocol_version="2025-11-25") as client:
        handle = await client.call_tool("wait", task=True, progress=on_progress)
        assert (await handle.result()).text == "done"
    assert seen == [(1, "waiting")]


async def test_call_without_task_does_not_declare_tasks(work: Work) -> None:
    async with Client(work.server) as client:
        result = await client.call_tool("write", {"pages": 2})
        assert (result.type, result.structured_content) == ("complete", {"pages": 2})


@pytest.mark.parametrize("version", GENERATIONS)
def test_sync_client_task(version: str) -> None:
    server = Server("sync")

    @server.tool(task=True)
    async def write(pages: int) -> Report:
        """Write a report."""
        return Report(pages)

    with SyncClient(server, protocol_version=version) as client:
        handle = client.call_tool("write", {"pages": 3}, task=True, result_type=Report)
        assert [status.state for status in handle.events()][-1] == "completed"
        assert handle.result() == Report(3)
        assert handle.status().is_over
        assert handle.id is not None
        again = client.task(handle.id, result_type=Report)
        assert again.result() == Report(3)
        assert repr(again) == f"SyncTaskHandle({handle.id!r})"


async def test_client_group_task(work: Work) -> None:
    work.may_end.set()
    async with ClientGroup({"mcpServers": {"a": work.server, "b": Server("b")}}) as group:
        handle = await group.call_tool("a_wait", task=True)
        assert (await handle.result()).text == "done"
        assert handle.id is not None
        with pytest.raises(ValueError, match=r"client.servers\['a'\].task"):
            group.task(handle.id)
        assert (await group.servers["a"].task(handle.id).result()).text == "done"


# Answers of other servers


@pytest.mark.parametrize(("created", "task", "message"), [
    ({"taskId": 7}, {}, "malformed: expected a string as taskId"),
    ({"taskId": "a"}, {"taskId": "a", "status": "odd"}, "malformed: expected a known status"),
    ({"taskId": "a"}, {"taskId": "a", "status": "completed"}, "ended without a result; its status is 'completed'"),
    ({"taskId": "a"}, {"taskId": "a", "status": "failed", "error": {"code": -7, "message": "no ink"}}, "no ink"),
])  # fmt: skip
async def test_task_of_other_server_without_result_is_protocol_error(
    created: dict[str, Any], task: dict[str, Any], message: str
) -> None:
    def respond(transport: ScriptedTransport, request: Message) -> list[Message]:
        if request["method"] == "server/discover":
            return [discovered(request)]
        members = {"resultType": "task", **created} if request["method"] == "tools/call" else task
        return [{"jsonrpc": "2.0", "id": request["id"], "result": members}]

    async with Client(ScriptedTransport(respond)) as client:
        with pytest.raises(ProtocolError, match=message):
            await (await client.call_tool("any", task=True)).result()
