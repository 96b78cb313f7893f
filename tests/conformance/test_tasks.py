"""Tasks of 2025-11-25: what travels, each message judged by the schema."""

import asyncio
from datetime import datetime

import pytest

from mcpkit import Principal
from tests.helpers.handshake_tasks import ADA, RELATED, REVISION, OpenPipe, begin, get_task, server_of
from tests.helpers.pipe import Pipe


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


# What is declared and listed


@pytest.mark.parametrize("revision", ["2025-06-18", REVISION, "2026-07-28"])
@pytest.mark.parametrize("principal", [ADA, Principal(None)], ids=["ada", "anyone"])
async def test_tasks_are_declared_in_2025_11_25_only(speak, revision, principal) -> None:
    server = server_of(add)
    async with speak(server, principal, revision) as pipe:
        if revision == "2026-07-28":
            declared = (await pipe.result("server/discover"))["capabilities"]
        else:
            other = Pipe(server, revision, pipe.folder, principal)
            declared = (await other.initialize())["capabilities"]
            await other.connection.aclose()
        listed = {"list": {}} if principal is ADA else {}
        expected = {"cancel": {}, "requests": {"tools": {"call": {}}}, **listed}
        assert declared.get("tasks") == (expected if revision == REVISION else None)
        [tool] = (await pipe.result("tools/list"))["tools"]
        assert tool.get("execution") == ({"taskSupport": "optional"} if revision == REVISION else None)


# From the beginning to the end


async def test_task_from_creation_to_result(speak: OpenPipe) -> None:
    go = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "done"

    async with speak(server_of(wait)) as pipe:
        task = await begin(pipe, "wait")
        assert (task["status"], task["ttl"]) == ("working", None)
        assert task["pollInterval"] > 0
        made = datetime.fromisoformat(task["createdAt"].replace("Z", "+00:00"))
        assert made.tzinfo is not None
        assert (await get_task(pipe, task["taskId"]))["status"] == "working"
        waiting = pipe.start("tasks/result", {"taskId": task["taskId"]})
        assert (await get_task(pipe, task["taskId"]))[
            "status"
        ] == "working"  # answered while the result is waited for
        go.set()
        while (message := await pipe.receive()).get("id") != waiting:
            assert message["method"] == "notifications/tasks/status"
        result = message["result"]
        assert result["content"][0]["text"] == "done"
        assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
        over = await get_task(pipe, task["taskId"])
        assert over["status"] == "completed"
        assert over["ttl"] >= 86_400_000
        assert over["createdAt"] == task["createdAt"]
        assert (await pipe.result("tasks/result", {"taskId": task["taskId"]}))["content"] == result["content"]


# Cancelling


async def test_cancelled_task_stops_and_has_no_result(speak: OpenPipe) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def continue_work() -> None:
        """Go on."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with speak(server_of(continue_work)) as pipe:
        id_ = (await begin(pipe, "continue_work"))["taskId"]
        waiting = pipe.start("tasks/result", {"taskId": id_})
        await asyncio.wait_for(started.wait(), 10)
        cancelled = await pipe.result("tasks/cancel", {"taskId": id_})
        assert (cancelled["taskId"], cancelled["status"]) == (id_, "cancelled")
        await asyncio.wait_for(stopped.wait(), 10)
        answers = {message["id"]: message for message in await pipe.answered() if "id" in message}
        assert answers[waiting]["error"]["code"] == -32602
        again = await pipe.error("tasks/cancel", {"taskId": id_})
        assert again["code"] == -32602
        assert "cancelled" in again["message"]
        assert (await pipe.error("tasks/result", {"taskId": id_}))["code"] == -32602
        assert (await get_task(pipe, id_))["status"] == "cancelled"


# Bad input


async def test_task_params_of_wrong_type_are_invalid_params(speak: OpenPipe) -> None:
    async with speak(server_of(add)) as pipe:
        for task in (None, 5, "x", [], {"ttl": "1"}, {"ttl": -1}, {"ttl": True}, {"ttl": [1]}):
            params = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": task}
            error = await pipe.error("tools/call", params)
            assert (error["code"], "task" in error["message"]) == (-32602, True), task
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            for params in ({}, {"taskId": 5}, {"taskId": None}, {"taskId": "x"}, {"taskId": "é" * 64}):
                assert (await pipe.error(method, params))["code"] == -32602, (method, params)
