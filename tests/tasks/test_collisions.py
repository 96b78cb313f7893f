"""What happens to a task while something else does: its process ends, its run is lost, its record is full."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from mcpkit import Context, Memory, ProtocolError, Server, Task, Tasks
from mcpkit.state.queue import Message
from mcpkit.tasks import ledger
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, look, until
from tests.helpers.waiting import until as eventually

pytestmark = pytest.mark.anyio


class Slow(Memory):
    """An engine that is slow to say that a task has become something.

    Attributes:
        status: What.
        reached: Set when that is written.
        released: Set when it may be.
    """

    def __init__(self, status: str) -> None:
        super().__init__()
        self.status = status
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def change(self, *args: Any, message: Message | None = None, **options: Any) -> str | None:
        """Do so when it may be."""
        if message is not None and f'"{self.status}"' in message.text:
            self.reached.set()
            await self.released.wait()
        return await super().change(*args, message=message, **options)


def asking(shared: Memory) -> Server:
    server = Server("lab", secret="a secret of sixteen and more", shared=shared)

    @server.tool(task=Task(rerun="safe"))
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value or "nobody"

    return server


async def test_a_question_that_is_written_while_its_process_ends_waits_for_its_answer() -> None:
    shared = Slow("input_required")
    async with connect(asking(shared), capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        await shared.reached.wait()
        asyncio.get_running_loop().call_later(0.05, shared.released.set)
    async with connect(asking(shared), capabilities=KNOWS_TASKS) as client:
        assert (await until(client, task, "input_required"))["inputRequests"].keys() == {"#1"}
        await answer(client, task, **{"#1": "Ada"})
        assert (await until(client, task, "completed"))["result"]["structuredContent"] == "Ada"


async def test_a_task_that_is_lost_and_comes_here_again_completes() -> None:
    class Unrenewed(Memory):
        async def renew(self, *_: object) -> set[str]:
            raise OSError("it is away")

    server = Server("lab", shared=Unrenewed(), tasks=Tasks(lease=0.3))
    first_has_ended = asyncio.Event()

    @server.tool(task=Task(rerun="safe"))
    async def work(ctx: Context) -> int:
        if ctx.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await second_has_begun.wait()
                first_has_ended.set()
        second_has_begun.set()
        await first_has_ended.wait()
        await asyncio.sleep(0.05)  # in which the first run ends, too
        return ctx.attempt

    second_has_begun = asyncio.Event()
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await until(client, await begin(client, "work"), "completed")
        assert done["result"]["structuredContent"] == 2


async def test_what_must_not_run_again_does_not_where_its_server_is_entered_again() -> None:
    server = Server("lab")
    runs: list[int] = []

    @server.tool(task=Task(rerun="never"))
    async def pay(ctx: Context) -> None:
        runs.append(ctx.attempt)
        await asyncio.Event().wait()

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "pay")
        await eventually(lambda: runs)
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        failed = await until(client, task, "failed")
    assert "whether its work was done cannot be told" in failed["error"]["message"]
    assert runs == [1]


async def test_a_task_whose_record_has_no_room_for_its_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_RECORD", 4000)
    server = Server("lab")

    @server.tool(task=True)
    async def work(text: str) -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task, size = None, 4000
        while task is None:
            size -= 1
            with suppress(ProtocolError):
                task = await begin(client, "work", {"text": "a" * size})
        failed = await until(client, task, "failed")
        assert "at most 4,000 are kept: keep what is large elsewhere" in failed["error"]["message"]


async def test_a_value_that_is_too_large_to_be_kept_leaves_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "MAX_RECORD", 4000)
    server = Server("lab")

    @server.tool(task=True)
    async def work(ctx: Context) -> str:
        with pytest.raises(ledger.TooLargeError):
            await ctx.once("large", lambda: "a" * 5000)
        return await ctx.once("small", lambda: "b")

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await until(client, await begin(client, "work"), "completed")
        assert done["result"]["structuredContent"] == "b"


async def test_a_key_whose_value_was_none_may_be_used_again() -> None:
    server = Server("lab")

    @server.tool(task=True)
    async def work(ctx: Context) -> Any:
        with pytest.raises(TypeError, match="a tuple"):
            await ctx.once("a", lambda: (1, 2))
        return await ctx.once("a", lambda: "b")

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await until(client, await begin(client, "work"), "completed")
        assert done["result"]["content"][0]["text"] == "b"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["a", "b"])
async def test_questions_of_several_coroutines_are_open_at_once(first: str) -> None:
    server = Server("lab", shared=(shared := Slow("input_required")), tasks=Tasks(lease=0.5))

    @server.tool(task=Task(rerun="never", timeout=0.5))
    async def ask(ctx: Context) -> list[str | None]:
        answers = await asyncio.gather(*(ctx.elicit(f"{key}?", str, key=key) for key in "ab"))
        return [each.value for each in answers]

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        await shared.reached.wait()
        await asyncio.sleep(0)
        shared.released.set()
        while (await until(client, task, "input_required"))["inputRequests"].keys() != {"a", "b"}:
            await asyncio.sleep(0.005)
        await answer(client, task, **{first: "first"})
        await asyncio.sleep(1)  # longer than the lease, and what is left of the time-out
        assert (await look(client, task))["status"] == "input_required"
        other = "b" if first == "a" else "a"
        await answer(client, task, **{other: "other"})
        done = await until(client, task, "completed")
        assert sorted(done["result"]["structuredContent"]) == ["first", "other"]


@pytest.mark.parametrize("depth", [197, 200])
async def test_a_value_that_is_as_deep_as_one_can_be_is_kept(depth: int) -> None:
    server = Server("lab", question_timeout=600)
    value: Any = 1
    for _ in range(depth):
        value = [value]

    @server.tool(task=Task(rerun="safe"))
    async def work(ctx: Context) -> bool:
        kept = await ctx.once("deep", lambda: value)
        await ctx.elicit("Go on?", bool)
        return kept == value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await until(client, task, "input_required")
        await answer(client, task, **{"#1": True})
        assert (await until(client, task, "completed"))["result"]["structuredContent"] is True
