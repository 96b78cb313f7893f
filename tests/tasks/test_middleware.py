"""What middleware sees of tasks: the call that becomes one, each run of it, and what is asked about it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcpkit import Context, Server, Task, ToolError
from mcpkit.middlewares import AccessLog, RateLimit, SizeLimit
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, until

pytestmark = pytest.mark.anyio


def make_server() -> tuple[Server, list[Any]]:
    server = Server("lab")
    seen: list[Any] = []

    @server.middleware("tools/call")
    async def redact(request: Any, call_next: Any) -> Any:
        result = await call_next(request)
        seen.append((request.ctx.task_id, result.type))
        for block in result.content:
            block["text"] = block["text"].replace("secret", "******")
        return result

    @server.tool(task=Task(rerun="safe"), structured=False)
    async def tell(ctx: Context) -> str:
        await ctx.elicit("Sure?", bool)
        return "a secret"

    @server.tool(task=True)
    def fail() -> None:
        raise ToolError("a secret failed")

    return server, seen


async def test_a_run_passes_through_it_and_what_it_changes_is_what_clients_get() -> None:
    server, seen = make_server()
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "tell")
        await until(client, task, "input_required")
        await answer(client, task, **{"#1": True})
        done = await until(client, task, "completed")
        assert done["result"]["content"][0]["text"] == "a ******"
        assert seen == [(None, "task"), (task["taskId"], "complete")]
        failed = await until(client, await begin(client, "fail"), "completed")
        assert failed["result"]["content"][0]["text"] == "a ****** failed"
        assert failed["result"]["isError"] is True


async def test_what_refuses_a_call_makes_no_task() -> None:
    server = Server("lab")

    @server.middleware("tools/call")
    async def refuse(request: Any, call_next: Any) -> Any:
        raise ToolError("no")

    @server.tool(task=Task(required=True))
    def work() -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        answered = await begin(client, "work")
        assert (answered["resultType"], answered["isError"]) == ("complete", True)


async def test_a_rate_limit_counts_the_call_and_not_its_runs() -> None:
    server = Server("lab")
    server.middleware(RateLimit(0.001, burst=2))

    @server.tool(task=True)
    def work() -> str:
        return "done"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        for _ in range(2):
            done = await until(client, await begin(client, "work"), "completed")
            assert "isError" not in done["result"]


async def test_a_limit_for_results_lets_handles_pass_and_holds_for_runs() -> None:
    server = Server("lab")
    server.middleware(SizeLimit(100))

    @server.tool(task=True)
    def tell() -> str:
        return "x" * 101

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await until(client, await begin(client, "tell"), "completed")
        assert done["result"]["isError"] is True
        assert "too large" in done["result"]["content"][0]["text"]
    async with connect(server, revision="2025-11-25") as client:
        created = await begin(client, "tell", task={})
        result = await client.request("tasks/result", {"taskId": created["task"]["taskId"]})
        assert "too large" in result["content"][0]["text"]


async def test_it_may_make_another_handle_of_one() -> None:
    server = Server("lab")
    types: list[str] = []

    @server.middleware("tools/call")
    async def note(call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        types.append(result.type)
        return {**result, "_meta": {"com.example/noted": True}}

    @server.tool(task=True)
    def tell() -> str:
        return "x"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "tell")
        assert task["_meta"]["com.example/noted"] is True
        await until(client, task, "completed")
    async with connect(server, revision="2025-11-25") as client:
        created = await begin(client, "tell", task={})
        assert created["_meta"]["com.example/noted"] is True
        result = await client.request("tasks/result", {"taskId": created["task"]["taskId"]})
        assert result["content"][0]["text"] == "x"
    assert types == ["task", "complete"] * 2


async def test_the_access_log_tells_runs_from_calls(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpkit.access")
    server = Server("lab")
    server.middleware(AccessLog())

    @server.tool(task=True)
    def tell() -> str:
        return "x"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        await until(client, await begin(client, "tell"), "completed")
    lines = [record for record in caplog.records if record.getMessage().startswith("tools/call")]
    assert [vars(record)["mcp_attempt"] for record in lines] == [None, 1]
    assert lines[1].getMessage().startswith("tools/call 'tell' run 1 ok")


async def test_arguments_that_it_changes_are_changed_once() -> None:
    server = Server("lab")

    @server.middleware("tools/call")
    async def add_tax(call: Any, call_next: Any) -> Any:
        return await call_next(call.with_arguments({**call.arguments, "price": call.arguments["price"] * 2}))

    @server.tool(task=True)
    def pay(price: int) -> str:
        return f"paid {price}"

    meta = {"mcpkit/idempotencyKey": "one"}
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "pay", {"price": 10}, _meta=meta)
        done = await until(client, task, "completed")
        assert done["result"]["structuredContent"] == "paid 20"
        again = await begin(client, "pay", {"price": 10}, _meta=meta)
        assert again["taskId"] == task["taskId"]
