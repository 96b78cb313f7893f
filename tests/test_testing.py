"""The in-memory client that authors test their servers with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpkit import Context, Depends, Limits, ProtocolError, RegistrationError, Server
from mcpkit.protocol.revisions import ALL
from mcpkit.testing import TestClient, connect, override

pytestmark = pytest.mark.anyio


def make_server() -> Server:
    server = Server("weather", version="2", instructions="Ask.", limits=Limits(page_size=2))

    @server.tool
    async def forecast(city: str) -> str:
        return f"sunny in {city}"

    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.warning("careful")
        return "done"

    @server.tool
    async def third() -> dict[str, int]:
        return {"x": 1}

    @server.resource("data://x")
    def x() -> str:
        return "x"

    @server.prompt(name="plan:trip", complete={"city": ["Rome"]})
    def plan(city: str) -> str:
        return city

    return server


@pytest.fixture(params=ALL)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[TestClient]:
    async with connect(make_server(), protocol_version=request.param) as client:
        yield client


async def test_progress_and_messages_arrive(client: TestClient) -> None:
    seen = []
    level = "debug" if client.protocol_version == "2026-07-28" else None
    await client.call_tool("work", progress=lambda *report: seen.append(report), log_level=level)
    assert [report[:2] for report in seen] == [(1, 2)]
    assert (await client.notification("notifications/message"))["data"] == "careful"
    assert client.notifications == []


async def test_client_of_each_revision_calls_reads_and_prompts(client: TestClient) -> None:
    result = await client.call_tool("forecast", {"city": "Rome"})
    assert (result.text, result.is_error) == ("sunny in Rome", False)
    assert (await client.read_resource("data://x"))[0]["text"] == "x"
    assert (await client.get_prompt("plan:trip", {"city": "Rome"}))[0]["content"]["text"] == "Rome"


async def test_pending_call_of_a_closed_client_fails() -> None:
    server = Server("s")
    started = asyncio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    async with connect(server) as client:
        task = asyncio.ensure_future(client.call_tool("wait"))
        await started.wait()
    with pytest.raises(ConnectionError, match="closed"):
        await asyncio.wait_for(task, 10)


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Whom?", str)).value

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_exception_of_the_answers_function_is_raised_by_the_call(revision: str) -> None:
    def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"{method} was not expected")

    async with connect(asking_server(), protocol_version=revision, request_handler=answers) as client:
        with pytest.raises(AssertionError, match="elicitation/create was not expected"):
            await client.call_tool("ask")


server = Server("curious")


@server.tool
async def interview(count: int, ctx: Context) -> int:
    """Ask for one number after the other."""
    total = 0
    for number in range(count):
        total += (await ctx.elicit(f"Number {number}?", int)).value
    return total


def one(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": 1}}


async def test_eleventh_round_is_an_error_with_advice() -> None:
    async with connect(server, request_handler=one) as client:
        assert (await client.call_tool("interview", {"count": 10})).structured_content == 10
        with pytest.raises(ProtocolError, match=r"in 10 rounds, and asks again: clients give up .* ctx\.ask"):
            await client.call_tool("interview", {"count": 11})


async def test_override_replaces_a_dependency_within_its_block() -> None:
    def tenant() -> str:
        return "production"

    server = Server("shop")

    @server.tool
    def show(name: str = Depends(tenant)) -> str:
        return name

    async with connect(server) as client:
        with override(server, tenant, lambda: "test"):
            assert (await client.call_tool("show")).text == "test"
        assert (await client.call_tool("show")).text == "production"


def test_override_of_what_nothing_depends_on_is_refused() -> None:
    with pytest.raises(RegistrationError, match="depends on"), override(Server("shop"), lambda: 1, lambda: 2):
        pass
