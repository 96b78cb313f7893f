"""A call outlives its channel: whoever has sent it is answered and gone, and it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.testing import connect
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

KNOWS: dict[str, Any] = {"extensions": {"com.example/tasks": {}}, "elicitation": {"form": {}}}


class Shop:
    """A server with the toy, whose tools the test leads."""

    def __init__(self, tasks: Any) -> None:
        self.go = asyncio.Event()
        self.ended = asyncio.Event()
        self.server = Server("shop", max_running=2)
        self.server.include(tasks)
        self.server.tool(self.bake)
        self.server.tool(self.paint)

    async def bake(self, ctx: Context) -> str:
        try:
            await ctx.progress(1, 2)
            await self.go.wait()
            await ctx.progress(2, 2)
        finally:
            self.ended.set()
        return "baked"

    async def paint(self, ctx: Context) -> str:
        answer = await ctx.elicit("Which colour?", str)
        return f"painted {answer.value}"

    async def start(self, name: str) -> tuple[Any, Any]:
        """Begin a task, and leave."""
        from tests.wings.background import running

        async with connect(self.server, capabilities=KNOWS) as client:
            meta = {"progressToken": "p"}
            result = await client.request("tools/call", {"name": name, "_meta": meta})
            assert result["resultType"] == "task"
        return running[result["taskId"]]


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    from tests.wings.background import tasks

    shop = Shop(tasks)
    async with shop.server.running():
        yield shop


async def test_it_goes_on_when_its_client_has_gone(shop: Shop) -> None:
    job, mailbox = await shop.start("bake")
    assert not shop.ended.is_set()
    shop.go.set()
    assert (await job.result())["content"] == [{"type": "text", "text": "baked"}]
    assert [each["params"]["progress"] for each in mailbox.messages] == [1, 2]


async def test_it_waits_for_answers_though_its_era_has_none(shop: Shop) -> None:
    job, mailbox = await shop.start("paint")
    await until(lambda: mailbox.messages)
    asked = mailbox.messages[0]
    assert asked["method"] == "elicitation/create"
    result = {"action": "accept", "content": {"value": "red"}}
    mailbox.questions.answer({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    assert (await job.result())["content"][0]["text"] == "painted red"


async def test_it_is_stopped(shop: Shop) -> None:
    job, _ = await shop.start("bake")
    await until(lambda: job.is_running)
    job.cancel()
    await asyncio.wait_for(shop.ended.wait(), 10)
    with pytest.raises(asyncio.CancelledError):
        await job.result()


async def test_it_counts_among_what_runs(shop: Shop) -> None:
    job, _ = await shop.start("bake")
    with pytest.raises(ProtocolError, match="requests are running"):
        await shop.start("bake")
    shop.go.set()
    await job.result()
    await shop.start("bake")


async def test_it_ends_with_the_server() -> None:
    from tests.wings.background import tasks

    shop = Shop(tasks)
    async with shop.server.running():
        job, _ = await shop.start("bake")
    assert shop.ended.is_set()
    assert not job.is_running
