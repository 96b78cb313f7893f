"""What a function has of its request and of its server when it is run as a task, and who hears of what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import pytest

from mcpkit import (
    CallTimeoutError,
    Context,
    Depends,
    Failure,
    FromHeader,
    LogHandler,
    RegistrationError,
    Server,
    Sqlite,
    Task,
    Tasks,
    ToolError,
    current_context,
)
from mcpkit.common.errors import OutputError
from mcpkit.middleware import CallTool, ToolCall, ToolCallResult
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, begin, look, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("work", offers={"logging"})


def find_tenant(name: Annotated[str | None, FromHeader("X-Tenant")]) -> str:
    return f"tenant {name}"


def read_clock() -> str:
    return "real"


async def done(server: Server, tool: str, **options: Any) -> dict[str, Any]:
    """Have a tool run as a task, and return what it has come to."""
    async with connect(server, capabilities=KNOWS_TASKS, **options) as client:
        return await until(client, await begin(client, tool), "completed", "failed")


def text(task: dict[str, Any]) -> str:
    said: str = task["result"]["content"][0]["text"]
    return said


async def test_headers_that_fill_parameters_are_there_in_the_run(server: Server) -> None:
    @server.tool(task=True)
    async def book(
        tenant: Annotated[str, Depends(find_tenant)],
        language: Annotated[str, FromHeader("Accept-Language")] = "en",
        missing: Annotated[str, FromHeader("X-Missing")] = "none",
    ) -> str:
        return f"{tenant}, {language}, {missing}"

    headers = {"x-tenant": "acme", "accept-language": "pt", "x-other": "not kept"}
    assert text(await done(server, "book", headers=headers)) == "tenant acme, pt, none"


async def test_other_headers_are_not_kept(server: Server) -> None:
    @server.tool(task=True)
    async def show(ctx: Context, tenant: Annotated[str | None, FromHeader("X-Tenant")]) -> list[str]:
        return sorted(ctx.headers)

    headers = {"x-tenant": "acme", "authorization": "Bearer secret"}
    assert (await done(server, "show", headers=headers))["result"]["structuredContent"] == ["x-tenant"]


@pytest.mark.parametrize("name", ["Authorization", "cookie", "DPoP"])
async def test_headers_that_say_who_asks_are_refused(server: Server, name: str) -> None:
    def session(value: str | None = FromHeader(name)) -> str | None:
        return value

    def work(who: str | None = Depends(session)) -> None: ...

    server.tool(work)
    with pytest.raises(RegistrationError, match=rf"tool 'task': a task keeps no credentials.*{name.lower()}"):
        server.tool(work, name="task", task=True)


async def test_numbers_of_progress_are_told_in_words(server: Server) -> None:
    goes_on = asyncio.Event()

    @server.tool(task=True)
    async def count(total: float | None, ctx: Context) -> None:
        await ctx.progress(2500, total)
        await goes_on.wait()

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        for total, message in [(10_000, "2,500 of 10,000"), (2500.5, "2,500 of 2,500.5"), (None, "2,500")]:
            goes_on.clear()
            task = await begin(client, "count", {"total": total})
            while (seen := await look(client, task)).get("statusMessage") != message:
                assert seen["status"] == "working"
                await asyncio.sleep(0.005)
            goes_on.set()
            await until(client, task, "completed")


async def test_a_time_out_is_told_to_error_hooks(server: Server) -> None:
    heard: list[Failure] = []
    server.on_error(heard.append)

    @server.tool(task=Task(timeout=0.01))
    async def endless() -> None:
        await asyncio.Event().wait()

    failed = await done(server, "endless")
    assert failed["error"] == {"code": -32603, "message": "The task timed out after 0.01 s"}
    assert [type(each.exception) for each in heard] == [CallTimeoutError]


async def test_an_error_hook_says_what_is_read_of_a_time_out(server: Server) -> None:
    @server.on_error
    def explain(failure: Failure) -> ToolError:
        return ToolError("Take a smaller one")

    @server.tool(task=Task(timeout=0.01))
    async def endless() -> None:
        await asyncio.Event().wait()

    assert (await done(server, "endless"))["error"]["message"] == "Take a smaller one"


async def test_a_result_that_is_too_large_is_told(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Failure] = []
    server.on_error(heard.append)

    @server.tool(task=True, structured=False)
    async def large() -> str:
        return "x" * 9_000_000

    failed = await done(server, "large")
    assert failed["error"]["code"] == -32603
    assert "the tool ran, but its record would have 9,000," in failed["error"]["message"]
    assert [type(each.exception) for each in heard] == [OutputError]
    assert any("the tool ran, but its record" in record.getMessage() for record in caplog.records)


async def test_what_is_only_for_who_waits_for_an_answer_is_dropped(server: Server) -> None:
    logger = logging.getLogger("test_what_is_only_for")
    logger.setLevel(logging.DEBUG)
    handler = LogHandler()
    logger.addHandler(handler)

    @server.tool(task=True)
    async def chat(ctx: Context) -> str:
        logger.info("heard by the log alone")
        await ctx.log("error", "heard by nobody")
        await ctx.notify("notifications/com.example/said", {})
        await ctx.close_stream()
        assert current_context() == ctx
        return "done"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        finished = await until(client, await begin(client, "chat"), "completed")
        assert text(finished) == "done"
        assert client.notifications == []
    logger.removeHandler(handler)


async def test_what_is_asked_for_in_vain_is_said(server: Server) -> None:
    @server.tool(task=True)
    async def write(ctx: Context) -> None:
        ctx.require("notes:write")

    assert (await done(server, "write"))["result"]["isError"] is True


async def test_what_middleware_says_of_the_call_is_there_in_the_run(server: Server) -> None:
    tenant: ContextVar[str] = ContextVar("tenant")
    seen: list[str] = []

    @server.middleware
    async def set_tenant(request: Any, call_next: Any) -> Any:
        tenant.set("acme")
        result = await call_next(request)
        seen.append(f"{request.method} {result.type} {result.get('status')}")
        return result

    @server.middleware("tools/call")
    async def shorten(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        return await call_next(call.with_arguments({"n": min(call.arguments["n"], 3)}))

    @server.tool(task=True)
    def count(n: int) -> str:
        return f"{n} of {tenant.get()}"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "count", {"n": 50})
        finished = await until(client, task, "completed")
    assert text(finished) == "3 of acme"
    assert seen[1] == "tools/call task working"
    assert "tools/call complete None" in seen
    assert seen[-1] == "tasks/get complete completed"


async def test_dependencies_are_overridden_and_the_time_of_plain_calls_is_not_that_of_tasks(
    server: Server,
) -> None:
    @server.tool(task=True, timeout=0.01)
    async def tell(clock: Annotated[str, Depends(read_clock)]) -> str:
        await asyncio.sleep(0.05)
        return clock

    with server.override(read_clock, lambda: "fake"):
        assert text(await done(server, "tell")) == "fake"
    async with connect(server) as client:
        assert (await client.call("tell")).text == "timed out after 0.01 s"


async def test_what_encrypts_tasks_that_outlive_the_process_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    server = Server("work", secret="a secret of sixteen and more", shared=Sqlite(tmp_path / "work.db"))

    @server.tool(task=True)
    def work() -> None: ...

    with pytest.raises(
        ImportError, match=r"tasks that outlive the process are encrypted.*pip install .*\[crypto\]"
    ):
        async with connect(server):
            pass


@pytest.mark.parametrize("tasks", ["workers", Tasks(by="workers")])
def test_workers_need_what_they_share_with_the_server(tasks: Any) -> None:
    with pytest.raises(ValueError, match=r"say where they are, as in shared=Sqlite"):
        Server("work", tasks=tasks)
